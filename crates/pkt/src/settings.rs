//! What a script says about its world: addresses, tolerance, and the stack's configuration.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use mtcp_core::Config;
use mtcp_core::config::SynCookies;

use super::error::ParseError;
use super::link::Link;
use super::script::{OptionLine, Script};

/// Prefix of the `--define` names that configure the stack.
const PREFIX: &str = "mtcp_";

/// `--ip_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IpVersion {
    V4,
    V6,
    /// IPv6 sockets, IPv4 packets.
    Mapped,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) version: IpVersion,
    pub(super) local_ip: IpAddr,
    pub(super) remote_ip: IpAddr,
    pub(super) bind_port: u16,
    pub(super) connect_port: u16,
    /// How far from its time a packet may be, nanoseconds.
    pub(super) tolerance: i64,
    /// Microseconds that one step of the script's timestamps stands for.
    pub(super) ts_tick: Option<u32>,
    /// One line for each packet: no line stands for several.
    pub(super) strict_segments: bool,
    pub(super) config: Config,
    /// What was set of the [`SETTINGS`], in order.
    pub(super) stack: Vec<(String, String)>,
    /// Commands that mean nothing here.
    pub(super) notices: Vec<String>,
    mtu: u16,
}

/// Options that scripts may have, and what they mean.
pub const OPTIONS: &[(&str, &str)] = &[
    ("ip_version", "ipv4, ipv6 or ipv4-mapped-ipv6"),
    ("local_ip", "address of the stack"),
    ("remote_ip", "address of the peer"),
    ("bind_port", "port of bind(3, ..., ...); 8080"),
    ("connect_port", "port of connect(3, ..., ...); 8080"),
    ("mtu", "of the link; 1500"),
    (
        "tolerance_usecs",
        "how far from its time a packet may be; 4000",
    ),
    (
        "tcp_ts_tick_usecs",
        "what one step of a TS val stands for; unset: not checked",
    ),
    ("strict_segments", "each line is one packet, however long"),
    (
        "define",
        "NAME=VALUE: a symbol, or with mtcp_ in front a setting of the stack",
    ),
];

/// Options of the tool that mean nothing in virtual time.
const IGNORED: &[&str] = &[
    "gateway_ip",
    "netmask_ip",
    "speed",
    "mss",
    "init_scripts",
    "tolerance_percent",
    "wire_client",
    "wire_server",
    "wire_server_ip",
    "wire_server_port",
    "wire_client_dev",
    "wire_server_dev",
    "wire_server_at",
    "so_filename",
    "so_flags",
    "code_command",
    "code_format",
    "code_sockopt",
    "tcp_ts_ecr_scaled",
    "non_fatal",
    "dry_run",
    "is_anyip",
    "send_omit_free",
    "psp_udp_port",
    "debug",
    "verbose",
];

type Apply = fn(&mut Config, &str) -> Option<()>;

/// Settings of the stack: `--define=mtcp_NAME=VALUE` (numbers in quotes), and what they take.
pub const SETTINGS: &[(&str, &str, Apply)] = &[
    ("cc", "an algorithm", |c, v| {
        v.parse().ok().map(|v| c.congestion = v)
    }),
    ("delayed_ack", "time", |c, v| {
        time(v).map(|v| c.delayed_ack = v)
    }),
    ("quick_acks", "number", |c, v| {
        num(v).map(|v| c.quick_acks = v)
    }),
    ("ecn", "off, passive or on", |c, v| {
        v.parse().ok().map(|v| c.ecn = v)
    }),
    ("initial_window", "segments", |c, v| {
        num(v).map(|v| c.initial_window = v)
    }),
    ("timestamps", "0 or 1", |c, v| {
        flag(v).map(|v| c.timestamps = v)
    }),
    ("window_scaling", "0 or 1", |c, v| {
        flag(v).map(|v| c.window_scaling = v)
    }),
    ("rto_initial", "time", |c, v| {
        time(v).map(|v| c.rto_initial = v)
    }),
    ("rto_min", "time", |c, v| time(v).map(|v| c.rto_min = v)),
    ("rto_max", "time", |c, v| time(v).map(|v| c.rto_max = v)),
    ("syn_retries", "number", |c, v| {
        num(v).map(|v| c.syn_retries = v)
    }),
    ("syn_ack_retries", "number", |c, v| {
        num(v).map(|v| c.syn_ack_retries = v)
    }),
    ("syn_cookies", "auto, always or off", |c, v| {
        cookies(v).map(|v| c.syn_cookies = v)
    }),
    ("abort_on_overflow", "0 or 1", |c, v| {
        flag(v).map(|v| c.abort_on_overflow = v)
    }),
    ("data_retries", "number", |c, v| {
        num(v).map(|v| c.data_retries = v)
    }),
    ("orphan_retries", "number", |c, v| {
        num(v).map(|v| c.orphan_retries = v)
    }),
    ("fin_wait_2", "time", |c, v| {
        time(v).map(|v| c.fin_wait_2 = v)
    }),
    ("time_wait", "time", |c, v| time(v).map(|v| c.time_wait = v)),
    ("autotune", "0 or 1", |c, v| flag(v).map(|v| c.autotune = v)),
    ("recv_buffer", "bytes", |c, v| {
        num(v).map(|v| c.recv_buffer = v)
    }),
    ("send_buffer", "bytes", |c, v| {
        num(v).map(|v| c.send_buffer = v)
    }),
    ("max_buffer", "bytes", |c, v| {
        num(v).map(|v| c.max_buffer = v)
    }),
    ("max_half_open", "number", |c, v| {
        num(v).map(|v| c.max_half_open = v)
    }),
    ("max_time_wait", "number", |c, v| {
        num(v).map(|v| c.max_time_wait = v)
    }),
    ("reset_rate", "per second", |c, v| {
        num(v).map(|v| c.reset_rate = v)
    }),
    ("reply_rate", "per second", |c, v| {
        num(v).map(|v| c.reply_rate = v)
    }),
];

/// Settings of Linux that have a counterpart.
const SYSCTLS: &[(&str, &str)] = &[
    ("tcp_ecn", "ecn"),
    ("tcp_syncookies", "syn_cookies"),
    ("tcp_congestion_control", "cc"),
    ("tcp_timestamps", "timestamps"),
    ("tcp_window_scaling", "window_scaling"),
    ("tcp_syn_retries", "syn_retries"),
    ("tcp_synack_retries", "syn_ack_retries"),
    ("tcp_abort_on_overflow", "abort_on_overflow"),
    ("tcp_retries2", "data_retries"),
    ("tcp_orphan_retries", "orphan_retries"),
];

/// Settings whose values have numbers in Linux, and our names for those.
const NUMBERED: &[(&str, &[&str])] = &[
    ("ecn", &["off", "on", "passive"]),
    ("syn_cookies", &["off", "auto", "always"]),
];

/// Our word for a value of Linux.
fn named<'a>(setting: &str, value: &'a str) -> &'a str {
    let names = NUMBERED.iter().find(|(name, _)| *name == setting);
    let name = names.and_then(|(_, names)| names.get(value.parse::<usize>().ok()?));
    name.copied().unwrap_or(value)
}

/// `40ms`, `1s`, `500us`.
fn time(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match text.get(digits.len()..)? {
        "s" => Some(Duration::from_secs(number)),
        "ms" => Some(Duration::from_millis(number)),
        "us" => Some(Duration::from_micros(number)),
        _ => None,
    }
}

fn num<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn cookies(text: &str) -> Option<SynCookies> {
    match text {
        "auto" => Some(SynCookies::Auto),
        "always" => Some(SynCookies::Always),
        "off" => Some(SynCookies::Off),
        _ => None,
    }
}

/// A configuration for few connections, the same in each run.
pub fn small_config() -> Config {
    Config {
        secret: [7; 32],
        max_connections: 256,
        max_half_open: 64,
        max_time_wait: 64,
        max_listeners: 16,
        recv_pool: 64 << 20,
        send_pool: 64 << 20,
        max_buffer: 16 << 20,
        max_neighbours: 16,
        huge_pages: false,
        ..Config::default()
    }
}

/// Sets one of the [`SETTINGS`].
///
/// # Errors
/// There is none with this name, or the value is not what it takes; in words.
pub fn set(config: &mut Config, name: &str, value: &str) -> Result<(), String> {
    let known = SETTINGS.iter().find(|(known, ..)| *known == name);
    let Some((_, takes, apply)) = known else {
        let names: Vec<&str> = SETTINGS.iter().map(|(name, ..)| *name).collect();
        return Err(format!(
            "no setting '{name}'; there are: {}",
            names.join(", ")
        ));
    };
    apply(config, value).ok_or_else(|| format!("setting '{name}' takes: {takes}; not '{value}'"))
}

/// `NAME=VALUE` of a `--define`, quotes taken off.
fn definition(value: &str) -> Option<(&str, &str)> {
    let (name, value) = value.split_once('=')?;
    Some((name.trim(), value.trim().trim_matches(['"', '`'])))
}

impl Settings {
    /// The symbols that scripts define for themselves.
    pub(super) fn symbols(options: &[OptionLine]) -> HashMap<String, String> {
        let defines = options.iter().filter(|option| option.name == "define");
        let pairs = defines.filter_map(|option| option.value.split_once('='));
        pairs
            .filter(|(name, _)| !name.starts_with(PREFIX))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// `given` are settings of the stack that hold where the script does not say otherwise.
    pub(super) fn new(script: &Script, given: &[(String, String)]) -> Result<Self, ParseError> {
        let mut settings = Self::of_version(IpVersion::V4);
        let version = script
            .options
            .iter()
            .find(|option| option.name == "ip_version");
        if let Some(option) = version {
            let version = match option.value.as_str() {
                "ipv4" => IpVersion::V4,
                "ipv6" => IpVersion::V6,
                "ipv4-mapped-ipv6" => IpVersion::Mapped,
                other => return Err(wrong(option, &format!("unknown IP version '{other}'"))),
            };
            settings = Self::of_version(version);
        }
        for (name, value) in given {
            settings
                .set(name, value)
                .map_err(|what| ParseError { line: 1, what })?;
        }
        for option in &script.options {
            settings
                .apply(option)
                .map_err(|what| wrong(option, &what))?;
        }
        if let Some(command) = &script.init {
            settings.command(command);
        }
        settings.finish();
        Ok(settings)
    }

    fn of_version(version: IpVersion) -> Self {
        let (local_ip, remote_ip): (IpAddr, IpAddr) = match version {
            IpVersion::V6 => (
                [0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1].into(),
                [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
            ),
            _ => ([192, 168, 0, 1].into(), [192, 0, 2, 1].into()),
        };
        Self {
            version,
            local_ip,
            remote_ip,
            bind_port: 8080,
            connect_port: 8080,
            tolerance: 4_000_000,
            ts_tick: None,
            strict_segments: false,
            config: small_config(),
            stack: Vec::new(),
            notices: Vec::new(),
            mtu: 1500,
        }
    }

    fn apply(&mut self, option: &OptionLine) -> Result<(), String> {
        let value = option.value.as_str();
        let done = match option.name.as_str() {
            "ip_version" => Some(()),
            "local_ip" => address(value).map(|ip| self.local_ip = ip),
            "remote_ip" => address(value).map(|ip| self.remote_ip = ip),
            "bind_port" => num(value).map(|port| self.bind_port = port),
            "connect_port" => num(value).map(|port| self.connect_port = port),
            "mtu" => num(value).map(|mtu| self.mtu = mtu),
            "tolerance_usecs" => num::<u32>(value).map(|us| self.tolerance = i64::from(us) * 1000),
            "tcp_ts_tick_usecs" => num(value).map(|tick| self.ts_tick = Some(tick)),
            "strict_segments" => {
                self.strict_segments = true;
                Some(())
            }
            "define" => return self.define(value),
            name if IGNORED.contains(&name) => Some(()),
            name => return Err(format!("unknown option '--{name}'")),
        };
        done.ok_or_else(|| format!("bad value '{value}' for --{}", option.name))
    }

    fn define(&mut self, value: &str) -> Result<(), String> {
        let (name, value) = definition(value).ok_or("expected --define=NAME=VALUE")?;
        match name.strip_prefix(PREFIX) {
            Some(name) => self.set(name, value),
            None => Ok(()),
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        set(&mut self.config, name, value)?;
        self.stack.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// What the script sets of the [`SETTINGS`], names and values.
    pub fn stack(&self) -> &[(String, String)] {
        &self.stack
    }

    /// A shell command: settings of Linux that have a counterpart are taken over, the rest is
    /// skipped.
    pub(super) fn command(&mut self, command: &str) {
        for word in command.split_whitespace() {
            let Some((path, value)) = word.split_once('=') else {
                continue;
            };
            let name = path.rsplit(['/', '.']).next().unwrap_or_default();
            let known = SYSCTLS.iter().find(|(sysctl, _)| *sysctl == name);
            let set = known.map(|(_, ours)| self.set(ours, named(ours, value)));
            if !matches!(set, Some(Ok(()))) {
                self.notices.push(format!("setting skipped: {word}"));
            }
        }
        if !command.contains('=') {
            let text = command.split_whitespace().collect::<Vec<_>>().join(" ");
            self.notices.push(format!("command skipped: {text}"));
        }
    }

    /// One link; the peer is behind a gateway.
    fn finish(&mut self) {
        self.link().attach(&mut self.config);
    }

    /// The link, with the mask and the gateway that nobody asks for.
    pub fn link(&self) -> Link {
        let (gateway, prefix_len) = match self.local_ip {
            IpAddr::V4(ip) => {
                let [a, b, ..] = ip.octets();
                ([a, b, 255, 254].into(), 16)
            }
            IpAddr::V6(ip) => {
                let mut segments = ip.segments();
                segments[7] = 0xfffe;
                (segments.into(), 64)
            }
        };
        Link {
            local: self.local_ip,
            prefix_len,
            gateway,
            remote: self.remote_ip,
            mtu: self.mtu,
        }
    }
}

/// An address; a prefix length behind it means nothing here.
fn address(text: &str) -> Option<IpAddr> {
    text.split('/').next()?.parse().ok()
}

fn wrong(option: &OptionLine, what: &str) -> ParseError {
    ParseError {
        line: option.line,
        what: what.to_owned(),
    }
}
