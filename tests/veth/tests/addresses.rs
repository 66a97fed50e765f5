//! Whose addresses are whose, who moves, and what mTCP can be started on.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;

use interop::lab::{KERNEL, KERNEL6, OURS, OURS6, PEER, PEER6, listening, url};
use interop::path::{Path, TAP, mtcp};
use interop::process::{Finished, finish, wait_until};
use interop::{Family, Gate, Kind, Lab, Namespace, Process, baseline, programs};

/// The links on an interface of the kernel's.
const BOTH: [Kind; 2] = [Kind::Afxdp, Kind::Packet];
const SOON: Duration = Duration::from_secs(20);
/// What nobody moves takes less, what is given up on takes longer.
const FOLLOWED: Duration = Duration::from_secs(25);

fn lab() -> Lab {
    lab_of(Kind::Afxdp)
}

fn lab_of(kind: Kind) -> Lab {
    let lab = Lab::new(kind);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    lab
}

/// A server of our directory on `interface` with these words.
fn serve(lab: &Lab, interface: &str, words: &[&str]) -> Command {
    let mut command = lab.ours().command(programs::mtcp());
    command.arg("serve").arg(lab.www());
    command
        .args(["--io", &format!("{}:{interface}", lab.kind())])
        .args(words);
    command
}

/// The one line of a command that must not start.
#[track_caller]
fn refused(command: Command) -> String {
    let finished = finish(command, SOON);
    assert_eq!(finished.status.code(), Some(2), "{finished}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished}");
    finished.stderr
}

fn fetched(lab: &Lab, host: &str) -> Finished {
    let host = host.parse().unwrap();
    let got = lab.curl(&[&url(host, "small")], SOON).must_succeed();
    assert_eq!(got.stdout, "small\n", "{got}");
    got
}

#[test]
fn an_address_of_the_kernel_is_refused_unless_it_is_forced() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    if baseline() {
        return;
    }
    for kind in BOTH {
        refuses_the_kernels_address(&lab_of(kind));
    }
}

fn refuses_the_kernels_address(lab: &Lab) {
    let io = format!("{}:ours0", lab.kind());
    for (address, own) in [
        (format!("{KERNEL}/24"), format!("{OURS}/24")),
        (format!("{KERNEL6}/64"), format!("{OURS6}/64")),
    ] {
        let mut words = vec!["--addr", &address];
        // Over AF_XDP, what is the kernel's is shared where all is.
        if lab.kind() == Kind::Afxdp {
            words.extend(["--addr", &own]);
        }
        let said = refused(serve(lab, "ours0", &words));
        assert!(
            said.contains("is the kernel's, on ours0") && said.contains("--force-address"),
            "{said}"
        );
        let mut run = lab.ours().command(programs::mtcp());
        run.args(["run", "--io", &io]).args(&words);
        run.args(["--", "true"]);
        assert!(refused(run).contains("is the kernel's"), "{address}");
    }
    let forced = ["--addr", &format!("{KERNEL}/24"), "--force-address"];
    listening(serve(lab, "ours0", &forced)).stop();
    // For programs of this machine.
    lab.ours().ip(&format!("address add {OURS}/32 dev lo"));
    let server = listening(serve(lab, "ours0", &["--addr", &format!("{OURS}/24")]));
    fetched(lab, &OURS.to_string());
    server.stop();
}

#[test]
fn an_address_of_another_host_is_refused_unless_it_is_forced() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    if baseline() {
        return;
    }
    let addresses = [format!("{PEER}/24"), format!("{PEER6}/64")];
    for (kind, address) in BOTH
        .into_iter()
        .flat_map(|kind| addresses.each_ref().map(|address| (kind, address)))
    {
        // Ending takes the link down for a moment, sooner or later: each has a link of its own.
        let lab = lab_of(kind);
        // Until then the kernel does not have it either.
        wait_until("the peer has its addresses", SOON, || {
            let tentative = lab.peer().ip("-6 address show dev peer0 tentative");
            tentative.is_empty()
        });
        let said = refused(serve(&lab, "ours0", &["--addr", address]));
        assert!(
            said.contains("in use by another host on ours0") && said.contains("--force-address"),
            "{said}"
        );
        let forced = ["--addr", address.as_str(), "--force-address"];
        listening(serve(&lab, "ours0", &forced)).stop();
    }
}

/// The TAP interface is on a bridge, with a host behind it.
#[test]
fn an_address_of_another_host_is_refused_over_tap_too() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    if baseline() {
        return;
    }
    let path = Path::new(1000, 1_000_000);
    let serve = |more: &[&str]| {
        let mut command = mtcp(
            &path.far,
            &["serve", "/proc", "--io", &format!("tap:{TAP}")],
        );
        command.args(["--addr", "10.78.0.1/24"]).args(more);
        command
    };
    let said = refused(serve(&[]));
    assert!(
        said.contains("10.78.0.1 is in use by another host on tap0")
            && said.contains("--force-address"),
        "{said}"
    );
    listening(serve(&["--force-address"])).stop();
}

/// Has the peer's hardware address change while we send to it; whether the rest still comes.
fn moves_while_we_send(announced: &str) {
    let lab = lab();
    std::fs::write(lab.www().join("long"), vec![b'x'; 3 << 20]).unwrap();
    let server = lab.serve(&[]);
    for (family, mac) in Family::BOTH
        .into_iter()
        .zip(["02:00:00:00:00:71", "02:00:00:00:00:72"])
    {
        let of = match family {
            Family::V4 => "ipv4/conf/peer0/arp_notify",
            Family::V6 => "ipv6/conf/peer0/ndisc_notify",
        };
        lab.peer().set(&format!("net/{of}"), announced);
        let mut client = lab.peer().command("curl");
        client.args(["--silent", "--show-error", "--fail", "--globoff"]);
        client.args(["--limit-rate", "2M", "--output", "/dev/null"]);
        client.args(["--write-out", "%{size_download}"]);
        client.arg(url(family.ours(), "long"));
        let client = Process::start(client);
        wait_until("the answer comes", SOON, || lab_receives(&lab));
        lab.peer().ip(&format!("link set peer0 address {mac}"));
        let finished = client.finish(FOLLOWED).must_succeed();
        assert_eq!(finished.stdout, (3 << 20).to_string(), "{finished}");
    }
    server.stop();
}

/// Whether the peer has received a good part.
fn lab_receives(lab: &Lab) -> bool {
    let link = lab.peer().ip("-s -j link show dev peer0");
    let link: serde_json::Value = serde_json::from_str(&link).unwrap();
    let bytes = link[0]["stats64"]["rx"]["bytes"].as_u64().unwrap();
    bytes > 300_000
}

/// RFC 826, RFC 4861 §7.2.6.
#[test]
fn a_peer_that_moves_and_says_so_is_followed() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    moves_while_we_send("1");
}

/// RFC 4861 §7.3.1.
#[test]
fn a_peer_that_moves_without_a_word_is_found() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    moves_while_we_send("0");
}

/// Two routers of the peer's, `gw1` and `gw2`, that can have the gateway's addresses, and a host
/// behind them.
fn add_routers(lab: &Lab) {
    let peer = lab.peer();
    for (name, mac) in [("gw1", FIRST), ("gw2", SECOND)] {
        let words = "type macvlan mode bridge";
        peer.ip(&format!(
            "link add link peer0 name {name} address {mac} {words}"
        ));
        for address in [format!("{GATEWAY}/32"), format!("{GATEWAY6}/128 nodad")] {
            peer.ip(&format!("address add {address} dev {name}"));
        }
    }
    peer.ip("link set gw1 up");
    peer.ip("address add 10.88.0.1/32 dev lo");
    peer.ip("address add fd88::1/128 dev lo nodad");
}

const GATEWAY: &str = "10.77.0.254";
const GATEWAY6: &str = "fd77::fe";
const FIRST: &str = "02:00:00:00:00:81";
const SECOND: &str = "02:00:00:00:00:82";

/// Has the second router take the gateway's addresses while we send through the first; whether the
/// rest still comes. `tell`: how we learn it.
fn another_router_takes_over(tell: impl Fn(&Lab)) {
    for family in Family::BOTH {
        let lab = lab();
        std::fs::write(lab.www().join("long"), vec![b'x'; 3 << 20]).unwrap();
        add_routers(&lab);
        let gateways = format!("{GATEWAY},{GATEWAY6}");
        let server = lab.serve(&["--gateway", &gateways]);
        let mut client = lab.peer().command("curl");
        client.args(["--silent", "--show-error", "--fail", "--globoff"]);
        client.args(["--limit-rate", "2M", "--output", "/dev/null"]);
        client.args(["--write-out", "%{size_download}"]);
        let from = match family {
            Family::V4 => "10.88.0.1",
            Family::V6 => "fd88::1",
        };
        client.args(["--interface", from, &url(family.ours(), "long")]);
        let client = Process::start(client);
        wait_until("the answer comes", SOON, || lab_receives(&lab));
        lab.peer().ip("link set gw1 down");
        tell(&lab);
        let finished = client.finish(FOLLOWED).must_succeed();
        assert_eq!(finished.stdout, (3 << 20).to_string(), "{finished}");
        server.stop();
    }
}

/// RFC 5798 §8.2: who becomes the master says so.
#[test]
fn a_router_that_takes_over_and_says_so_is_followed() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    another_router_takes_over(|lab| {
        lab.peer().set("net/ipv4/conf/gw2/arp_notify", "1");
        lab.peer().set("net/ipv6/conf/gw2/ndisc_notify", "1");
        lab.peer().ip("link set gw2 up");
    });
}

/// Where the kernel is told, as by a routing daemon, no router says or answers anything.
#[test]
fn a_router_that_the_kernel_is_told_of_is_followed() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    another_router_takes_over(|lab| {
        lab.peer().ip("link set gw2 arp off");
        lab.peer().ip("link set gw2 up");
        for address in [GATEWAY, GATEWAY6] {
            lab.ours().ip(&format!(
                "neighbour replace {address} lladdr {SECOND} dev ours0 nud permanent"
            ));
        }
    });
}

/// What the kernel was told before the stack started: no router says or answers anything then
/// either.
#[test]
fn neighbours_that_the_kernel_was_told_of_before_are_known() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    if baseline() {
        return;
    }
    let lab = lab();
    let (mac, ours) = ("02:00:00:00:00:79", "02:00:00:00:00:7a");
    lab.peer()
        .ip(&format!("link set peer0 address {mac} arp off"));
    lab.ours().ip(&format!("link set ours0 address {ours}"));
    let permanent = |end: &Namespace, address: IpAddr, mac: &str, interface: &str| {
        let words = format!("lladdr {mac} dev {interface} nud permanent");
        end.ip(&format!("neighbour replace {address} {words}"));
    };
    for family in Family::BOTH {
        permanent(lab.peer(), family.ours(), ours, "peer0");
        permanent(lab.ours(), family.peer(), mac, "ours0");
    }
    let server = lab.serve(&[]);
    for family in Family::BOTH {
        fetched(&lab, &family.ours().to_string());
    }
    server.stop();
}

/// RFC 5227 §2.4(b); Linux, too, keeps an address of IPv6 that another host comes to have, and says
/// so.
#[test]
fn a_host_that_comes_to_have_an_address_of_ours_is_named() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    if baseline() {
        return;
    }
    let lab = lab();
    let mut server = lab.serve(&[]);
    // It says where its addresses are when its hardware address changes.
    lab.peer().set("net/ipv4/conf/peer0/arp_notify", "1");
    lab.peer().set("net/ipv6/conf/peer0/ndisc_notify", "1");
    for address in [format!("{OURS}/32"), format!("{OURS6}/128 nodad")] {
        lab.peer().ip(&format!("address add {address} dev peer0"));
    }
    let mac = "02:00:00:00:00:71";
    lab.peer().ip(&format!("link set peer0 address {mac}"));
    for family in Family::BOTH {
        let ours = family.ours();
        server.wait_for_warning(&format!("another host, {mac}, has {ours}, too"), SOON);
    }
    lab.peer().ip("link set peer0 address 02:00:00:00:00:72");
    for address in [format!("{OURS}/32"), format!("{OURS6}/128")] {
        lab.peer().ip(&format!("address del {address} dev peer0"));
    }
    // What was said meanwhile has arrived.
    for family in Family::BOTH {
        fetched(&lab, &family.ours().to_string());
    }
    let told = server.stop().stderr.matches("another host").count();
    assert_eq!(told, 2, "once each, so soon");
}

/// Words of a client that goes through the gateway `fe80::1` to what is behind it.
const BEHIND: [&str; 5] = ["http://[fd88::1]/small", "-n", "3", "--gateway", "fe80::1"];

/// A gateway with that address, and a server behind it.
fn behind_a_link_local_gateway(lab: &Lab) -> Process {
    lab.peer().ip("address add fe80::1/64 dev peer0 nodad");
    lab.peer().ip("address add fd88::1/128 dev lo nodad");
    let mut server = lab.peer().command(programs::mtcp());
    server.arg("serve").arg(lab.www());
    server.args(["--io", "kernel", "--addr", "fd88::1"]);
    listening(server)
}

#[test]
fn a_link_local_address_that_another_host_has_is_given_up_for_another() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    if baseline() {
        return;
    }
    let lab = lab();
    lab.ours().ip("link set ours0 address 02:00:00:00:00:91");
    let server = behind_a_link_local_gateway(&lab);
    // What the stack calls itself when it asks for the gateway.
    let own = || -> Vec<String> {
        let known = lab.peer().ip("-6 neighbour show dev peer0");
        let ours = known
            .lines()
            .filter(|line| line.contains("02:00:00:00:00:91"));
        let addresses = ours.filter_map(|line| line.split(' ').next());
        let own = addresses.filter(|address| address.starts_with("fe80::"));
        own.map(ToOwned::to_owned).collect()
    };
    assert_eq!(lab.load(&BEHIND, SOON)["succeeded"], 3);
    let before = own();
    assert_eq!(before.len(), 1, "{before:?}");
    let taken = &before[0];
    lab.peer().ip(&format!("neighbour del {taken} dev peer0"));
    lab.peer()
        .ip(&format!("address add {taken}/64 dev peer0 nodad"));
    assert_eq!(lab.load(&BEHIND, SOON)["succeeded"], 3);
    let after = own();
    assert!(after.len() == 1 && after != before, "{before:?} {after:?}");
    server.stop();
}

#[test]
fn a_gateway_with_a_link_local_address_is_reached() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    if baseline() {
        return;
    }
    let lab = lab();
    let server = behind_a_link_local_gateway(&lab);
    let report = lab.load(&BEHIND, SOON);
    assert_eq!(report["succeeded"], 3, "{report}");
    server.stop();
}

/// Devices of the kernel's own leave checksums unfinished, and their frames come in generic mode.
#[test]
fn virtual_devices_serve_a_peer_that_leaves_checksums_to_the_device() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    if baseline() {
        return;
    }
    let lab = lab();
    let address = format!("{OURS}/24");
    for (name, make) in [
        (
            "mv0",
            "link add link ours0 name mv0 type macvlan mode bridge",
        ),
        ("br0", "link add br0 type bridge"),
    ] {
        lab.ours().ip(make);
        if name == "br0" {
            lab.ours().ip("link set ours0 master br0");
        }
        lab.ours().ip(&format!("link set {name} up"));
        let server = listening(serve(&lab, name, &["--addr", &address]));
        fetched(&lab, &OURS.to_string());
        let said = server.stop();
        assert!(
            said.stderr.contains("warning") && said.stderr.contains("generic XDP"),
            "the fall-back is told: {said}"
        );
        lab.ours().ip(&format!("link delete {name}"));
    }
    lab.ours().ip("tuntap add dev tun0 mode tun");
    lab.ours().ip("link set tun0 up");
    let said = refused(serve(&lab, "tun0", &["--addr", "10.79.0.1/24"]));
    assert!(said.contains("no Ethernet headers"), "{said}");
}

/// `nsenter` and systemd enter a network namespace and leave `/sys` as it was.
#[test]
fn an_interface_is_found_where_sys_shows_those_of_another_namespace() {
    let Some(_gate) = Gate::beside_others() else {
        return;
    };
    if baseline() {
        return;
    }
    let lab = lab();
    let namespace = format!("--net=/run/netns/{}", lab.ours().name());
    let enter = |words: &[&str]| {
        let mut command = Command::new("nsenter");
        command.arg(&namespace).arg(programs::mtcp()).args(words);
        command
    };
    let www = lab.www();
    let address = format!("{OURS}/24");
    let words = [
        "serve",
        www.to_str().unwrap(),
        "--io",
        "afxdp:ours0",
        "--addr",
        &address,
    ];
    let server = listening(enter(&words));
    fetched(&lab, &OURS.to_string());
    server.stop();
    let doctor = finish(enter(&["doctor", "--io", "afxdp:ours0"]), SOON);
    assert!(doctor.stdout.contains("ours0"), "{doctor}");
    assert!(!doctor.stdout.contains("no such interface"), "{doctor}");
    let missing = [
        "serve",
        www.to_str().unwrap(),
        "--io",
        "afxdp:none0",
        "--addr",
        &address,
    ];
    assert!(refused(enter(&missing)).contains("no interface 'none0'"));
}
