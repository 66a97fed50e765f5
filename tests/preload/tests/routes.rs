//! Which way connections of a program on mTCP go.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use applications::site::succeed;
use applications::{Family, Site};
use interop::lab::{Lab, listening};
use interop::programs;

/// The kernel's `ours1`, 10.78.0.1, and at its other end 10.78.0.2.
fn second_interface(lab: &Lab) {
    let peer = lab.peer().name();
    lab.ours().ip(&format!(
        "link add ours1 type veth peer name peer1 netns {peer}"
    ));
    lab.ours().ip("address add 10.78.0.1/24 dev ours1");
    lab.ours().ip("link set ours1 up");
    lab.peer().ip("address add 10.78.0.2/24 dev peer1");
    lab.peer().ip("link set peer1 up");
}

/// Connects with sockets that are tied to each of the interfaces, and with one that is tied no
/// more: says from where.
const TIE: &str = "
import socket, sys
for names in ['ours0'], ['ours1'], ['ours0', '']:
    s = socket.socket()
    for name in names: s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
    s.connect((sys.argv[1], 80))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, names[-1].encode())
    print(*names, s.getsockname()[0], flush=True)
";

#[test]
fn a_socket_that_is_tied_to_an_interface_goes_there() {
    let Some(site) = Site::new(&["python3"]) else {
        return;
    };
    let lab = site.lab();
    let (ours, peer) = (Family::V4.ours(), Family::V4.peer());
    second_interface(lab);
    lab.ours().ip(&format!("route add {peer}/32 dev ours1"));
    let mut server = lab.peer().command(programs::mtcp());
    server.arg("serve").arg(lab.www());
    server.args(["--io", "kernel", "--addr", &peer.to_string()]);
    let server = listening(server);
    let script = site.write("tie.py", TIE);
    let finished = succeed(site.ours(&format!("python3 {script} {peer}")));
    let expected = format!("ours0 {ours}\nours1 10.78.0.1\nours0  {ours}\n");
    assert_eq!(
        (finished.stdout, finished.stderr.as_str()),
        (expected, ""),
        "what has an effect needs no warning"
    );
    server.stop();
}

/// A second interface of ours, behind which the kernel has a route to a network of servers.
#[test]
fn a_route_of_the_kernel_wins_over_the_gateway() {
    let Some(site) = Site::new(&["curl"]) else {
        return;
    };
    let lab = site.lab();
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    second_interface(lab);
    lab.peer().ip("address add 10.99.0.1/32 dev lo");
    lab.ours().ip("route add 10.99.0.0/24 via 10.78.0.2");
    let mut server = lab.peer().command(programs::mtcp());
    server.arg("serve").arg(lab.www());
    server.args(["--io", "kernel", "--addr", "10.99.0.1"]);
    let server = listening(server);
    let mut run = lab.ours().command(programs::mtcp());
    // A gateway that is not there.
    run.arg("run")
        .args(lab.link_args())
        .args(["--gateway", "10.77.0.250"]);
    run.args(["--", "curl", "--silent", "--show-error", "--max-time", "15"]);
    run.arg("http://10.99.0.1/small");
    assert_eq!(succeed(run).stdout, "small\n");
    server.stop();
}

/// Lists interfaces with their addresses and masks, ten times, and binds a socket for datagrams to
/// an address.
const LIST: &str = "
import ctypes, errno, socket, struct, sys
class Entry(ctypes.Structure): pass
Entry._fields_ = [('next', ctypes.POINTER(Entry)), ('name', ctypes.c_char_p), ('flags', ctypes.c_uint),
                  ('addr', ctypes.c_void_p), ('mask', ctypes.c_void_p), ('ifu', ctypes.c_void_p), ('data', ctypes.c_void_p)]
libc = ctypes.CDLL(None)
def spell(at):
    family = ctypes.c_ushort.from_address(at).value if at else 0
    where = {socket.AF_INET: (4, 4), socket.AF_INET6: (8, 16)}.get(family)
    return socket.inet_ntop(family, ctypes.string_at(at + where[0], where[1])) if where else None
for turn in range(10):
    head = ctypes.POINTER(Entry)()
    assert libc.getifaddrs(ctypes.byref(head)) == 0
    at, found = head, []
    while at:
        entry = at.contents
        found.append((entry.name.decode(), spell(entry.addr), spell(entry.mask), entry.flags & 1))
        at = entry.next
    libc.freeifaddrs(head)
for entry in found: print(*entry)
server, client = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
server.bind((sys.argv[1], 5353))
try: client.bind((sys.argv[1], 0))
except OSError as error: print(errno.errorcode[error.errno])
";

#[test]
fn programs_that_ask_for_the_hosts_addresses_hear_of_the_stacks() {
    let Some(site) = Site::new(&["python3"]) else {
        return;
    };
    let script = site.write("list.py", LIST);
    let ours = Family::V4.ours();
    let finished = succeed(site.ours(&format!("python3 {script} {ours}")));
    let said = |line: String| {
        finished
            .stdout
            .lines()
            .filter(|said| **said == line)
            .count()
    };
    for (family, mask) in [
        (Family::V4, "255.255.255.0"),
        (Family::V6, "ffff:ffff:ffff:ffff::"),
    ] {
        let line = format!("{} {} {mask} 1", "ours0", family.ours());
        assert_eq!(said(line), 1, "{}", finished.stdout);
    }
    assert_eq!(said("EADDRNOTAVAIL".to_owned()), 1, "{}", finished.stdout);
    let deaf = format!("UDP at {ours}:5353 hears nothing");
    assert!(finished.stderr.contains(&deaf), "{}", finished.stderr);
}
