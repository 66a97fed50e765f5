//! Both ends of a connection in one context: on a link of the process to itself at the loopback
//! addresses, and beside any other link at its own.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::net::SocketAddr;
use std::time::Instant;

use mtcp::{Context, Domain, Errno, Mtcp, SocketId};
use support::DEADLINE;

fn context() -> (Mtcp, Context) {
    let mut config = support::config(support::Mode::Inline, "127.0.0.1/8 ::1/128");
    config.set("io", "loop:lo").unwrap();
    let mtcp = Mtcp::init(config).unwrap();
    let context = mtcp.context(0).unwrap();
    (mtcp, context)
}

/// Turns until a call no longer says that it would wait.
fn finish<T>(
    context: &mut Context,
    mut call: impl FnMut(&mut Context) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let start = Instant::now();
    loop {
        match call(context) {
            Err(Errno::EAGAIN | Errno::EINPROGRESS | Errno::EALREADY) => {}
            result => return result,
        }
        assert!(start.elapsed() < DEADLINE, "nothing comes");
        context.poll().unwrap();
    }
}

fn socket(context: &mut Context, domain: Domain) -> SocketId {
    let id = context.socket(domain).unwrap();
    context.set_nonblocking(id, true).unwrap();
    id
}

fn talk(domain: Domain, at: &str) {
    talk_in(&mut context().1, domain, at);
}

fn talk_in(context: &mut Context, domain: Domain, at: &str) {
    let at: SocketAddr = at.parse().unwrap();
    let listener = socket(context, domain);
    context.bind(listener, at).unwrap();
    context.listen(listener, 4).unwrap();
    let client = socket(context, domain);
    assert_eq!(finish(context, |c| c.connect(client, at)), Ok(()));
    let (server, from) = finish(context, |c| c.accept(listener)).unwrap();
    context.set_nonblocking(server, true).unwrap();
    assert_eq!(from, context.local_addr(client).unwrap());
    assert_eq!(from.ip(), at.ip());
    let data: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
    let (mut sent, mut got) = (0, Vec::new());
    let mut buf = vec![0; 65536];
    while got.len() < data.len() {
        sent += match context.write(client, &data[sent..]) {
            Err(Errno::EAGAIN) => 0,
            n => n.unwrap(),
        };
        let n = finish(context, |c| c.read(server, &mut buf)).unwrap();
        got.extend_from_slice(&buf[..n]);
    }
    assert!(got == data);
    context.close(client).unwrap();
    assert_eq!(finish(context, |c| c.read(server, &mut buf)), Ok(0));
}

#[test]
fn of_ipv4() {
    talk(Domain::V4, "127.0.0.1:80");
}

#[test]
fn of_ipv6() {
    talk(Domain::V6, "[::1]:80");
}

#[test]
fn nobody_listens() {
    let (_mtcp, mut context) = context();
    let client = socket(&mut context, Domain::V4);
    let at = "127.0.0.1:81".parse().unwrap();
    let refused = finish(&mut context, |c| c.connect(client, at));
    assert_eq!(refused, Err(Errno::ECONNREFUSED));
}

/// A socket that connects to itself opens simultaneously (RFC 9293 §3.5).
#[test]
fn to_itself() {
    let (_mtcp, mut context) = context();
    let lonely = socket(&mut context, Domain::V4);
    let at: SocketAddr = "127.0.0.1:82".parse().unwrap();
    context.bind(lonely, at).unwrap();
    assert_eq!(finish(&mut context, |c| c.connect(lonely, at)), Ok(()));
    assert_eq!(context.write(lonely, b"echo"), Ok(4));
    let mut buf = [0; 9];
    assert_eq!(finish(&mut context, |c| c.read(lonely, &mut buf)), Ok(4));
}

/// A link to others, and our own address, while a peer is asked nothing.
#[test]
fn beside_a_link_to_others() {
    for mode in support::MODES {
        let (mut client, _server) = support::contexts(mode, support::Mode::Paired);
        let at = format!("{}:80", support::CLIENT);
        talk_in(&mut client, Domain::V4, &at);
        let nobody = socket(&mut client, Domain::V4);
        let refused = finish(&mut client, |c| {
            c.connect(nobody, support::addr(support::CLIENT, 81))
        });
        assert_eq!(refused, Err(Errno::ECONNREFUSED));
    }
}
