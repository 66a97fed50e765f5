//! The addresses of the host, as programs ask for them: those of the stack are on its interface,
//! beside the kernel's.

use std::ffi::{CStr, c_int};
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{ifaddrs, sockaddr, sockaddr_storage};
use mtcp::Domain;
use mtcp::config::Cidr;
use mtcp::posix::address;

use super::hooks;
use crate::real;
use crate::rules::rules;

hooks! {
    /// getifaddrs(3).
    fn getifaddrs(list: *mut *mut ifaddrs) -> c_int {
        // SAFETY: the same argument.
        let result = unsafe { real::getifaddrs(list) };
        if result == 0 {
            // SAFETY: the C library made the list, which is nobody else's yet.
            unsafe { extend(*list) };
        }
        result
    }

    /// freeifaddrs(3).
    fn freeifaddrs(list: *mut ifaddrs) -> () {
        // SAFETY: the caller's promise: a list of `getifaddrs` that nobody uses any more.
        unsafe {
            shorten(list);
            real::freeifaddrs(list);
        }
    }
}

/// One address of the stack, and all that its entry points to.
#[derive(Debug)]
struct Entry {
    entry: ifaddrs,
    addr: sockaddr_storage,
    netmask: sockaddr_storage,
    broadcast: sockaddr_storage,
}

/// Entries of ours that lists have, by their addresses.
fn entries() -> MutexGuard<'static, Vec<usize>> {
    static ENTRIES: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last entry of a list, and one of the interface `name`.
///
/// # Safety
/// `list` is a list of `getifaddrs` or NULL.
unsafe fn survey(list: *mut ifaddrs, name: &str) -> Option<(*mut ifaddrs, ifaddrs)> {
    let mut last = list;
    let mut found = None;
    let mut next = list;
    // SAFETY: the caller's promise.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        let named = unsafe { CStr::from_ptr(entry.ifa_name) };
        if named.to_bytes() == name.as_bytes() && found.is_none() {
            found = Some(*entry);
        }
        last = next;
        next = entry.ifa_next;
    }
    found.map(|found| (last, found))
}

/// Whether a list has an address already.
///
/// # Safety
/// As for [`survey`].
unsafe fn has(list: *mut ifaddrs, ip: IpAddr) -> bool {
    let mut next = list;
    // SAFETY: the caller's promise.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: an address, of any family, has the room of its family.
        let family = unsafe { entry.ifa_addr.as_ref() }.map(|addr| c_int::from(addr.sa_family));
        let len = match family {
            Some(libc::AF_INET) => size_of::<libc::sockaddr_in>(),
            Some(libc::AF_INET6) => size_of::<libc::sockaddr_in6>(),
            _ => 0,
        };
        // SAFETY: so many bytes are there.
        let addr = unsafe { address::parse(entry.ifa_addr, len as libc::socklen_t) };
        if addr.is_ok_and(|addr| addr.ip() == ip) {
            return true;
        }
        next = entry.ifa_next;
    }
    false
}

/// Adds the addresses of the stack, if the list has its interface.
///
/// # Safety
/// As for [`survey`], and nobody else has it.
unsafe fn extend(list: *mut ifaddrs) {
    let Some(rules) = rules() else {
        return;
    };
    // SAFETY: the caller's promise.
    let Some((mut last, like)) = (unsafe { survey(list, &rules.interface()) }) else {
        return;
    };
    for network in &rules.config.addresses {
        // SAFETY: as above.
        if unsafe { has(list, network.addr) } {
            continue;
        }
        let entry = Box::into_raw(Box::new(Entry::new(network, &like)));
        // SAFETY: it was made now, and nobody else has it; `last` is the last entry of the list.
        unsafe {
            (*entry).point();
            (*last).ifa_next = &raw mut (*entry).entry;
            last = (*last).ifa_next;
        }
        entries().push(entry.addr());
    }
}

/// Takes our entries away and frees them.
///
/// # Safety
/// As for [`extend`].
unsafe fn shorten(list: *mut ifaddrs) {
    let mut at = list;
    // SAFETY: the caller's promise.
    while let Some(entry) = unsafe { at.as_mut() } {
        let next = entry.ifa_next;
        let mut entries = entries();
        if let Some(place) = entries.iter().position(|ours| *ours == next.addr()) {
            entries.swap_remove(place);
            // SAFETY: `extend` made it, and it is freed here alone; `entry` is its first field.
            let ours = unsafe { Box::from_raw(next.cast::<Entry>()) };
            entry.ifa_next = ours.entry.ifa_next;
        } else {
            at = next;
        }
    }
}

impl Entry {
    fn new(network: &Cidr, like: &ifaddrs) -> Self {
        let storage = |ip: IpAddr| {
            // SAFETY: all zeros are an address of no family.
            let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
            let mut len = size_of_val(&storage) as libc::socklen_t;
            let domain = if ip.is_ipv4() { Domain::V4 } else { Domain::V6 };
            let to = (&raw mut storage).cast();
            // SAFETY: room for any address, which it therefore takes.
            let _ = unsafe { address::store(SocketAddr::new(ip, 0), domain, to, &raw mut len) };
            storage
        };
        let (mask, broadcast) = around(network);
        Self {
            entry: ifaddrs {
                ifa_next: ptr::null_mut(),
                ..*like
            },
            addr: storage(network.addr),
            netmask: storage(mask),
            broadcast: storage(broadcast),
        }
    }

    /// Has the entry point to what lies beside it.
    fn point(&mut self) {
        let at = |storage: &mut sockaddr_storage| ptr::from_mut(storage).cast::<sockaddr>();
        self.entry.ifa_addr = at(&mut self.addr);
        self.entry.ifa_netmask = at(&mut self.netmask);
        self.entry.ifa_ifu = if c_int::from(self.addr.ss_family) == libc::AF_INET {
            at(&mut self.broadcast)
        } else {
            ptr::null_mut()
        };
        self.entry.ifa_data = ptr::null_mut();
    }
}

/// The mask of a network and its broadcast address, which networks of IPv6 have none of.
fn around(network: &Cidr) -> (IpAddr, IpAddr) {
    let shift = |bits: u32| bits.saturating_sub(network.prefix_len.into());
    match network.addr {
        IpAddr::V4(addr) => {
            let host = u32::MAX.checked_shr(network.prefix_len.into()).unwrap_or(0);
            let broadcast = u32::from(addr) | host;
            (IpAddr::V4((!host).into()), IpAddr::V4(broadcast.into()))
        }
        IpAddr::V6(addr) => {
            let mask = u128::MAX.checked_shl(shift(128)).unwrap_or(0);
            (IpAddr::V6(mask.into()), IpAddr::V6(addr))
        }
    }
}
