//! A link that answers SYNs where they arrive: its half of [`wire::syn_offload`], by other means
//! than the stack's and the real link's (`io/bpf/answer.h`), which it does as, but for the order of
//! the options.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddrV4};
use std::sync::{Arc, Mutex, PoisonError};

use mtcp_core::Stack;
use siphasher::sip::SipHasher13;
use wire::checksum;
use wire::ethernet::{EtherType, EthernetHeader};
use wire::frame::{MacAddr, RxChecksum};
use wire::ip::{Ecn, Protocol};
use wire::ipv4::Ipv4Header;
use wire::seq::SeqNumber;
use wire::syn_offload::{SynOffload, SynRules};
use wire::tcp::{self, TcpFlags, TcpHeader, TcpOptions, Timestamps};
use wire::time::Instant;

use crate::frame::Frame;
use crate::segment::ethernet;

/// A stack that has not taken a turn for longer, in milliseconds, takes its time: it answers SYNs
/// itself.
const LATEST: u64 = 16;

/// What a stack has told its link.
#[derive(Debug, Default)]
struct Told {
    rules: Option<SynRules>,
    offered: BTreeSet<SocketAddrV4>,
    /// How many have this hash.
    flows: BTreeMap<u32, u32>,
    /// How many there are.
    known: u32,
}

/// Both have it: the stack tells, and the link looks.
#[derive(Clone, Debug, Default)]
struct Link(Arc<Mutex<Told>>);

/// Answers the SYNs that arrive for a host.
#[derive(Debug)]
pub(super) struct Answerer {
    link: Link,
    /// The last turn of the stack.
    clock: Instant,
}

/// One that is answered, if it is for where SYNs are.
#[derive(Debug)]
struct Syn {
    ethernet: EthernetHeader,
    local: SocketAddrV4,
    remote: SocketAddrV4,
    seq: SeqNumber,
    tsval: u32,
}

impl Link {
    fn told<T>(&self, look: impl FnOnce(&mut Told) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SynOffload for Link {
    fn start(&mut self, rules: &SynRules) {
        self.told(|told| told.rules = Some(*rules));
    }

    fn offer(&mut self, local: SocketAddrV4, answered: bool) {
        self.told(|told| match answered {
            true => told.offered.insert(local),
            false => told.offered.remove(&local),
        });
    }

    fn withdraw(&mut self, port: u16) {
        self.told(|told| told.offered.retain(|local| local.port() != port));
    }

    fn enter(&mut self, hash: u32) {
        self.told(|told| {
            *told.flows.entry(hash).or_default() += 1;
            told.known += 1;
        });
    }

    fn leave(&mut self, hash: u32) {
        self.told(|told| {
            // One that never came is still counted: `known` does not agree with the stack any more.
            let Some(count) = told.flows.get_mut(&hash) else {
                return;
            };
            *count -= 1;
            if *count == 0 {
                told.flows.remove(&hash);
            }
            told.known -= 1;
        });
    }
}

impl Answerer {
    /// What answers SYNs for `stack` from now on; `None`: this stack cannot have that.
    pub fn of(stack: &mut Stack) -> Option<Self> {
        let link = Link::default();
        let started = stack.offload_syns(Box::new(link.clone()));
        let clock = Instant::ZERO;
        started.then_some(Self { link, clock })
    }

    /// A turn of the stack begins.
    pub fn set_clock(&mut self, now: Instant) {
        self.clock = now;
    }

    /// Flows that it knows.
    pub fn flows(&self) -> u32 {
        self.link.told(|told| told.known)
    }

    /// The SYN-ACK of a frame that arrives at `mac`, if that is a SYN to be answered.
    pub fn answer(&self, now: Instant, mac: MacAddr, frame: &Frame) -> Option<Frame> {
        if now.as_millis().saturating_sub(self.clock.as_millis()) > LATEST {
            return None;
        }
        let syn = Syn::parse(mac, frame)?;
        self.link.told(|told| {
            let rules = told.rules?;
            let flow = syn.flow(&rules);
            let is_new = !told.flows.contains_key(&(flow as u32));
            let answered = is_new && told.offered.contains(&syn.local);
            answered.then(|| syn.answer(&rules, flow, self.clock))
        })
    }
}

impl Syn {
    /// From one host to one, without ECN, with the four options that most SYNs have and nothing
    /// else.
    fn parse(mac: MacAddr, frame: &Frame) -> Option<Self> {
        let (ethernet, packet) = EthernetHeader::parse(&frame.bytes).ok()?;
        let (ip, segment) = Ipv4Header::parse(packet).ok()?;
        let (header, payload) = TcpHeader::parse(segment).ok()?;
        let (src, dst) = (IpAddr::V4(ip.src), IpAddr::V4(ip.dst));
        let is_right = frame.checksum == RxChecksum::Trusted
            || checksum::verify_transport(src, dst, Protocol::TCP, segment);
        let is_ours = is_to(mac, &ethernet) && is_plain(&ip) && is_right;
        let options = &header.options;
        (is_ours && is_plain_syn(&header) && payload.is_empty()).then_some(Self {
            ethernet,
            local: SocketAddrV4::new(ip.dst, header.dst_port),
            remote: SocketAddrV4::new(ip.src, header.src_port),
            seq: header.seq,
            tsval: options.timestamps?.tsval,
        })
    }

    /// The hash of the flow, and all that is secret about it.
    fn flow(&self, rules: &SynRules) -> u64 {
        let ends = [self.local, self.remote];
        let addresses = ends.iter().flat_map(|end| end.ip().octets());
        let ports = ends.iter().flat_map(|end| end.port().to_be_bytes());
        let bytes: Vec<u8> = addresses.chain(ports).collect();
        hasher(rules.flow_key).hash(&bytes)
    }

    /// The SYN-ACK. Whether it is a host that has sent the SYN will show.
    fn answer(&self, rules: &SynRules, flow: u64, clock: Instant) -> Frame {
        let header = self.syn_ack(rules, flow, clock);
        let mut segment = vec![0; header.header_len()];
        header.emit(&mut segment);
        let (src, dst) = (*self.local.ip(), *self.remote.ip());
        tcp::fill_checksum(src.into(), dst.into(), &mut segment);
        // Don't fragment, and therefore identification 0 (RFC 6864 §4.1).
        let ip = Ipv4Header {
            ttl: rules.ttl,
            ..Ipv4Header::new(src, dst, Protocol::TCP, segment.len())
        };
        let mut packet = [0; Ipv4Header::LEN];
        ip.emit(&mut packet);
        let mut frame = ethernet(self.ethernet.dst, self.ethernet.src, EtherType::IPV4);
        frame.extend_from_slice(&packet);
        frame.extend_from_slice(&segment);
        frame.into()
    }

    /// RFC 9293 §3.10.7.2, third; RFC 7323 §3.2.
    fn syn_ack(&self, rules: &SynRules, flow: u64, clock: Instant) -> TcpHeader {
        let words = flow
            .to_le_bytes()
            .into_iter()
            .chain(self.seq.0.to_le_bytes());
        let iss = hasher(rules.iss_key).hash(&words.collect::<Vec<u8>>());
        let offset = ((flow >> 32) as u32).wrapping_mul(rules.stamps);
        TcpHeader {
            src_port: self.local.port(),
            dst_port: self.remote.port(),
            seq: SeqNumber(iss as u32),
            ack: self.seq + 1,
            flags: TcpFlags::SYN | TcpFlags::ACK,
            window: rules.window,
            urgent: 0,
            options: TcpOptions {
                mss: Some(rules.mss),
                sack_permitted: true,
                timestamps: Some(Timestamps {
                    tsval: (clock.as_millis() as u32).wrapping_add(offset),
                    tsecr: self.tsval,
                }),
                window_scale: Some(rules.window_scale),
                ..TcpOptions::default()
            },
        }
    }
}

/// SipHash from the state in which it begins under a key.
fn hasher([first, second, ..]: [u64; 4]) -> SipHasher13 {
    SipHasher13::new_with_keys(
        first ^ 0x736f_6d65_7073_6575,
        second ^ 0x646f_7261_6e64_6f6d,
    )
}

/// Whether it is for one host, from one.
fn is_to(mac: MacAddr, ethernet: &EthernetHeader) -> bool {
    ethernet.dst == mac
        && !ethernet.src.is_multicast()
        && ethernet.vlan.is_none()
        && ethernet.ether_type == EtherType::IPV4
}

/// A packet of TCP that is whole and has no options, from an address that hosts have
/// (RFC 1122 §3.2.1.3).
fn is_plain(ip: &Ipv4Header) -> bool {
    let [network, ..] = ip.src.octets();
    usize::from(ip.header_len) == Ipv4Header::LEN
        && ip.ecn() == Ecn::NotEct
        && !ip.is_fragment()
        && ip.protocol == Protocol::TCP
        && matches!(network, 1..=126 | 128..=223)
}

/// A SYN without ECN (RFC 3168 §6.1.1), with MSS, SACK permitted, timestamps and window scale.
fn is_plain_syn(header: &TcpHeader) -> bool {
    header.flags == TcpFlags::SYN
        && header.src_port != 0
        && !header.options.malformed
        && header.options.usual_syn().is_some()
}

#[cfg(test)]
mod tests;
