//! What an outsider could foretell: initial sequence numbers
//! (RFC 6528), ports (RFC 6056), timestamps (RFC 7323 §7.1).

use std::collections::BTreeSet;

use crate::command::{Command, Options};
use crate::testing::{CLIENT, Handshake, Harness, seg};

/// The initial sequence numbers and timestamps that an attacker is given on 1000 ports of its own.
fn sample(secret: u8) -> Vec<(u32, u32)> {
    let mut h = Harness::with(|config| {
        config.secret = [secret; 32];
        config.max_half_open = 2000;
    });
    h.listen(2000, Options::default());
    let handshake = Handshake {
        ts: Some(1),
        ..Handshake::default()
    };
    (1..=1000)
        .map(|port| {
            h.send(handshake.syn().port(port));
            let reply = h.expect(seg().syn().ack(1).port(port));
            (reply.seq.0, reply.options.timestamps.unwrap().tsval)
        })
        .collect()
}

/// Differences between neighbours are spread over the whole space: each of 16 parts has its share,
/// no difference comes twice.
fn assert_spread(numbers: &[u32]) {
    let steps: Vec<_> = numbers
        .windows(2)
        .map(|pair| pair[1].wrapping_sub(pair[0]))
        .collect();
    assert_eq!(steps.iter().collect::<BTreeSet<_>>().len(), steps.len());
    let mut parts = [0; 16];
    for step in &steps {
        parts[(step >> 28) as usize] += 1;
    }
    let share = steps.len() / 16;
    assert!(
        parts.iter().all(|&n| n > share / 2 && n < share * 2),
        "{parts:?}"
    );
}

/// RFC 6528 §3-1, §3-3; RFC 7323 §7.1-1.
#[test]
fn sequence_numbers_and_timestamps_cannot_be_foretold() {
    let mine = sample(1);
    let (isns, stamps): (Vec<_>, Vec<_>) = mine.iter().copied().unzip();
    assert_spread(&isns);
    assert_spread(&stamps);
    // What one stack gives says nothing about another, nor one number of a connection about the
    // other.
    let theirs = sample(2);
    let differences: Vec<_> = mine
        .iter()
        .zip(&theirs)
        .map(|(a, b)| a.0.wrapping_sub(b.0))
        .collect();
    assert_spread(&differences);
    let offsets: Vec<_> = mine
        .iter()
        .map(|(isn, stamp)| isn.wrapping_sub(*stamp))
        .collect();
    assert_spread(&offsets);
}

/// RFC 6056: the ports of connections to one place do not tell those to another.
/// RFC 6056 §3.3-1.
#[test]
fn ports_cannot_be_foretold() {
    let ports = |secret: u8, remote: u16| -> Vec<u16> {
        let mut h = Harness::with(|config| config.secret = [secret; 32]);
        (0..20)
            .map(|_| {
                let mut peer = h.peer();
                peer.set_port(remote);
                let reply = h.execute(Command::Connect {
                    token: CLIENT,
                    local: None,
                    remote: peer,
                    options: Options::default(),
                });
                match reply {
                    crate::Reply::Connecting(_, local) => local.port(),
                    other => panic!("{other:?}"),
                }
            })
            .collect()
    };
    assert_ne!(ports(1, 80), ports(1, 81));
    assert_ne!(ports(1, 80), ports(2, 80));
    let same = ports(1, 80)
        .iter()
        .zip(ports(1, 81))
        .filter(|(a, b)| **a == *b)
        .count();
    assert_eq!(same, 0);
}
