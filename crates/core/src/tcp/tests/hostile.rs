//! Anything may come, in any state: nothing panics, nothing grows without bound, nothing is left.

use proptest::prelude::*;
use wire::tcp::TcpFlags;

use crate::command::{Command, Options};
use crate::event::Event;
use crate::testing::{Handshake, Harness, seg};

#[derive(Clone, Debug)]
enum Op {
    Segment {
        flags: u16,
        seq: u32,
        ack: u32,
        window: u16,
        len: usize,
        stamps: Option<u32>,
        sack: Option<(u32, u32)>,
        port: u16,
    },
    Write(usize),
    Read,
    Shutdown,
    Wait(u64),
    Full,
}

/// Numbers near the edges where mistakes live, and sometimes anything.
fn near_edges() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => 0u32..4,
        8 => 1u32..3000,
        2 => 60_000u32..70_000,
        1 => any::<u32>(),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let segment = (
        prop_oneof![
            6 => Just(TcpFlags::ACK.bits()),
            2 => Just((TcpFlags::ACK | TcpFlags::FIN).bits()),
            1 => Just(TcpFlags::SYN.bits()),
            1 => Just((TcpFlags::SYN | TcpFlags::ACK).bits()),
            1 => Just(TcpFlags::RST.bits()),
            2 => 0u16..64,
        ],
        near_edges(),
        near_edges(),
        prop_oneof![Just(0u16), 1u16..2000, Just(60_000u16)],
        prop_oneof![Just(0usize), 0usize..1200],
        prop::option::of(prop_oneof![990u32..1020, any::<u32>()]),
        prop::option::of((near_edges(), near_edges())),
        prop_oneof![8 => Just(5000u16), 1 => 5001u16..5004],
    );
    let segment =
        segment.prop_map(
            |(flags, seq, ack, window, len, stamps, sack, port)| Op::Segment {
                flags,
                seq,
                ack,
                window,
                len,
                stamps,
                sack,
                port,
            },
        );
    prop_oneof![
        12 => segment,
        3 => (1usize..5000).prop_map(Op::Write),
        2 => Just(Op::Read),
        1 => Just(Op::Shutdown),
        2 => prop_oneof![1u64..50, 100u64..3000, Just(100_000)].prop_map(Op::Wait),
        1 => Just(Op::Full),
    ]
}

fn apply(h: &mut Harness, op: Op) {
    match op {
        Op::Segment {
            flags,
            seq,
            ack,
            window,
            len,
            stamps,
            sack,
            port,
        } => {
            let mut segment = seg().seq(seq).ack(ack).win(window).len(len).port(port);
            segment = segment.with_flags(TcpFlags::from_bits_truncate(flags));
            if let Some(tsval) = stamps {
                segment = segment.ts(tsval, 0);
            }
            if let Some(block) = sack {
                segment = segment.sack(&[block]);
            }
            h.send(segment);
        }
        Op::Write(len) => {
            if let Some(conn) = h.conn {
                let written = h.app.write(conn.slot, &vec![7; len]);
                assert!(written <= len);
                let _ = h.stack.execute(h.now(), Command::Send(conn));
                h.transmit();
            }
        }
        Op::Read => {
            if let Some(conn) = h.conn {
                let mut bytes = vec![0; h.app.readable(conn.slot) as usize];
                h.app.read(conn.slot, &mut bytes);
                let _ = h.stack.execute(h.now(), Command::Received(conn));
                h.transmit();
            }
        }
        Op::Shutdown => {
            if let Some(conn) = h.conn {
                let _ = h.stack.execute(h.now(), Command::Shutdown(conn));
                h.transmit();
            }
        }
        Op::Wait(ms) => h.advance(ms),
        Op::Full => {
            h.sink.room = if h.sink.room == 0 { usize::MAX } else { 0 };
            h.transmit();
        }
    }
    h.sink.frames.truncate(100);
    let usage = h.stack.usage();
    assert!(usage.connections <= 5 && usage.flows <= 10, "{usage:?}");
    assert!(
        usage.range_sets <= 10 && usage.recv_bytes <= 16 << 20,
        "{usage:?}"
    );
}

/// Gives everything back, and checks that nothing is left.
fn end(mut h: Harness) {
    h.sink.room = usize::MAX;
    h.transmit();
    let mut conns: Vec<_> = h.conn.into_iter().collect();
    for event in h.events() {
        if let Event::Accepted { conn, .. } = event {
            conns.push(conn);
        }
    }
    let listener = h.listener();
    h.execute(Command::Unlisten(listener));
    for conn in conns {
        h.app.release(conn.slot);
        let _ = h.stack.execute(h.now(), Command::Close(conn));
    }
    h.transmit();
    h.sink.frames.clear();
    h.advance(4_000_000);
    let usage = h.stack.usage();
    let left = (
        usage.connections,
        usage.half_open,
        usage.time_wait,
        usage.flows,
    );
    assert_eq!(left, (0, 0, 0, 0), "{usage:?}");
    let left = (usage.timers, usage.queued, usage.events, usage.range_sets);
    assert_eq!(left, (0, 0, 0, 0), "{usage:?}");
    assert_eq!(usage.recv_bytes, 0);
}

fn run(mut h: Harness, ops: Vec<Op>) {
    for op in ops {
        apply(&mut h, op);
    }
    end(h);
}

fn offer(full: bool) -> Handshake {
    Handshake {
        sack: full,
        ts: full.then_some(1000),
        wscale: full.then_some(2),
        ..Handshake::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn on_an_established_connection(full: bool, ops in prop::collection::vec(op(), 1..80)) {
        run(Harness::new().and_established(&offer(full)), ops);
    }

    #[test]
    fn on_a_listener(ops in prop::collection::vec(op(), 1..60)) {
        let mut h = Harness::new();
        h.listen(3, Options::default());
        run(h, ops);
    }

    #[test]
    fn on_a_connection_that_is_being_opened(ops in prop::collection::vec(op(), 1..60)) {
        let mut h = Harness::new();
        h.listen(3, Options::default());
        h.connect(Options::default());
        run(h, ops);
    }

    #[test]
    fn after_the_application_has_gone(ops in prop::collection::vec(op(), 1..60)) {
        let mut h = Harness::new().and_established(&offer(true));
        h.write(3000);
        h.close();
        h.conn = None;
        run(h, ops);
    }
}
