//! A network interface: driver, queues, offloads, who else uses it.

use std::process::Command;

use mtcp::interfaces::{self, Interface, OperState};
use serde_json::Value;

use super::check::Check;
use super::holder;

/// Drivers that run XDP programs themselves ("native").
const NATIVE: &[&str] = &[
    "atlantic",
    "bnxt_en",
    "bonding",
    "dpaa2",
    "ena",
    "fec",
    "gve",
    "hv_netvsc",
    "i40e",
    "iavf",
    "ice",
    "idpf",
    "igb",
    "igc",
    "ixgbe",
    "ixgbevf",
    "mana",
    "mlx4_en",
    "mlx5_core",
    "mvneta",
    "mvpp2",
    "nfp",
    "qede",
    "sfc",
    "stmmac",
    "tg3",
    "thunder",
    "tsnep",
    "tun",
    "virtio_net",
    "vmxnet3",
];
/// Of these, the ones that AF_XDP can share buffers with ("zero copy").
const ZERO_COPY: &[&str] = &[
    "atlantic",
    "bnxt_en",
    "dpaa2",
    "gve",
    "i40e",
    "ice",
    "idpf",
    "igb",
    "igc",
    "ixgbe",
    "mlx5_core",
    "nfp",
    "stmmac",
    "tsnep",
    "virtio_net",
];

fn find(name: &str) -> Result<Interface, Check> {
    interfaces::find(name).map_err(|error| {
        let finding = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such interface".to_owned(),
            _ => error.to_string(),
        };
        Check::fail(name, finding, "see 'ip link' for those that exist")
    })
}

/// What is to say about interface `name` whatever receives there.
pub(crate) fn plain(name: &str) -> Vec<Check> {
    match find(name) {
        Ok(interface) => [state(&interface)]
            .into_iter()
            .chain(without_ethernet(&interface))
            .collect(),
        Err(missing) => vec![missing],
    }
}

/// All that is to say about interface `name` for AF_XDP.
pub(crate) fn check(name: &str) -> Vec<Check> {
    let interface = match find(name) {
        Ok(interface) => interface,
        Err(missing) => return vec![missing],
    };
    let driver = driver(&interface);
    let mut checks = vec![
        state(&interface),
        xdp_mode(name, &driver),
        queues(name),
        mtu(&interface, &driver),
        attached(&interface, &details(name)),
    ];
    checks.extend(without_ethernet(&interface));
    checks.extend(offloads(name));
    checks
}

fn without_ethernet(interface: &Interface) -> Option<Check> {
    let failed = || {
        Check::fail(
            &interface.name,
            "its frames have no Ethernet headers",
            "use the interface below it, or a TAP device",
        )
    };
    (!interface.ethernet).then(failed)
}

/// Interfaces that an application might be given.
pub(crate) fn names() -> Vec<String> {
    let all = interfaces::all().unwrap_or_default();
    let mut names: Vec<String> = all
        .into_iter()
        .filter(|interface| interface.ethernet)
        .map(|interface| interface.name)
        .filter(|name| !name.starts_with("ifb") && !name.starts_with("dummy"))
        .collect();
    names.sort();
    names
}

/// What `ip` knows; null without it.
fn details(name: &str) -> Value {
    let output = Command::new("ip")
        .args(["-j", "-d", "link", "show", "dev", name])
        .output();
    let list: Value = output
        .ok()
        .and_then(|output| serde_json::from_slice(&output.stdout).ok())
        .unwrap_or_default();
    list.get(0).cloned().unwrap_or_default()
}

fn driver(interface: &Interface) -> String {
    // The kernel names the driver of a virtual interface by its kind.
    let kind = || interface.kind.clone();
    let driver = interfaces::driver(&interface.name).ok();
    driver.or_else(kind).unwrap_or_else(|| "unknown".into())
}

fn state(interface: &Interface) -> Check {
    let name = &interface.name;
    match (interface.admin_up, interface.state) {
        (true, OperState::Up | OperState::Unknown) => Check::ok(name, "up"),
        (true, OperState::Down) => {
            Check::fail(name, "no carrier", "plug in the cable, or set its peer up")
        }
        (false, _) => Check::fail(name, "down", format!("ip link set {name} up")),
    }
}

fn xdp_mode(name: &str, driver: &str) -> Check {
    let what = format!("{name} XDP");
    if ZERO_COPY.contains(&driver) {
        return Check::ok(what, format!("driver {driver}: native mode, zero copy"));
    }
    if driver == "veth" {
        return Check::ok(
            what,
            "driver veth: traffic control with one queue and Linux 6.6, else native mode, one copy per frame",
        );
    }
    if NATIVE.contains(&driver) {
        return Check::ok(
            what,
            format!("driver {driver}: native mode, one copy per frame"),
        );
    }
    Check::warn(
        what,
        format!("driver {driver}: generic mode only, slower"),
        "use an interface with native XDP for speed",
    )
}

fn queues(name: &str) -> Check {
    let what = format!("{name} queues");
    let all = match interfaces::queues(name) {
        Ok(queues) => queues,
        Err(error) => return Check::warn(what, error.to_string(), "see 'ethtool -l'"),
    };
    let (queues, most) = (all.rx as usize, all.rx_max.min(all.tx_max) as usize);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    if queues >= processors {
        return Check::ok(what, format!("{queues} for {processors} processors"));
    }
    let finding =
        format!("{queues} for {processors} processors: at most {queues} of them can drive it");
    let wanted = processors.min(most);
    if wanted <= queues {
        return Check::ok(what, format!("{finding}; its device has no more"));
    }
    Check::warn(what, finding, all.command(name, wanted))
}

fn mtu(interface: &Interface, driver: &str) -> Check {
    let most = interfaces::longest_packet(interface.mtu, driver);
    let Interface { name, mtu, .. } = interface;
    let what = format!("{name} MTU");
    if *mtu <= most {
        return Check::ok(what, mtu.to_string());
    }
    Check::warn(
        what,
        format!("{mtu}; packets of ours have at most {most}, and longer ones of peers are lost"),
        format!("'ip link set {name} mtu {most}'"),
    )
}

/// Who has it, by a program of XDP or in traffic control.
fn attached(interface: &Interface, link: &Value) -> Check {
    let name = &interface.name;
    let what = format!("{name} holder");
    match (holder::find(interface.index), link.pointer("/xdp/prog/id")) {
        (None, None) => Check::ok(what, "nobody, as far as this user can see"),
        (Some(process), _) => Check::fail(
            what,
            format!("{process} has a program on it"),
            "end that process, or choose another interface",
        ),
        (None, Some(id)) => Check::fail(
            what,
            format!("XDP program {id} is attached"),
            format!("stop what uses it, or 'ip link set {name} xdp off'"),
        ),
    }
}

/// The features that `ethtool -k` lists, `None` without it.
fn features(name: &str) -> Option<String> {
    let output = Command::new("ethtool").args(["-k", name]).output();
    let sbin = || {
        Command::new("/usr/sbin/ethtool")
            .args(["-k", name])
            .output()
    };
    let output = output
        .or_else(|_| sbin())
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

fn is_on(features: &str, feature: &str) -> bool {
    let lines = features
        .lines()
        .filter_map(|line| line.trim().split_once(": "));
    lines
        .into_iter()
        .any(|(name, value)| name == feature && value.starts_with("on"))
}

fn offloads(name: &str) -> Vec<Check> {
    let what = format!("{name} offloads");
    let Some(features) = features(name) else {
        return vec![Check::warn(what, "unknown", "install ethtool")];
    };
    if is_on(&features, "large-receive-offload") {
        return vec![Check::fail(
            what,
            "LRO is on, which XDP programs do not go with",
            format!("ethtool -K {name} lro off"),
        )];
    }
    vec![Check::ok(what, "LRO is off")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_found() {
        let text = "Features for x:\nrx-checksumming: on [fixed]\n\ttx-checksum-ipv4: off [fixed]\nlarge-receive-offload: off\n";
        assert!(is_on(text, "rx-checksumming"));
        assert!(
            !is_on(text, "tx-checksum-ipv4")
                && !is_on(text, "large-receive-offload")
                && !is_on(text, "nothing")
        );
    }

    #[test]
    fn a_missing_interface_is_a_failure() {
        let checks = check("nonexistent0");
        assert!(
            matches!(checks.as_slice(), [one] if one.state == super::super::check::State::Fail)
        );
    }
}
