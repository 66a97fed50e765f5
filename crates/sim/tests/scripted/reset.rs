//! RST in every state (RFC 9293 §3.10.7, RFC 5961 §3).

use std::time::Duration;

use mtcp_core::Error;
use sim::{Ending, Plan};
use wire::tcp::TcpFlags;

use crate::common::ms;
use crate::common::script::{Flow, ISS, Script};

/// Sends FIN as soon as it is connected.
fn closer() -> Plan {
    Plan::default()
}

/// Never reads, never ends.
fn sleeper() -> Plan {
    Plan {
        first_read: Duration::from_secs(1 << 20),
        ..Plan::default().ends(Ending::AfterEof)
    }
}

fn fin(script: &mut Script, flow: &mut Flow) {
    script.send(&flow.seg().fin());
    flow.seq = flow.seq.wrapping_add(1);
    script.run(ms(3));
}

/// Acknowledges the host's FIN.
fn ack_fin(script: &mut Script, flow: &mut Flow) {
    let segments = script.take();
    assert!(
        segments.iter().any(|segment| segment.has(TcpFlags::FIN)),
        "{segments:?}"
    );
    flow.take(&segments);
    script.send(&flow.seg());
    script.run(ms(3));
}

type State = (&'static str, fn(&mut Script) -> Flow);

/// How to bring the host into each synchronised state.
const STATES: [State; 7] = [
    ("ESTABLISHED", |script| script.accepted(sleeper())),
    ("FIN-WAIT-1", |script| script.accepted(closer())),
    ("FIN-WAIT-2", |script| {
        let mut flow = script.accepted(closer());
        ack_fin(script, &mut flow);
        flow
    }),
    ("CLOSE-WAIT", |script| {
        let mut flow = script.accepted(sleeper());
        fin(script, &mut flow);
        flow
    }),
    ("CLOSING", |script| {
        let mut flow = script.accepted(closer());
        fin(script, &mut flow);
        flow
    }),
    ("LAST-ACK", |script| {
        let mut flow = script.accepted(Plan::default().ends(Ending::AfterEof));
        fin(script, &mut flow);
        flow
    }),
    ("SYN-RECEIVED", |script| {
        let (_, mut flow) = script.syn_sent(sleeper());
        let segments = script.ask(&sim::Segment::new(flow.me, flow.you).syn().seq(ISS));
        assert!(
            segments
                .iter()
                .any(|segment| segment.has(TcpFlags::SYN | TcpFlags::ACK)),
            "{segments:?}"
        );
        flow.seq = flow.seq.wrapping_add(1);
        flow
    }),
];

#[test]
fn the_exact_reset_ends_every_state() {
    for (name, enter) in STATES {
        let mut script = Script::new(1);
        let flow = enter(&mut script);
        assert_eq!(script.usage().connections, 1, "{name}");
        let answers = script.ask(&sim::Segment::new(flow.me, flow.you).seq(flow.seq).rst());
        assert!(answers.is_empty(), "{name}: RST was answered: {answers:?}");
        assert_eq!(script.usage().flows, 0, "{name}");
        assert_eq!(script.counters().resets_in, 1, "{name}");
        // The sleeper sleeps on; everybody else has noticed.
        if !matches!(name, "ESTABLISHED" | "CLOSE-WAIT" | "SYN-RECEIVED") {
            assert!(script.is_quiet(), "{name}: {:?}", script.usage());
            script.finish();
        }
    }
}

/// RFC 5961 §3.2: a RST in the window but not at RCV.NXT is answered with a challenge ACK; outside
/// it is dropped.
#[test]
fn a_guessed_reset_ends_nothing() {
    for (name, enter) in STATES {
        let mut script = Script::new(2);
        let flow = enter(&mut script);
        let guess = |offset: u32| {
            sim::Segment::new(flow.me, flow.you)
                .seq(flow.seq.wrapping_add(offset))
                .rst()
        };
        let answers = script.ask(&guess(1));
        assert!(
            matches!(&answers[..], [ack] if ack.has(TcpFlags::ACK) && !ack.has(TcpFlags::RST)),
            "{name}: {answers:?}"
        );
        for offset in [1 << 30, u32::MAX, 1 << 31] {
            assert!(script.ask(&guess(offset)).is_empty(), "{name}");
        }
        assert_eq!(script.usage().connections, 1, "{name}");
    }
}

/// RFC 5961 §4.2: so is a SYN, wherever it is.
#[test]
fn a_syn_on_a_connection_is_challenged() {
    for (name, enter) in STATES {
        if name == "SYN-RECEIVED" {
            continue; // There it may be the peer's SYN again.
        }
        for offset in [0, 100, 1 << 30] {
            let mut script = Script::new(3);
            let flow = enter(&mut script);
            let syn = sim::Segment::new(flow.me, flow.you)
                .seq(flow.seq.wrapping_add(offset))
                .syn();
            let answers = script.ask(&syn);
            assert!(
                matches!(&answers[..], [ack] if ack.header.flags == TcpFlags::ACK),
                "{name}: {answers:?}"
            );
            assert_eq!(script.usage().connections, 1, "{name}");
        }
    }
}

#[test]
fn reset_in_syn_sent() {
    let mut script = Script::new(4);
    let (_, flow) = script.syn_sent(closer());
    // Not acceptable: no ACK, or an ACK of something else (RFC 9293 §3.10.7.3).
    script.ask(&sim::Segment::new(flow.me, flow.you).rst());
    script.ask(
        &sim::Segment::new(flow.me, flow.you)
            .rst()
            .ack(flow.ack.wrapping_add(1)),
    );
    assert_eq!(script.usage().connections, 1);
    script.ask(&sim::Segment::new(flow.me, flow.you).rst().ack(flow.ack));
    assert!(script.is_quiet());
    assert_eq!(script.records()[0].error, Some(Error::Refused));
    script.finish();
}

/// A half-open connection came from LISTEN: RST takes it back there (RFC 9293 §3.10.7.4).
#[test]
fn reset_of_a_half_open_connection() {
    let mut script = Script::new(5);
    let you = script.server(sleeper());
    let me = script.remote(1, 7);
    script.ask(&sim::Segment::new(me, you).syn().seq(ISS));
    assert_eq!(script.usage().half_open, 1);
    script.ask(&sim::Segment::new(me, you).rst().seq(ISS + 2));
    assert_eq!(script.usage().half_open, 1, "a guessed RST");
    script.ask(&sim::Segment::new(me, you).rst().seq(ISS + 1));
    assert_eq!(script.usage().half_open, 0);
    script.finish();
}

/// RFC 1337: TIME_WAIT assassination.
#[test]
fn reset_does_not_end_time_wait() {
    let mut script = Script::new(6);
    let mut flow = script.accepted(closer());
    ack_fin(&mut script, &mut flow);
    fin(&mut script, &mut flow);
    assert_eq!(
        (script.usage().connections, script.usage().time_wait),
        (0, 1)
    );
    script.ask(&sim::Segment::new(flow.me, flow.you).seq(flow.seq).rst());
    assert_eq!(script.usage().time_wait, 1);
    script.finish();
    assert!(script.records()[0].is_clean());
}

/// Nobody there: RST, with the numbers of RFC 9293 §3.10.7.1; never a RST for a RST.
#[test]
fn nowhere() {
    let mut script = Script::new(7);
    let (me, you) = (script.remote(1, 7), "10.0.0.1:9".parse().unwrap());
    let unknown = sim::Segment::new(me, you).seq(100);
    for segment in [
        unknown.clone().syn(),
        unknown.clone().data(b"hello"),
        unknown.clone().ack(77).fin().data(b"x"),
    ] {
        let answers = script.ask(&segment);
        let refusal = segment.refusal();
        let [answer] = &answers[..] else {
            panic!("{answers:?}");
        };
        assert!(answer.has(TcpFlags::RST));
        assert_eq!(answer.has(TcpFlags::ACK), refusal.has(TcpFlags::ACK));
        assert_eq!(
            (answer.header.seq, answer.header.ack),
            (refusal.header.seq, refusal.header.ack)
        );
    }
    assert!(script.ask(&unknown.clone().rst()).is_empty());
    assert!(script.ask(&unknown.rst().ack(5)).is_empty());
}
