//! Words of classic BPF (`linux/filter.h`), of which programs for sockets are made.

use libc::{SKF_AD_OFF, c_int, sock_filter};

/// `BPF_LD | BPF_ABS` of a word, of half of one, and of a byte: as if the most significant byte
/// came first.
pub(crate) const LOAD_WORD: u16 = 0x20;
pub(crate) const LOAD_HALF: u16 = 0x28;
pub(crate) const LOAD_BYTE: u16 = 0x30;
/// `BPF_ALU | BPF_AND | BPF_K`.
pub(crate) const AND: u16 = 0x54;
/// `BPF_JMP | BPF_JA`.
pub(crate) const JUMP: u16 = 0x05;
/// `BPF_JMP | BPF_JEQ | BPF_K`.
pub(crate) const JUMP_EQUAL: u16 = 0x15;
/// `BPF_JMP | BPF_JGE | BPF_K`.
pub(crate) const JUMP_NOT_LESS: u16 = 0x35;
/// `BPF_RET | BPF_K`.
pub(crate) const RETURN: u16 = 0x06;

/// The end of a program, with the whole frame and without it.
pub(crate) const ACCEPT: sock_filter = instruction(RETURN, u32::MAX);
pub(crate) const REFUSE: sock_filter = instruction(RETURN, 0);

/// Behind an Ethernet header of 14 bytes, of IPv6 what follows and the destination, ...
pub(crate) const V6_NEXT_HEADER: u32 = 20;
pub(crate) const V6_DESTINATION: u32 = 38;
/// ... and of ICMPv6 behind that the type.
pub(crate) const ICMPV6_TYPE: u32 = 54;

/// Protocol number of ICMPv6, and types of its messages (RFC 4861 §4.2, §4.4): that of a neighbour
/// solicitation (§4.3) lies between them.
pub(crate) const ICMPV6: u32 = 58;
pub(crate) const ROUTER_ADVERTISEMENT: u32 = 134;
pub(crate) const NEIGHBOUR_ADVERTISEMENT: u32 = 136;

pub(crate) const fn instruction(code: u16, k: u32) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Skips so many instructions, if what was loaded is `k`.
pub(crate) const fn if_equal(k: u32, skip: u8) -> sock_filter {
    sock_filter {
        jt: skip,
        ..instruction(JUMP_EQUAL, k)
    }
}

/// Skips so many instructions, unless what was loaded is `k`.
pub(crate) const fn unless_equal(k: u32, skip: u8) -> sock_filter {
    sock_filter {
        jf: skip,
        ..instruction(JUMP_EQUAL, k)
    }
}

/// Where the kernel's own knowledge of a frame is loaded from (`SKF_AD_*`).
pub(crate) const fn special(at: c_int) -> u32 {
    (SKF_AD_OFF + at).cast_unsigned()
}
