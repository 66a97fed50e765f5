//! SO_REUSEPORT.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use mtcp::{Domain, Errno, SocketId, SocketOption};
use support::{World, addr};

/// Listeners of one context that share a port get connections each; when one closes, the others get
/// all.
#[test]
fn listeners_that_share_a_port_share_its_connections() {
    let mut w = World::new();
    let listen = |w: &mut World| {
        let s = w.server.socket(Domain::V4).unwrap();
        let shares = SocketOption::ReusePort(true);
        w.server.set_option(s, shares).unwrap();
        w.server.set_nonblocking(s, true).unwrap();
        w.server.bind(s, addr("0.0.0.0", 80)).unwrap();
        w.server.listen(s, 1024).unwrap();
        s
    };
    let mut listeners = vec![listen(&mut w), listen(&mut w), listen(&mut w)];
    let spread = |w: &mut World, listeners: &[SocketId]| {
        let clients: Vec<SocketId> = (0..90).map(|_| w.connect(80)).collect();
        let mut taken = vec![0; listeners.len()];
        w.until(|w| {
            for (count, &listener) in taken.iter_mut().zip(listeners) {
                while let Ok((s, _)) = w.server.accept(listener) {
                    *count += 1;
                    w.server.close(s).unwrap();
                }
            }
            (taken.iter().sum::<usize>() == clients.len()).then_some(())
        });
        for client in clients {
            w.client.close(client).unwrap();
        }
        taken
    };
    // 30 each but for chance.
    let taken = spread(&mut w, &listeners);
    assert!(
        taken.iter().all(|count| (8..60).contains(count)),
        "{taken:?}"
    );
    w.server.close(listeners.remove(0)).unwrap();
    let taken = spread(&mut w, &listeners);
    assert!(
        taken.iter().all(|count| (15..75).contains(count)),
        "{taken:?}"
    );
    let other = w.server.socket(Domain::V4).unwrap();
    let taken = w.server.bind(other, addr("0.0.0.0", 80));
    assert_eq!(taken, Err(Errno::EADDRINUSE), "this one does not share");
}
