//! What the kernel's side of a comparison runs with: its TCP settings, read where its sockets are.

use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use mtcp::CongestionControl;
use serde_json::{Map, Value, json};

/// Settings of a network namespace that decide how fast the kernel's TCP is, below `/proc/sys/net`.
const KEYS: &[&str] = &[
    "ipv4/tcp_rmem",
    "ipv4/tcp_wmem",
    "ipv4/tcp_timestamps",
    "ipv4/tcp_ecn",
    "core/somaxconn",
];
/// The same of the machine, which other namespaces do not show.
const MACHINE_KEYS: &[&str] = &["core/default_qdisc"];
/// What `ethtool -k` calls the offloads that make long segments.
const OFFLOADS: &[&str] = &[
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
];

/// The settings of the kernel's side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baseline {
    /// The congestion control of its sockets.
    congestion: &'static str,
    /// Whether its sockets have a namespace with Linux's default settings, or this machine's as
    /// they are.
    own_namespace: bool,
    /// Keys of sysctl(8) and their values.
    settings: Vec<(String, String)>,
    /// Offloads of the interface under the kernel's sockets, as ethtool(8) names them, and `on` or
    /// `off`.
    offloads: Vec<(String, String)>,
}

impl Baseline {
    /// Reads what is in force for this thread's network namespace.
    pub(crate) fn read(congestion: CongestionControl, own_namespace: bool) -> Self {
        Self {
            congestion: congestion.name(),
            own_namespace,
            settings: settings(KEYS),
            offloads: Vec::new(),
        }
    }

    /// Adds what is the machine's, not a namespace's. Called outside of the namespaces of a
    /// benchmark.
    pub(crate) fn add_machine(&mut self) {
        self.settings.extend(settings(MACHINE_KEYS));
    }

    /// Adds what `ethtool -k`, the command, says; nothing if it cannot run.
    pub(crate) fn add_offloads(&mut self, mut ethtool: Command) {
        let output = ethtool
            .output()
            .ok()
            .filter(|output| output.status.success());
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        self.offloads = offloads(&text.unwrap_or_default());
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let map = |pairs: &[(String, String)]| -> Map<String, Value> {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| (key.clone(), json!(value)))
                .collect()
        };
        json!({
            "congestion": self.congestion,
            "own_namespace": self.own_namespace,
            "settings": map(&self.settings),
            "offloads": map(&self.offloads),
        })
    }

    /// One line for people.
    pub(crate) fn text(&self) -> String {
        let list = |pairs: &[(String, String)]| -> String {
            let pairs = pairs.iter().map(|(key, value)| format!("; {key} {value}"));
            pairs.collect()
        };
        format!(
            "the kernel's sockets: {}, {}{}{}",
            self.congestion,
            if self.own_namespace {
                "in namespaces with Linux's default settings"
            } else {
                "with this machine's settings (as root: Linux's defaults)"
            },
            list(&self.settings),
            list(&self.offloads),
        )
    }
}

/// The values of these keys, under the names that sysctl(8) has for them. Those that this kernel
/// lacks are left out.
fn settings(keys: &[&str]) -> Vec<(String, String)> {
    let settings = keys.iter().filter_map(|key| {
        let value = read_to_string(Path::new("/proc/sys/net").join(key)).ok()?;
        let words: Vec<&str> = value.split_whitespace().collect();
        Some((format!("net.{}", key.replace('/', ".")), words.join(" ")))
    });
    settings.collect()
}

/// The lines of `ethtool -k` that matter here.
fn offloads(text: &str) -> Vec<(String, String)> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let pairs = pairs.filter(|(name, _)| OFFLOADS.contains(&name.trim()));
    let pairs = pairs.filter_map(|(name, state)| {
        let state = state.split_whitespace().next()?;
        Some((name.trim().to_owned(), state.to_owned()))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offloads_are_read_from_what_ethtool_prints() {
        let text = "Features for lo:\nrx-checksumming: on [fixed]\ntcp-segmentation-offload: on\n\
                    \ttx-tcp-segmentation: on\ngeneric-receive-offload: off [requested on]\n";
        let pair = |name: &str, state: &str| (name.to_owned(), state.to_owned());
        assert_eq!(
            offloads(text),
            [
                pair("tcp-segmentation-offload", "on"),
                pair("generic-receive-offload", "off"),
            ]
        );
    }

    #[test]
    fn the_line_names_every_setting() {
        let baseline = Baseline::read(CongestionControl::Cubic, false);
        let text = baseline.text();
        assert!(
            text.contains("cubic") && text.contains("; net.ipv4.tcp_rmem 4096 "),
            "{text}"
        );
        assert_eq!(baseline.json()["congestion"], "cubic");
    }
}
