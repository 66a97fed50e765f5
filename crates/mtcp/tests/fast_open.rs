//! TCP Fast Open: data that goes with the SYN, once the server has given a cookie.
#![allow(clippy::unwrap_used)]

mod support;

use mtcp::{Context, Domain, Errno, SendFlags, SocketId, SocketOption};
use support::{SERVER, World, addr};

const PORT: u16 = 80;

/// A world whose client has the server's cookie.
fn acquainted() -> (World, SocketId) {
    let mut world = World::new();
    let listener = world.listen(PORT);
    allow(&mut world.server, listener);
    let socket = client(&mut world);
    let sent = send_fast(&mut world.client, socket, b"first");
    assert_eq!(sent, Err(Errno::EINPROGRESS));
    let accepted = world.accept(listener);
    // Nothing was written.
    let read = world.server.read(accepted, &mut [0; 9]);
    assert_eq!(read, Err(Errno::EAGAIN));
    world.client.abort(socket).unwrap();
    world.server.abort(accepted).unwrap();
    world.settle();
    (world, listener)
}

fn allow(server: &mut Context, listener: SocketId) {
    server
        .set_option(listener, SocketOption::FastOpen(8))
        .unwrap();
}

fn client(world: &mut World) -> SocketId {
    let socket = world.client.socket(Domain::V4).unwrap();
    world.client.set_nonblocking(socket, true).unwrap();
    socket
}

fn send_fast(client: &mut Context, socket: SocketId, bytes: &[u8]) -> mtcp::Result<usize> {
    let peer = Some(addr(SERVER, PORT));
    client.send_to(socket, bytes, SendFlags::FASTOPEN, peer)
}

#[test]
fn data_goes_with_the_syn() {
    let (mut world, listener) = acquainted();
    let socket = client(&mut world);
    assert_eq!(send_fast(&mut world.client, socket, b"hello"), Ok(5));
    let accepted = world.accept(listener);
    assert!(world.server.info(accepted).unwrap().syn_data);
    assert_eq!(world.server.read(accepted, &mut [0; 9]), Ok(5));
    world.settle();
    let info = world.client.info(socket).unwrap();
    assert!(info.syn_data);
    assert_eq!((info.bytes_acked, info.data_segments_out), (5, 1));
}

#[test]
fn more_than_fits_into_the_syn_follows() {
    let (mut world, listener) = acquainted();
    let socket = client(&mut world);
    assert_eq!(send_fast(&mut world.client, socket, &[7; 9000]), Ok(9000));
    let accepted = world.accept(listener);
    let mut read = 0;
    world.until(|world| {
        read += world.server.read(accepted, &mut [0; 9000]).unwrap_or(0);
        (read == 9000).then_some(())
    });
    assert!(world.client.info(socket).unwrap().syn_data);
}

#[test]
fn connecting_waits_for_the_first_write() {
    let (mut world, listener) = acquainted();
    let socket = client(&mut world);
    let option = SocketOption::FastOpenConnect(true);
    world.client.set_option(socket, option).unwrap();
    assert_eq!(world.client.connect(socket, addr(SERVER, PORT)), Ok(()));
    world.settle();
    assert_eq!(
        world.server.accept(listener).err(),
        Some(Errno::EAGAIN),
        "no SYN yet"
    );
    assert_eq!(world.client.peer_addr(socket), Err(Errno::ENOTCONN));
    assert_eq!(world.client.write(socket, b"hello"), Ok(5));
    // The handshake is not complete: the next write waits for it.
    assert_eq!(world.client.write(socket, b"again"), Err(Errno::EAGAIN));
    let accepted = world.accept(listener);
    assert_eq!(world.server.read(accepted, &mut [0; 9]), Ok(5));
}

#[test]
fn a_peer_has_to_be_named() {
    let mut world = World::new();
    let socket = client(&mut world);
    let sent = world.client.send(socket, b"x", SendFlags::FASTOPEN);
    assert_eq!(sent, Err(Errno::EINVAL));
}
