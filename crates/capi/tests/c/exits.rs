//! Programs that end without `mtcp_destroy`.

use std::net::SocketAddr;
use std::time::Instant;

use mtcp::{Config, Domain, Mtcp};

use crate::support::{DEADLINE, Lab, Running, compile};

/// What a peer gets from a program that ends so.
fn arrives(how: &str, mode: &str) -> usize {
    let lab = Lab::new();
    let program = compile("tests/c/exits.c", lab.dir.path());
    let conf = lab.conf("server.conf", 2, mode);
    let server = Running::start(lab.command(&program).arg(conf).arg(how));
    let config = Config::load(&lab.conf("client.conf", 3, "mode = inline")).unwrap();
    let mtcp = Mtcp::init(config).unwrap();
    let mut context = mtcp.context(0).unwrap();
    let remote: SocketAddr = "10.0.0.2:80".parse().unwrap();
    let end = Instant::now() + DEADLINE;
    let socket = loop {
        let socket = context.socket(Domain::V4).unwrap();
        match context.connect(socket, remote) {
            Ok(()) => break socket,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        context.close(socket).unwrap();
    };
    assert_eq!(context.write(socket, b"x"), Ok(1));
    let (mut got, mut buffer) = (0, [0; 4096]);
    loop {
        match context.read(socket, &mut buffer) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) => panic!("{how}: {got} bytes, then {error}"),
        }
    }
    context.close(socket).unwrap();
    let _ = context.poll();
    let output = server.finish();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    got
}

#[test]
fn what_was_written_arrives_though_nobody_ends_the_context() {
    for mode in ["mode = paired", "mode = inline"] {
        for how in ["closed", "open", "elsewhere", "busy"] {
            assert_eq!(arrives(how, mode), 20_000, "{how}, {mode}");
        }
    }
}
