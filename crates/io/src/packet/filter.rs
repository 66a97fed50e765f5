//! The classic BPF program (`linux/filter.h`) that chooses what a packet socket receives.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libc::{SKF_AD_VLAN_TAG, SKF_AD_VLAN_TAG_PRESENT, sock_filter};
use wire::ethernet::EtherType;

use crate::classic_bpf::{
    ACCEPT, AND, ICMPV6, ICMPV6_TYPE, JUMP, JUMP_NOT_LESS, LOAD_BYTE, LOAD_HALF, LOAD_WORD,
    NEIGHBOUR_ADVERTISEMENT, REFUSE, ROUTER_ADVERTISEMENT, V6_DESTINATION, V6_NEXT_HEADER,
    if_equal, instruction, special, unless_equal,
};
use crate::ours::{addresses4, addresses6};

/// Where the type of a frame is, and of IPv4 behind an Ethernet header of 14 bytes the destination.
const ETHER_TYPE: u32 = 12;
const V4_DESTINATION: u32 = 30;
/// The VLAN identifier in a tag (IEEE 802.1Q §9.6).
const VLAN_ID: u32 = 0xfff;

/// No frames.
pub(super) const NOTHING: [sock_filter; 1] = [REFUSE];

/// Frames that a stack with these addresses has to see: for these addresses, and what neighbours
/// and routers say to all. The kernel has taken a VLAN tag out of a frame: those of a VLAN are of
/// another interface, those with a priority only (identifier 0) are of this one.
pub(super) fn ours(addresses: &[IpAddr]) -> Vec<sock_filter> {
    let mut program = vec![
        instruction(LOAD_WORD, special(SKF_AD_VLAN_TAG_PRESENT)),
        if_equal(0, 4),
        instruction(LOAD_WORD, special(SKF_AD_VLAN_TAG)),
        instruction(AND, VLAN_ID),
        if_equal(0, 1),
        REFUSE,
        instruction(LOAD_HALF, ETHER_TYPE),
        unless_equal(EtherType::ARP.0.into(), 1),
        ACCEPT,
    ];
    section(&mut program, EtherType::IPV4, v4(addresses4(addresses)));
    section(&mut program, EtherType::IPV6, v6(addresses6(addresses)));
    program.push(REFUSE);
    program
}

/// What is done with frames of one type. Sections may be longer than a conditional jump.
fn section(program: &mut Vec<sock_filter>, of: EtherType, section: Vec<sock_filter>) {
    program.push(if_equal(of.0.into(), 1));
    program.push(instruction(
        JUMP,
        u32::try_from(section.len()).unwrap_or(u32::MAX),
    ));
    program.extend(section);
}

fn v4(ours: impl Iterator<Item = Ipv4Addr>) -> Vec<sock_filter> {
    let mut section = vec![instruction(LOAD_WORD, V4_DESTINATION)];
    for address in ours {
        section.extend([unless_equal(address.into(), 1), ACCEPT]);
    }
    section.push(REFUSE);
    section
}

fn v6(ours: impl Iterator<Item = Ipv6Addr>) -> Vec<sock_filter> {
    let mut section = vec![
        instruction(LOAD_BYTE, V6_DESTINATION),
        // To a group: of neighbour discovery only.
        unless_equal(0xff, 8),
        instruction(LOAD_BYTE, V6_NEXT_HEADER),
        unless_equal(ICMPV6, 5),
        instruction(LOAD_BYTE, ICMPV6_TYPE),
        sock_filter {
            jf: 3,
            ..instruction(JUMP_NOT_LESS, ROUTER_ADVERTISEMENT)
        },
        sock_filter {
            jt: 2,
            ..instruction(JUMP_NOT_LESS, NEIGHBOUR_ADVERTISEMENT + 1)
        },
        ACCEPT,
        REFUSE,
        REFUSE,
    ];
    for address in ours {
        section.extend(to(address));
    }
    section.push(REFUSE);
    section
}

/// Accepts a frame to this address, or goes on behind.
fn to(address: Ipv6Addr) -> [sock_filter; 9] {
    let bits = address.to_bits();
    let word = |at: u32| ((bits >> (96 - 32 * at)) & u128::from(u32::MAX)) as u32;
    let load = |at: u32| instruction(LOAD_WORD, V6_DESTINATION + 4 * at);
    [
        load(0),
        unless_equal(word(0), 7),
        load(1),
        unless_equal(word(1), 5),
        load(2),
        unless_equal(word(2), 3),
        load(3),
        unless_equal(word(3), 1),
        ACCEPT,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classic_bpf::{JUMP_EQUAL, RETURN};

    /// Runs a program over a frame, with the tag that the kernel took out of it.
    fn run(program: &[sock_filter], frame: &[u8], tag: Option<u16>) -> bool {
        let (mut at, mut loaded) = (0, 0_u32);
        loop {
            let one = program[at];
            at += 1;
            let bytes = |len: usize| {
                let from = one.k as usize;
                let bytes = frame.get(from..from + len)?;
                Some(
                    bytes
                        .iter()
                        .fold(0, |sum, byte| sum << 8 | u32::from(*byte)),
                )
            };
            let is_special = |what| one.k == special(what);
            let value = match one.code {
                LOAD_WORD if is_special(SKF_AD_VLAN_TAG_PRESENT) => Some(tag.is_some().into()),
                LOAD_WORD if is_special(SKF_AD_VLAN_TAG) => Some(tag.unwrap_or(0).into()),
                LOAD_WORD => bytes(4),
                LOAD_HALF => bytes(2),
                LOAD_BYTE => bytes(1),
                AND => Some(loaded & one.k),
                RETURN => return one.k != 0,
                JUMP => {
                    at += one.k as usize;
                    continue;
                }
                JUMP_EQUAL | JUMP_NOT_LESS => {
                    let holds = match one.code {
                        JUMP_EQUAL => loaded == one.k,
                        _ => loaded >= one.k,
                    };
                    at += usize::from(if holds { one.jt } else { one.jf });
                    continue;
                }
                code => panic!("{code:#x}"),
            };
            // As in the kernel: what is not there ends the program without the frame.
            let Some(value) = value else { return false };
            loaded = value;
        }
    }

    fn frame(ether_type: u16, packet: &[(usize, &[u8])]) -> Vec<u8> {
        let mut frame = vec![0; 74];
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        for (at, bytes) in packet {
            frame[14 + at..14 + at + bytes.len()].copy_from_slice(bytes);
        }
        frame
    }

    fn to_v4(address: [u8; 4]) -> Vec<u8> {
        frame(0x0800, &[(16, &address)])
    }

    fn to_v6(address: &str, next: u8, kind: u8) -> Vec<u8> {
        let address: Ipv6Addr = address.parse().unwrap();
        frame(
            0x86dd,
            &[(6, &[next]), (24, &address.octets()), (40, &[kind])],
        )
    }

    #[test]
    fn what_is_for_us_passes_and_nothing_else() {
        let own: Vec<IpAddr> = ["10.0.0.1", "10.0.0.2", "fd00::1", "fe80::2"]
            .map(|address| address.parse().unwrap())
            .to_vec();
        let program = ours(&own);
        let passes = |frame: &[u8]| run(&program, frame, None);
        assert!(passes(&to_v4([10, 0, 0, 1])) && passes(&to_v4([10, 0, 0, 2])));
        assert!(!passes(&to_v4([10, 0, 0, 3])));
        for ours in ["fd00::1", "fe80::2"] {
            assert!(passes(&to_v6(ours, 6, 0)));
        }
        for other in ["fd00::2", "fe80::1", "fd01::1", "fd00:0:0:1::1"] {
            assert!(!passes(&to_v6(other, 6, 0)), "{other}");
        }
        assert!(passes(&frame(0x0806, &[])));
        assert!(!passes(&frame(0x88cc, &[])) && !passes(&[0; 13]));
    }

    #[test]
    fn of_what_is_for_a_group_only_neighbour_discovery_passes() {
        let program = ours(&["fd00::1".parse().unwrap()]);
        let passes = |next, kind| run(&program, &to_v6("ff02::1:ff00:1", next, kind), None);
        let passing: Vec<u8> = (0..=255).filter(|kind| passes(58, *kind)).collect();
        assert_eq!(passing, [134, 135, 136]);
        assert!(!passes(17, 135));
    }

    #[test]
    fn frames_of_a_vlan_are_of_another_interface() {
        let program = ours(&["10.0.0.1".parse().unwrap()]);
        let frame = to_v4([10, 0, 0, 1]);
        for (tag, passes) in [
            (None, true),
            (Some(0), true),
            (Some(0xe000), true),
            (Some(7), false),
        ] {
            assert_eq!(run(&program, &frame, tag), passes, "{tag:?}");
        }
    }

    #[test]
    fn many_addresses_pass_the_reach_of_a_jump() {
        let own: Vec<IpAddr> = (0..200)
            .flat_map(|last| {
                [
                    IpAddr::from([10, 0, 0, last]),
                    Ipv6Addr::from([0xfd00, 0, 0, 0, 0, 0, 0, last.into()]).into(),
                ]
            })
            .collect();
        let program = ours(&own);
        assert!(run(&program, &to_v4([10, 0, 0, 199]), None));
        assert!(run(&program, &to_v6("fd00::c7", 6, 0), None));
        assert!(!run(&program, &to_v6("fd00::c8", 6, 0), None));
    }

    #[test]
    fn a_stack_of_one_family_has_nothing_of_the_other() {
        let program = ours(&["10.0.0.1".parse().unwrap()]);
        assert!(!run(&program, &to_v6("fd00::1", 6, 0), None));
    }
}
