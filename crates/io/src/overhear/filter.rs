//! Classic BPF programs for sockets (`linux/filter.h`): which frames that are not for the stack it
//! hears all the same, and what of the kernel.

use std::net::Ipv4Addr;

use libc::{SKF_AD_VLAN_TAG_PRESENT, sock_filter};

use crate::classic_bpf::{
    ACCEPT, ICMPV6, ICMPV6_TYPE, LOAD_BYTE, LOAD_HALF, LOAD_WORD, NEIGHBOUR_ADVERTISEMENT, REFUSE,
    ROUTER_ADVERTISEMENT, V6_DESTINATION, V6_NEXT_HEADER, if_equal, instruction, special,
    unless_equal,
};

/// Behind an Ethernet header of 14 bytes, of ARP the operation and the target's protocol address,
/// and of IPv6 how often it may be passed on.
const ARP_OPERATION: u32 = 20;
const ARP_REPLY: u32 = 2;
const ARP_TARGET: u32 = 38;
const V6_HOP_LIMIT: u32 = 21;

/// Of a message of rtnetlink its type, and behind the 16 bytes of its header which interface a
/// neighbour (`struct ndmsg`) is on, and its state.
const MESSAGE_TYPE: u32 = 4;
const NEIGHBOUR_INTERFACE: u32 = 20;
const NEIGHBOUR_STATE: u32 = 24;

/// Goes on if what was loaded is `k`, else ends without the frame.
fn require(program: &mut Vec<sock_filter>, code: u16, at: u32, k: u32) {
    program.push(instruction(code, at));
    program.extend([if_equal(k, 1), REFUSE]);
}

/// Frames of other VLANs come without their tags.
fn untagged() -> Vec<sock_filter> {
    let mut program = Vec::new();
    require(&mut program, LOAD_WORD, special(SKF_AD_VLAN_TAG_PRESENT), 0);
    program
}

fn accept(mut program: Vec<sock_filter>) -> Vec<sock_filter> {
    program.push(ACCEPT);
    program
}

/// ARP that does not ask for `ours`: that comes to the stack itself, or is the kernel's to answer
/// if the addresses are `shared`; then replies are heard, too.
pub(crate) fn arp(ours: &[Ipv4Addr], shared: bool) -> Vec<sock_filter> {
    let mut program = untagged();
    if shared {
        program.push(instruction(LOAD_HALF, ARP_OPERATION));
        program.extend([unless_equal(ARP_REPLY, 1), ACCEPT]);
    }
    program.push(instruction(LOAD_WORD, ARP_TARGET));
    for address in ours {
        program.extend([unless_equal((*address).into(), 1), REFUSE]);
    }
    accept(program)
}

/// Advertisements of neighbours and routers to all, and if our addresses are `shared` with the
/// kernel, those to us.
pub(crate) fn advertisements(shared: bool) -> Vec<sock_filter> {
    let mut program = untagged();
    require(&mut program, LOAD_BYTE, V6_NEXT_HEADER, ICMPV6);
    // RFC 4861 §7.1.2.
    require(&mut program, LOAD_BYTE, V6_HOP_LIMIT, 255);
    if !shared {
        require(&mut program, LOAD_BYTE, V6_DESTINATION, 0xff);
    }
    program.push(instruction(LOAD_BYTE, ICMPV6_TYPE));
    program.push(if_equal(ROUTER_ADVERTISEMENT, 1));
    program.push(unless_equal(NEIGHBOUR_ADVERTISEMENT, 1));
    accept(program).into_iter().chain([REFUSE]).collect()
}

/// Neighbours on `interface` that answered just now, or that the administrator set: the kernel has
/// not merely heard of them.
pub(crate) fn neighbours(interface: u32) -> Vec<sock_filter> {
    // What is said in the order of this machine is loaded in that of the network.
    let half = |value: u16| value.to_be().into();
    let mut program = Vec::new();
    require(
        &mut program,
        LOAD_HALF,
        MESSAGE_TYPE,
        half(libc::RTM_NEWNEIGH),
    );
    require(
        &mut program,
        LOAD_WORD,
        NEIGHBOUR_INTERFACE,
        interface.to_be(),
    );
    program.push(instruction(LOAD_HALF, NEIGHBOUR_STATE));
    program.push(if_equal(half(libc::NUD_REACHABLE), 1));
    program.push(unless_equal(half(libc::NUD_PERMANENT), 1));
    accept(program).into_iter().chain([REFUSE]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classic_bpf::{JUMP_EQUAL, RETURN};

    /// Runs a program as the kernel does; whether it takes the frame.
    fn takes(program: &[sock_filter], frame: &[u8], tagged: bool) -> bool {
        let (mut at, mut value) = (0, 0);
        let read = |from: u32, bytes: usize| {
            let from = from as usize;
            let slice = frame.get(from..from + bytes)?;
            Some(
                slice
                    .iter()
                    .fold(0, |word, byte| word << 8 | u32::from(*byte)),
            )
        };
        loop {
            let step = program[at];
            at += 1;
            match step.code {
                LOAD_WORD if step.k.cast_signed() < 0 => value = u32::from(tagged),
                LOAD_WORD | LOAD_HALF | LOAD_BYTE => {
                    let bytes = match step.code {
                        LOAD_WORD => 4,
                        LOAD_HALF => 2,
                        _ => 1,
                    };
                    match read(step.k, bytes) {
                        Some(read) => value = read,
                        None => return false,
                    }
                }
                JUMP_EQUAL => {
                    let hit = value == step.k;
                    at += usize::from(if hit { step.jt } else { step.jf });
                }
                RETURN => return step.k > 0,
                code => panic!("{code}"),
            }
        }
    }

    fn arp_for(target: [u8; 4]) -> Vec<u8> {
        let mut frame = vec![0; 42];
        frame[ARP_TARGET as usize..].copy_from_slice(&target);
        frame
    }

    #[test]
    fn arp_about_others_is_heard() {
        let program = arp(
            &[Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3)],
            false,
        );
        assert!(takes(&program, &arp_for([10, 0, 0, 1]), false));
        assert!(takes(&program, &arp_for([0, 0, 0, 0]), false));
        for ours in [[10, 0, 0, 2], [10, 0, 0, 3]] {
            assert!(!takes(&program, &arp_for(ours), false), "it comes twice");
        }
        assert!(!takes(&program, &arp_for([10, 0, 0, 1]), true), "tagged");
        assert!(!takes(&program, &[0; 41], false), "too short");
    }

    fn icmpv6(kind: u8, destination: u8, hop_limit: u8) -> Vec<u8> {
        let mut frame = vec![0; 86];
        frame[20] = 58;
        frame[21] = hop_limit;
        frame[38] = destination;
        frame[54] = kind;
        frame
    }

    #[test]
    fn advertisements_to_all_are_heard() {
        let program = advertisements(false);
        assert!(takes(&program, &icmpv6(134, 0xff, 255), false));
        assert!(takes(&program, &icmpv6(136, 0xff, 255), false));
        for other in [
            icmpv6(135, 0xff, 255),
            icmpv6(136, 0xfe, 255),
            icmpv6(136, 0xff, 254),
            vec![0; 86],
            vec![],
        ] {
            assert!(!takes(&program, &other, false), "{other:?}");
        }
        assert!(!takes(&program, &icmpv6(136, 0xff, 255), true), "tagged");
    }

    #[test]
    fn beside_a_kernel_with_our_addresses_answers_to_us_are_heard_and_questions_are_not() {
        let program = arp(&[Ipv4Addr::new(10, 0, 0, 2)], true);
        let mut frame = arp_for([10, 0, 0, 2]);
        frame[21] = 1;
        assert!(!takes(&program, &frame, false), "the kernel's to answer");
        frame[21] = 2;
        assert!(takes(&program, &frame, false));
        assert!(takes(&program, &arp_for([10, 0, 0, 1]), false));
        let program = advertisements(true);
        assert!(takes(&program, &icmpv6(136, 0xfd, 255), false));
        assert!(takes(&program, &icmpv6(136, 0xff, 255), false));
        assert!(!takes(&program, &icmpv6(135, 0xff, 255), false));
    }

    fn told(kind: u16, interface: u32, state: u16) -> Vec<u8> {
        let mut message = vec![0; 28];
        message[4..6].copy_from_slice(&kind.to_ne_bytes());
        message[20..24].copy_from_slice(&interface.to_ne_bytes());
        message[24..26].copy_from_slice(&state.to_ne_bytes());
        message
    }

    #[test]
    fn of_the_kernel_it_hears_where_neighbours_are() {
        let program = neighbours(7);
        let new = libc::RTM_NEWNEIGH;
        assert!(takes(&program, &told(new, 7, libc::NUD_REACHABLE), false));
        assert!(takes(&program, &told(new, 7, libc::NUD_PERMANENT), false));
        for other in [
            told(libc::RTM_DELNEIGH, 7, libc::NUD_REACHABLE),
            told(new, 8, libc::NUD_REACHABLE),
            told(new, 7, libc::NUD_STALE),
            told(new, 7, libc::NUD_FAILED),
            vec![0; 8],
        ] {
            assert!(!takes(&program, &other, false), "{other:?}");
        }
    }
}
