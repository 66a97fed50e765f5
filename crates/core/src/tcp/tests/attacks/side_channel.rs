//! Limits that all share must not tell one what another has used (CVE-2016-5696: "Off-Path TCP
//! Exploits", USENIX Security 2016).

use crate::drops::DropReason;
use crate::testing::{Handshake, Harness, seg};

const WIN: u16 = 60_000;

/// The victim on the usual port, the attacker on others.
fn victim_and_attackers(rate: u32, attackers: u16, secret: u8) -> Harness {
    let mut h = Harness::with(|config| {
        config.reply_rate = rate;
        config.secret = [secret; 32];
    });
    h.listen(64, Default::default());
    h.established_with(&Handshake::default());
    for port in 6000..6000 + attackers {
        h.send(Handshake::default().syn().port(port));
        h.expect(seg().syn().ack(1).port(port));
        h.send(seg().seq(1).ack(1).win(WIN).port(port));
    }
    h.drain();
    h
}

/// However much one connection is challenged, its limit is its own: others still get theirs.
/// RFC 5961 §7-1.
#[test]
fn one_connection_cannot_use_up_the_limit() {
    let mut h = victim_and_attackers(1000, 1, 1);
    for _ in 0..10_000 {
        h.send(seg().syn().seq(500).port(6000));
    }
    assert_eq!(h.drain(), 10);
    h.send(seg().syn().seq(500));
    h.expect(seg().seq(1).ack(1));
}

/// Even one with connections enough to make the common limit run dry cannot count what is missing:
/// each second allows another number.
#[test]
fn what_is_missing_cannot_be_counted() {
    let counts = |secret: u8, victim_too: bool| {
        let mut counts = Vec::new();
        for second in 0..8 {
            let mut h = victim_and_attackers(100, 20, secret);
            h.advance(1000 * second);
            if victim_too {
                h.send(seg().syn().seq(500));
                h.expect(seg().seq(1).ack(1));
            }
            for port in 6000..6020 {
                for _ in 0..10 {
                    h.send(seg().syn().seq(500).port(port));
                }
            }
            counts.push(h.drain());
        }
        counts
    };
    let alone = counts(1, false);
    // The victim's one is hidden in what nobody can foretell.
    let (least, most) = (alone.iter().min().unwrap(), alone.iter().max().unwrap());
    assert!(most - least > 20, "{alone:?}");
    assert_ne!(alone, counts(2, false));
    assert!(alone.iter().zip(counts(1, true)).all(|(a, b)| b + 1 == *a));
}

/// The same for RSTs: how many are left must not say whether a forged segment met a connection.
#[test]
fn resets_to_nowhere_cannot_be_counted() {
    let count = |second: u64| {
        let mut h = Harness::with(|config| config.reset_rate = 100);
        h.advance(1000 * second);
        for _ in 0..200 {
            h.send(seg().seq(5).ack(77));
        }
        h.drain()
    };
    let counts: Vec<_> = (0..8).map(count).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(most - least > 20, "{counts:?}");
}

/// An ACK for an ACK for an ACK: two ends that each believe the other wrong stop answering.
#[test]
fn acks_do_not_answer_acks_for_ever() {
    let mut h = Harness::established();
    for _ in 0..1000 {
        h.send(seg().seq(500_000).ack(1).win(WIN));
    }
    assert_eq!(h.drain(), 10);
    assert_eq!(h.stack.counters().dropped(DropReason::ReplyLimited), 990);
}
