//! What is found of streams whose process is gone.

use std::sync::Arc;

use super::*;
use crate::region::{Plot, Plots};

const POOL_KIB: u32 = 512;

fn plots() -> Arc<Plots> {
    let bytes = Remains::size(&config(4, POOL_KIB)).unwrap();
    Plots::create("streams", 1, bytes).unwrap()
}

/// Streams in the plot, with slot 1 open.
fn made(plots: &Arc<Plots>) -> (StackStreams, AppStreams) {
    let mut plot = plots.take(0).unwrap();
    let (mut stack, app) =
        streams_on(Some(&mut plot), &config(4, POOL_KIB), PagePolicy::Small).unwrap();
    let limits = limits(64 * KIB, 64 * KIB);
    stack.open(1, limits).unwrap();
    (stack, app)
}

/// All that is left of slot 1.
fn left(plot: &Plot) -> Option<(LeftUnsent, Vec<u8>)> {
    let remains = Remains::new(plot, &config(4, POOL_KIB)).unwrap();
    let unsent = remains.of(1)?;
    let mut bytes = vec![0; unsent.len as usize];
    assert!(remains.copy(&unsent, unsent.head, &mut bytes));
    let mut more = vec![0; unsent.len as usize + 1];
    assert!(!remains.copy(&unsent, unsent.head, &mut more));
    assert!(!remains.copy(&unsent, unsent.head.wrapping_sub(1), &mut [0]));
    Some((unsent, bytes))
}

#[test]
fn what_was_not_acknowledged_is_there() {
    let plots = plots();
    let (mut stack, mut app) = made(&plots);
    receive(&mut stack, 1, b"a request");
    // Round the end of the first buffer, and on into a larger one.
    for from in 0..4 {
        assert_eq!(app.write(1, &counting(from * 1500, 1500)), 1500);
        stack.consume(1, if from < 3 { 1400 } else { 0 });
    }
    drop((stack, app));
    let (unsent, bytes) = left(&plots.take(0).unwrap()).unwrap();
    assert_eq!(bytes, counting(4200, 1800));
    assert!(unsent.unread);
}

#[test]
fn what_was_read_and_acknowledged_leaves_nothing() {
    let plots = plots();
    let (mut stack, mut app) = made(&plots);
    receive(&mut stack, 1, b"a request");
    read_all(&mut app, 1);
    app.write(1, b"an answer");
    stack.consume(1, 9);
    app.release(1);
    drop((stack, app));
    let (unsent, bytes) = left(&plots.take(0).unwrap()).unwrap();
    assert_eq!((unsent.unread, bytes), (false, Vec::new()));
}

#[test]
fn slots_that_are_not_open_leave_nothing() {
    let plots = plots();
    let (mut stack, mut app) = made(&plots);
    app.write(1, b"an answer");
    app.release(1);
    stack.close(1);
    drop((stack, app));
    let mut plot = plots.take(0).unwrap();
    assert!(left(&plot).is_none());
    plot.clear().unwrap();
    let remains = Remains::new(&plot, &config(4, POOL_KIB)).unwrap();
    assert!((0..9).all(|slot| remains.of(slot).is_none()));
}

/// Another process may have written anything.
#[test]
fn any_bytes_are_taken() {
    let plots = plots();
    for fill in (0..=255).chain([0xff, 0x80, 0x01]) {
        let mut plot = plots.take(0).unwrap();
        let size = Remains::size(&config(4, POOL_KIB)).unwrap();
        let mut region = plot.region(size).unwrap();
        for (at, byte) in region.as_mut_slice()[..4096].iter_mut().enumerate() {
            *byte = fill ^ (at as u8).wrapping_mul(fill);
        }
        drop((plot, region));
        left(&plots.take(0).unwrap());
    }
}
