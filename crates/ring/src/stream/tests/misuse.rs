//! Wrong calls are refused or clamped, and do no harm.

use super::*;

#[test]
fn slots_that_do_not_exist() {
    let (mut stack, mut app) = pair(2, 64);
    for slot in [2, u32::MAX] {
        assert_eq!(stack.open(slot, limits(1, 1)), Err(StreamError::NoSlot));
        assert_eq!(stack.grant(slot), Err(StreamError::NoSlot));
        assert_eq!(stack.write_at(slot, 0, b"x"), Err(StreamError::NoSlot));
        stack.commit(slot, 1);
        stack.consume(slot, 1);
        stack.set_status(slot, Status::EOF);
        stack.set_recv_limit(slot, 1);
        stack.set_send_limit(slot, 1);
        stack.prefetch(slot);
        assert_eq!(
            (
                stack.recv_unread(slot),
                stack.recv_free(slot),
                stack.send_len(slot)
            ),
            (0, 0, 0)
        );
        assert_eq!(
            (
                stack.trim(slot, false),
                stack.close(slot),
                stack.app_released(slot)
            ),
            (false, false, false)
        );
        assert!(!stack.app_wants_space(slot) && stack.peek(slot, 0, 1).is_empty());
        app.release(slot);
        assert_eq!(
            (
                app.read(slot, &mut [0]),
                app.peek(slot, &mut [0]),
                app.write(slot, b"x")
            ),
            (0, 0, 0)
        );
        assert_eq!(
            (app.readable(slot), app.writable(slot), app.unsent(slot)),
            (0, 0, 0)
        );
        assert!(!app.trim(slot) && !app.window_update_due(slot) && !app.holds(slot));
    }
}

#[test]
fn slots_that_are_not_open() {
    let (mut stack, mut app) = pair(1, 64);
    assert_eq!(stack.write_at(0, 0, b"x"), Err(StreamError::NotOpen));
    stack.commit(0, 5);
    stack.consume(0, 5);
    stack.set_status(0, Status::CONNECTED);
    stack.set_recv_limit(0, 5);
    app.release(0);
    assert!(stack.app_released(0) && !stack.close(0));
    assert_eq!((app.write(0, b"x"), app.status(0)), (0, Status::empty()));
    stack.open(0, limits(0, 0)).unwrap();
    assert_eq!(stack.write_at(0, 0, b""), Ok(()));
    assert_eq!(stack.write_at(0, 0, b"x"), Err(StreamError::BeyondLimit));
    assert_eq!(app.write(0, b"x"), 0);
}

#[test]
fn lies_about_counts() {
    let (mut stack, mut app) = open(64, 8 * KIB);
    stack.commit(0, u32::MAX);
    assert_eq!(app.readable(0), 0, "nothing was placed");
    stack.write_at(0, 0, b"abc").unwrap();
    stack.commit(0, u32::MAX);
    assert_eq!(read_all(&mut app, 0), b"abc");
    assert_eq!(app.skip(0, u32::MAX), 0);
    stack.write_at(0, 5, b"xyz").unwrap();
    assert!(stack.trim(0, false), "says that nothing is out of order");
    stack.commit(0, 8);
    assert_eq!(app.readable(0), 0);
    assert_eq!(app.write(0, b"abc"), 3);
    assert!(stack.peek(0, 3, 1).is_empty() && stack.peek(0, u32::MAX, u32::MAX).is_empty());
    stack.consume(0, u32::MAX);
    assert_eq!(stack.send_len(0), 0);
}

#[test]
fn one_end_gone() {
    let (stack, mut app) = open(64, 8 * KIB);
    drop(stack);
    assert_eq!((app.write(0, b"x"), app.readable(0)), (1, 0));
    app.release(0);
    let (mut stack, app) = open(64, 8 * KIB);
    drop(app);
    receive(&mut stack, 0, b"x");
    assert!(!stack.close(0));
}

#[test]
fn sizes_at_the_edge() {
    let mut odd = config(0, 0);
    odd.max_buffer = 0;
    let (mut stack, mut app) = streams(&odd).unwrap();
    assert_eq!(stack.open(0, limits(1, 1)), Err(StreamError::NoSlot));
    assert_eq!(app.poll_starved(), None);
    odd.slots = 1;
    odd.max_buffer = u32::MAX;
    let (mut stack, mut app) = streams(&odd).unwrap();
    stack.open(0, limits(u32::MAX, u32::MAX)).unwrap();
    assert_eq!(stack.recv_limit(0), 32 << 20);
    assert_eq!(app.write(0, &[1; 3000]), 512, "the smallest pool");
    odd.send_pool_bytes = usize::MAX;
    assert!(streams(&odd).is_err());
}
