//! The ioctls of /dev/net/tun and of network interfaces.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wire::frame::MacAddr;

use crate::{context, sys};

/// Longest interface name, in bytes: IFNAMSIZ less the terminator.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// `struct ifreq` (netdevice(7)): a name and a union of 24 bytes.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
struct IfReq {
    name: [u8; libc::IFNAMSIZ],
    data: [u8; 24],
}

const _: () = assert!(size_of::<IfReq>() == size_of::<libc::ifreq>());

impl IfReq {
    fn new(name: &str) -> io::Result<Self> {
        let ok = !name.is_empty()
            && name.len() <= NAME_MAX
            && !name
                .bytes()
                .any(|b| b == 0 || b == b'/' || b.is_ascii_whitespace());
        if !ok {
            return Err(context::invalid(format_args!(
                "\"{name}\" is not an interface name: 1 to {NAME_MAX} bytes without '/' and spaces"
            )));
        }
        let mut request = Self::default();
        for (to, from) in request.name.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        Ok(request)
    }

    fn set_short(&mut self, value: u16) {
        let [a, b] = value.to_ne_bytes();
        self.data[0] = a;
        self.data[1] = b;
    }

    fn short(&self) -> u16 {
        u16::from_ne_bytes([self.data[0], self.data[1]])
    }

    fn int(&self) -> i32 {
        i32::from_ne_bytes([self.data[0], self.data[1], self.data[2], self.data[3]])
    }

    /// The address in a `struct sockaddr`: after the family.
    fn mac(&self) -> MacAddr {
        let d = &self.data;
        MacAddr([d[2], d[3], d[4], d[5], d[6], d[7]])
    }

    /// The name as the kernel completed it.
    fn name(&self) -> String {
        let end = self.name.iter().position(|&b| b == 0);
        let bytes = self.name.get(..end.unwrap_or(NAME_MAX)).unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn call(&mut self, fd: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<()> {
        // SAFETY: every request used here takes a pointer to a `struct ifreq`, which `IfReq` has
        // the layout of; the kernel writes nothing beyond it, and any bytes are a valid `IfReq`.
        unsafe { sys::control(fd, request, self) }
    }
}

/// Makes `fd`, an open /dev/net/tun, a queue of the TAP interface `name`, and returns the name in
/// full (`tap%d` gets a number).
pub(super) fn set_interface(
    fd: BorrowedFd<'_>,
    name: &str,
    multi_queue: bool,
) -> io::Result<String> {
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if multi_queue {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    let mut request = IfReq::new(name)?;
    // The flags of TUNSETIFF are a short; none of these is beyond it.
    request.set_short(flags as u16);
    request.call(fd, libc::TUNSETIFF)?;
    Ok(request.name())
}

/// Lets the kernel leave checksums to us, and hand over several TCP segments in one frame.
pub(super) fn set_offloads(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    unsafe {
        sys::control_number(
            fd,
            libc::TUNSETOFFLOAD,
            libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6),
        )
    }
}

/// Sets the length of the header before each frame, in bytes.
pub(super) fn set_header_len(fd: BorrowedFd<'_>, len: usize) -> io::Result<()> {
    let mut len = libc::c_int::try_from(len).map_err(context::invalid)?;
    // SAFETY: TUNSETVNETHDRSZ reads one int behind the pointer.
    unsafe { sys::control(fd, libc::TUNSETVNETHDRSZ, &mut len) }
}

/// An interface by name, seen through a socket in the calling thread's network namespace.
#[derive(Debug)]
pub(super) struct Interface {
    socket: OwnedFd,
    request: IfReq,
}

impl Interface {
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        Ok(Self {
            socket: socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?,
            request: IfReq::new(name)?,
        })
    }

    fn ask(&self, what: libc::Ioctl) -> io::Result<IfReq> {
        let mut request = self.request;
        request.call(self.socket.as_fd(), what)?;
        Ok(request)
    }

    /// Largest IP packet, in bytes.
    pub(super) fn mtu(&self) -> io::Result<u16> {
        let mtu = self.ask(libc::SIOCGIFMTU as libc::Ioctl)?.int();
        Ok(u16::try_from(mtu.max(0)).unwrap_or(u16::MAX))
    }

    /// The kernel's address on the link.
    pub(super) fn mac(&self) -> io::Result<MacAddr> {
        Ok(self.ask(libc::SIOCGIFHWADDR as libc::Ioctl)?.mac())
    }

    /// Brings the interface up, if it is not.
    pub(super) fn up(&self) -> io::Result<()> {
        let mut request = self.ask(libc::SIOCGIFFLAGS as libc::Ioctl)?;
        let flags = request.short();
        let up = flags | libc::IFF_UP as u16;
        if flags == up {
            return Ok(());
        }
        request.set_short(up);
        request.call(self.socket.as_fd(), libc::SIOCSIFFLAGS as libc::Ioctl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_kernel_would_cut_are_refused() {
        assert!(IfReq::new("tap0").is_ok());
        assert!(IfReq::new("exactly15bytes0").is_ok());
        for bad in ["", "sixteen-bytes-00", "a/b", "a b", "a\0b"] {
            assert!(IfReq::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_loopback_interface_answers() {
        let lo = Interface::new("lo").unwrap();
        assert!(lo.mtu().unwrap() >= 1280);
        assert_eq!(lo.mac().unwrap(), MacAddr([0; 6]));
    }
}
