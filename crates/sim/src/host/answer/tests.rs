#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;

use wire::tcp::FastOpenCookie;

use super::*;
use crate::segment::Segment;

const HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

const RULES: SynRules = SynRules {
    flow_key: [1, 2, 3, 4],
    iss_key: [5, 6, 7, 8],
    stamps: 9,
    window: 1000,
    mss: 1460,
    window_scale: 7,
    ttl: 64,
};

fn local() -> SocketAddr {
    "10.0.0.1:80".parse().unwrap()
}

fn remote() -> SocketAddr {
    "10.0.0.2:5000".parse().unwrap()
}

/// SYNs to `local` are answered, and the stack had its turn at 100 ms.
fn answerer() -> Answerer {
    let (mut link, clock) = (Link::default(), Instant::from_millis(100));
    link.start(&RULES);
    let SocketAddr::V4(local) = local() else {
        return Answerer { link, clock };
    };
    link.offer(local, true);
    Answerer { link, clock }
}

fn syn(change: impl FnOnce(&mut Segment)) -> Segment {
    let syn = Segment::new(remote(), local()).syn().seq(77).mss(1200);
    let mut syn = syn.usual_options(3, 500);
    change(&mut syn);
    syn.header.src_port = syn.src.port();
    syn.header.dst_port = syn.dst.port();
    syn
}

fn plain() -> Vec<u8> {
    syn(|_| {}).to_frame(PEER, HOST)
}

fn answer_at(millis: u64, frame: &[u8]) -> Option<Segment> {
    let frame = Frame::from(frame.to_vec());
    let answer = answerer().answer(Instant::from_millis(millis), HOST, &frame)?;
    Segment::from_frame(&answer.bytes)
}

fn answer(frame: &[u8]) -> Option<Segment> {
    answer_at(100, frame)
}

#[test]
fn a_syn_of_the_usual_kind_is_answered() {
    let answer = answer(&plain()).unwrap();
    assert_eq!((answer.src, answer.dst), (local(), remote()));
    let header = &answer.header;
    assert_eq!(header.flags, TcpFlags::SYN | TcpFlags::ACK);
    assert_eq!((header.ack, header.window), (SeqNumber(78), RULES.window));
    let options = &header.options;
    assert!(options.sack_permitted);
    assert_eq!((options.mss, options.window_scale), (Some(1460), Some(7)));
    assert_eq!(options.timestamps.unwrap().tsecr, 500);
    assert!(answer.payload.is_empty());
}

#[test]
fn copies_of_a_syn_have_the_same_number_and_others_do_not() {
    let iss = |frame: &[u8]| answer(frame).unwrap().header.seq;
    let other = syn(|syn| syn.header.seq += 1).to_frame(PEER, HOST);
    assert_eq!(iss(&plain()), iss(&plain()));
    assert_ne!(iss(&plain()), iss(&other));
}

#[test]
fn other_segments_are_the_stacks() {
    let changes: [fn(&mut Segment); 12] = [
        |syn| syn.header.flags |= TcpFlags::ACK,
        |syn| syn.header.flags |= TcpFlags::RST,
        |syn| syn.header.flags |= TcpFlags::FIN,
        |syn| syn.header.flags |= TcpFlags::ECE | TcpFlags::CWR,
        |syn| syn.header.flags |= TcpFlags::AE,
        |syn| syn.header.options.mss = None,
        |syn| syn.header.options.timestamps = None,
        |syn| syn.header.options.window_scale = None,
        |syn| syn.header.options.sack_permitted = false,
        |syn| syn.header.options.fast_open = Some(FastOpenCookie::REQUEST),
        |syn| syn.payload.push(0),
        |syn| syn.src.set_port(0),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let frame = syn(change).to_frame(PEER, HOST);
        assert_eq!(answer(&frame), None, "{index}");
    }
}

#[test]
fn syns_from_or_to_elsewhere_are_the_stacks() {
    for source in [
        "0.0.0.1:1",
        "127.0.0.1:1",
        "224.0.0.1:1",
        "255.255.255.255:1",
    ] {
        let frame = syn(|syn| syn.src = source.parse().unwrap());
        assert_eq!(answer(&frame.to_frame(PEER, HOST)), None, "{source}");
    }
    for other in ["10.0.0.1:81", "10.0.0.3:80"] {
        let frame = syn(|syn| syn.dst = other.parse().unwrap());
        assert_eq!(answer(&frame.to_frame(PEER, HOST)), None, "{other}");
    }
    let broadcast = syn(|_| {}).to_frame(PEER, MacAddr::BROADCAST);
    assert_eq!(answer(&broadcast), None);
}

/// One byte at a time, whichever it is: the checksums show it. Where the frame comes from has none.
#[test]
fn damaged_syns_are_not_answered() {
    for at in EthernetHeader::LEN..plain().len() {
        let mut frame = plain();
        frame[at] ^= 0x40;
        assert_eq!(answer(&frame), None, "{at}");
    }
}

#[test]
fn a_stack_that_takes_its_time_answers_by_itself() {
    assert!(answer_at(116, &plain()).is_some());
    assert_eq!(answer_at(117, &plain()), None);
}

#[test]
fn what_the_stack_says_counts() {
    let mut answerer = answerer();
    let now = Instant::from_millis(100);
    let frame = Frame::from(plain());
    let flow = Syn::parse(HOST, &frame).unwrap().flow(&RULES) as u32;
    let is_answered = |answerer: &Answerer| answerer.answer(now, HOST, &frame).is_some();
    answerer.link.enter(flow);
    answerer.link.enter(flow);
    assert_eq!((is_answered(&answerer), answerer.flows()), (false, 2));
    answerer.link.leave(flow);
    assert!(!is_answered(&answerer));
    answerer.link.leave(flow);
    assert_eq!((is_answered(&answerer), answerer.flows()), (true, 0));
    answerer.link.withdraw(81);
    assert!(is_answered(&answerer));
    answerer.link.withdraw(80);
    assert!(!is_answered(&answerer));
}
