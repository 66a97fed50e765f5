//! Servers whose link answers SYNs where they arrive.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::time::Duration;

use common::script::Script;
use common::{Pair, ms};
use mtcp_core::config::SynCookies;
use sim::{Ending, HostConfig, Plan, Segment};
use wire::tcp::TcpFlags;

const CONNECTIONS: u64 = 600;
const REQUEST: u64 = 300;
const RESPONSE: u64 = 3_000;

fn answers(config: &mut HostConfig) {
    config.answers_syns = true;
    config.stack.max_time_wait = 2 * CONNECTIONS as u32;
}

fn usual(syn: Segment) -> Segment {
    syn.mss(1460).usual_options(7, 500)
}

fn answered(pair: &Pair) -> u64 {
    let server = pair.net.host(pair.b).unwrap();
    server.stack().counters().syns_answered_by_link
}

/// Requests and responses over a bad link.
fn exchange(seed: u64, on: bool, impairments: &str) -> Pair {
    let mut pair = Pair::with(seed, ms(2), |config| {
        answers(config);
        config.answers_syns = on;
    });
    pair.change(|pipe| pipe.impairments = impairments.parse().unwrap());
    let client = Plan {
        tries: 20,
        ..Plan::default().sends(REQUEST).ends(Ending::AfterEof)
    };
    let server = Plan::default().sends(RESPONSE);
    pair.load(CONNECTIONS, 40, client, server);
    pair.finish();
    pair
}

/// Bytes sent and received by each connection of each host.
fn bytes(pair: &Pair) -> [Vec<(u64, u64)>; 2] {
    [pair.a, pair.b].map(|host| {
        let records = pair.net.host(host).unwrap().apps().records();
        let bad = records.iter().find(|record| !record.is_clean());
        assert_eq!(bad, None);
        let bytes = records.iter().map(|record| (record.sent, record.received));
        bytes.collect()
    })
}

/// The number is a hash that both make in ways of their own.
#[test]
fn the_link_answers_as_the_stack_would() {
    let mut script = Script::with(1, answers);
    let you = script.server(Plan::echo());
    script.handshake(you, usual);
    let syn = usual(Segment::new(script.remote(3, 77), you).syn().seq(99u32));
    let ask = |script: &mut Script| {
        let [answer] = script.ask(&syn).try_into().unwrap();
        answer
    };
    let of_link = ask(&mut script);
    assert_eq!(script.counters().syns_answered_by_link, 1);
    assert_eq!(script.usage().half_open, 1);
    let mut of_stack = ask(&mut script);
    assert_eq!(script.counters().syns_answered_by_link, 1);
    let stamps = |answer: &Segment| answer.header.options.timestamps.unwrap();
    let (first, second) = (stamps(&of_link), stamps(&of_stack));
    let later = second.tsval.wrapping_sub(first.tsval);
    assert!(later < 20 && second.tsecr == 500, "{first:?} {second:?}");
    of_stack.header.options.timestamps = Some(first);
    assert_eq!(of_link, of_stack);
    assert!(of_link.has(TcpFlags::SYN | TcpFlags::ACK));
}

#[test]
fn a_stack_that_cannot_have_it_answers_by_itself() {
    let mut script = Script::with(2, |config| {
        answers(config);
        config.stack.timestamps = false;
    });
    let you = script.server(Plan::echo());
    script.handshake(you, usual);
    script.handshake(you, usual);
    assert_eq!(script.counters().syns_answered_by_link, 0);
}

/// RFC 9293 §3.4.1: a copy of the SYN that comes when the connection is over has no other
/// connection made of the copies of all the rest.
#[test]
fn what_is_over_does_not_come_again() {
    let mut pair = Pair::with(3, Duration::from_micros(10), |config| {
        answers(config);
        config.style.latency = Duration::from_micros(20);
        // Cookies would have the same done (RFC 4987 §3.6).
        config.stack.syn_cookies = SynCookies::Off;
        config.stack.max_half_open = 2 * CONNECTIONS as u32;
    });
    pair.change(|pipe| pipe.impairments = "dup=40%".parse().unwrap());
    // The client ends first: nothing is left at the server.
    let server = Plan::default().ends(Ending::AfterEof);
    let client = Plan::default().sends(REQUEST);
    pair.load(CONNECTIONS, 10, client, server);
    pair.finish();
    let [clients, servers] = bytes(&pair);
    assert_eq!(clients, vec![(REQUEST, 0); CONNECTIONS as usize]);
    assert_eq!(servers, vec![(0, REQUEST); CONNECTIONS as usize]);
    assert!(answered(&pair) > CONNECTIONS / 2, "{}", answered(&pair));
}

#[test]
fn all_arrives_whoever_answers_over_a_link_that_loses_and_repeats() {
    for seed in 0..3 {
        let [on, off] = [true, false].map(|on| exchange(seed, on, "loss=20%,dup=20%,jitter=1ms"));
        let all = CONNECTIONS as usize;
        let expected = [
            vec![(REQUEST, RESPONSE); all],
            vec![(RESPONSE, REQUEST); all],
        ];
        assert_eq!(bytes(&on), expected);
        assert_eq!(bytes(&off), expected);
        assert!(answered(&on) > CONNECTIONS / 4, "{}", answered(&on));
        assert_eq!(answered(&off), 0);
    }
}

#[test]
fn all_arrives_over_a_link_that_damages_and_reorders() {
    let pair = exchange(7, true, "loss=5%,dup=5%,reorder=20%,corrupt=5%,jitter=5ms");
    let all = CONNECTIONS as usize;
    let [clients, servers] = bytes(&pair);
    assert_eq!(clients, vec![(REQUEST, RESPONSE); all]);
    assert_eq!(servers, vec![(RESPONSE, REQUEST); all]);
    assert!(answered(&pair) > CONNECTIONS / 4, "{}", answered(&pair));
}
