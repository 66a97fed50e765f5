//! The table of keys.

use std::fmt::Write as _;
use std::time::Duration;

use mtcp_core::config::SynCookies;

use super::value::{self, Parsed};
use super::{Config, IoSpec, Mode, NeighbourSpec, RouteSpec};

/// One setting: what a line of `mtcp.conf` or a caller of [`Config::set`] may name.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What a value looks like.
    pub syntax: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// Whether the original mTCP has it too.
    pub legacy: bool,
    set: fn(&mut Config, &str) -> Parsed<()>,
    show: fn(&Config) -> String,
}

impl Key {
    /// The value in `config`, as it would be written.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }

    /// Replaces the value in `config`.
    ///
    /// # Errors
    /// What a value must look like.
    pub fn set(&self, config: &mut Config, value: &str) -> Result<(), String> {
        (self.set)(config, value)
    }
}

/// All keys.
pub fn keys() -> &'static [Key] {
    KEYS
}

/// The documentation of all keys as text: name, value, default, meaning.
pub fn describe() -> String {
    let defaults = Config::default();
    let mut text = String::new();
    for key in KEYS {
        let default = key.show(&defaults);
        let default = if default.is_empty() { "none" } else { &default };
        let origin = if key.legacy { "" } else { " (new)" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} = {}{origin}\n    {} Default: {default}.",
            key.name, key.syntax, key.doc
        );
    }
    text
}

/// `name: syntax = set, show; doc`, once per key. `old` keys are those of the original mTCP.
macro_rules! table {
    ($($origin:ident $name:ident: $syntax:literal, $doc:literal, $set:expr, $show:expr;)*) => {
        const KEYS: &[Key] = &[$(Key {
            name: stringify!($name),
            syntax: $syntax,
            doc: $doc,
            legacy: table!(@ $origin),
            set: $set,
            show: $show,
        },)*];
    };
    (@ old) => { true };
    (@ new) => { false };
}

table! {
    old io: "afxdp[:IFACE] | packet[:IFACE] | tap[:NAME] | shm[:PATH] | loop[:NAME] | daemon[:NAME]", "The link. Without a name, 'port' gives it. daemon: the stack of 'mtcp daemon', which has the link; without a name that of this network namespace.",
        |c, v| { c.io = c.link_for(v)?; Ok(()) }, |c| c.io.to_string();
    new io_as: "afxdp[:IFACE] | packet[:IFACE] | tap[:NAME] | shm[:PATH] | loop[:NAME]", "The link where 'io' is one of the original mTCP (dpdk, psio, netmap, onvm); the environment's MTCP_IO does the same.",
        |c, v| { c.io_as = Some(link(v)?); Ok(()) }, |c| c.io_as.as_ref().map(ToString::to_string).unwrap_or_default();
    old port: "NAME ...", "Interface or path of a link whose 'io' names none; of several, the first is used.",
        |c, v| { c.interfaces = value::words(v).map(str::to_owned).collect(); Ok(()) }, |c| c.interfaces.join(" ");
    new addr: "host | ADDRESS/LENGTH ...", "Our addresses, IPv4 and IPv6; the line may be repeated. 'host': the kernel has them, too, on an AF_XDP interface, and keeps all that is not TCP of ours; without others all that it has there. Without a line, MTCP_ADDR of the environment counts; without that, 'host' on an AF_XDP interface. Addresses that the kernel has there are 'host', unless force_address is set.",
        |c, v| { c.set_addresses(v) }, show_addresses;
    new force_address: "yes | no", "Take our addresses although the kernel or another host has them: the host is then cut off from them.",
        |c, v| { c.force_address = value::switch(v)?; Ok(()) }, |c| show_switch(c.force_address);
    new ignore_firewall: "yes | no", "Listen at ports of AF_XDP links that the host's firewall, whose rules are read at the start, closes to some or all: nothing else keeps peers out.",
        |c, v| { c.ignore_firewall = value::switch(v)?; Ok(()) }, |c| show_switch(c.ignore_firewall);
    new follow_kernel: "yes | no", "Go by the kernel's routes, its neighbours on the interface, where it has addresses, too, and the MTU, and follow them as they change.",
        |c, v| { c.follow_kernel = value::switch(v)?; Ok(()) }, |c| show_switch(c.follow_kernel);
    new gateway: "ADDRESS ...", "Default gateways, one per family.",
        |c, v| { c.gateways.extend(value::list(v, value::address)?); Ok(()) }, |c| join(&c.gateways, ToString::to_string);
    new route: "NETWORK/LENGTH[@GATEWAY] ...", "Further routes; the line may be repeated.",
        |c, v| { c.routes.extend(value::list(v, |w| w.parse::<RouteSpec>())?); Ok(()) },
        |c| join(&c.routes, |r| format!("{}/{}{}", r.network.addr, r.network.prefix_len, r.gateway.map(|g| format!("@{g}")).unwrap_or_default()));
    new neighbour: "ADDRESS=MAC ...", "Static neighbours; the line may be repeated.",
        |c, v| { c.neighbours.extend(value::list(v, |w| w.parse::<NeighbourSpec>())?); Ok(()) },
        |c| join(&c.neighbours, |n| format!("{}/{}={}", n.network.addr, n.network.prefix_len, n.mac));
    new mac: "MAC", "Our hardware address instead of the link's own.",
        |c, v| { c.mac = Some(value::mac(v)?); Ok(()) }, |c| c.mac.map(|m| m.to_string()).unwrap_or_default();
    old num_cores: "0..=1024", "Contexts; 0: as many as processors and queues allow; commands have one.",
        |c, v| { c.cores = value::integer(v, 0, 1024)? as usize; Ok(()) }, |c| c.cores.to_string();
    new processes: "1..=64", "Processes that share the queues of an AF_XDP interface: one and those that it forks (mtcp run).",
        |c, v| { c.processes = value::integer(v, 1, 64)? as u16; Ok(()) }, |c| c.processes.to_string();
    old core_mask: "HEX", "Processors that contexts 0, 1, ... run on.",
        |c, v| { c.core_list = value::core_mask(v)?; Ok(()) }, |c| join(&c.core_list, ToString::to_string);
    new mode: "paired | inline", "Whether a stack thread goes on while the application makes no calls, or only calls run the stack; mtcp run: always inline.",
        |c, v| { c.mode = mode(v)?; Ok(()) }, |c| if c.mode == Mode::Paired { "paired".into() } else { "inline".into() };
    old max_concurrency: "16..=16777216", "Sockets and connections per context.",
        |c, v| { c.max_concurrency = value::integer_up_to("max_concurrency", v, 16, 1 << 24)? as u32; Ok(()) }, |c| c.max_concurrency.to_string();
    new max_orphans: "0..=16777216", "Connections per context that the application closed and whose peers have not answered to all; for one more, one whose peer is silent, or else the one closed first, is reset. 0: as max_concurrency.",
        |c, v| { c.max_orphans = value::integer(v, 0, 1 << 24)? as u32; Ok(()) }, |c| c.max_orphans.to_string();
    new prefault: "0..=16777216", "Connections per context whose control blocks and small buffers are in memory from the start, some 5 KB each, and wait for no huge page; 0: memory is taken as it is needed.",
        |c, v| { c.prefault = value::integer(v, 0, 1 << 24)? as u32; Ok(()) }, |c| c.prefault.to_string();
    old max_num_buffers: "0..=16777216", "Buffers of the size rcvbuf or sndbuf per context; 0: as max_concurrency.",
        |c, v| { c.max_num_buffers = value::integer_up_to("max_num_buffers", v, 0, 1 << 24)? as u32; Ok(()) }, |c| c.max_num_buffers.to_string();
    old rcvbuf: "BYTES, 64..=32M", "Most bytes one connection may have received and not read, to begin with.",
        |c, v| { c.rcvbuf = value::bytes_up_to("rcvbuf", v, 64, 32 << 20)? as u32; Ok(()) }, |c| c.rcvbuf.to_string();
    old sndbuf: "BYTES, 64..=32M", "Most bytes one connection may have written and not sent, to begin with.",
        |c, v| { c.sndbuf = value::bytes_up_to("sndbuf", v, 64, 32 << 20)? as u32; Ok(()) }, |c| c.sndbuf.to_string();
    new autotune: "yes | no", "Let rcvbuf and sndbuf grow with what a connection needs, up to 32M or an eighth of their memory. SO_RCVBUF and SO_SNDBUF end that.",
        |c, v| { c.autotune = value::switch(v)?; Ok(()) }, |c| show_switch(c.autotune);
    new buffer_memory: "BYTES, 1M..=1024G", "Most memory for receive buffers, and again for send buffers, per context.",
        |c, v| { c.buffer_memory = value::bytes(v, 1 << 20, 1 << 40)? as usize; Ok(()) }, |c| c.buffer_memory.to_string();
    old tcp_timeout: "SECONDS | -1", "Drop connections idle for this long; -1: never.",
        |c, v| { c.tcp_timeout = if v == "-1" { None } else { Some(value::seconds(v)?) }; Ok(()) },
        |c| c.tcp_timeout.map_or_else(|| "-1".into(), show_seconds);
    new persist_timeout: "SECONDS | -1", "Reset connections whose peer keeps its window closed for this long; -1: never.",
        |c, v| { c.persist_timeout = if v == "-1" { None } else { Some(value::seconds(v)?) }; Ok(()) },
        |c| c.persist_timeout.map_or_else(|| "-1".into(), show_seconds);
    old tcp_timewait: "SECONDS | -1", "How long the side that closed first remembers a connection (2 MSL); -1: not at all.",
        |c, v| { c.tcp_timewait = value::seconds_or_none(v)?; Ok(()) }, |c| show_seconds(c.tcp_timewait);
    new mss: "BYTES, 0..=65495", "Largest TCP segment that is offered and sent, for paths that carry less than the link (MSS clamping); 0: what the link takes.",
        |c, v| { c.mss = value::integer(v, 0, 65_495)? as u16; Ok(()) }, |c| c.mss.to_string();
    old cc: "cubic | reno | newreno | bbr | dctcp", "Congestion control.",
        |c, v| { c.congestion = v.parse()?; Ok(()) }, |c| c.congestion.name().into();
    new pacing: "yes | no", "Spread what cubic, reno and dctcp send over the round trip; bbr does in any case.",
        |c, v| { c.pacing = value::switch(v)?; Ok(()) }, |c| show_switch(c.pacing);
    new ecn: "off | passive | on", "Explicit congestion notification: never, when the peer asks for it, or asked for on connections opened here.",
        |c, v| { c.ecn = v.parse()?; Ok(()) }, |c| c.ecn.name().into();
    new syn_cookies: "auto | always | off", "Answer SYNs without remembering them: when the memory for half-open connections is used up, always, or never.",
        |c, v| { c.syn_cookies = syn_cookies(v)?; Ok(()) }, |c| show_syn_cookies(c.syn_cookies).into();
    new syn_offload: "yes | no", "Let the kernel answer SYNs as they arrive, where all frames of a veth pair come to one context.",
        |c, v| { c.syn_offload = value::switch(v)?; Ok(()) }, |c| show_switch(c.syn_offload);
    new abort_on_overflow: "yes | no", "Reset a handshake that ends while the listener's backlog is full, instead of letting the peer try again.",
        |c, v| { c.abort_on_overflow = value::switch(v)?; Ok(()) }, |c| show_switch(c.abort_on_overflow);
    old stat_print: "yes | no | NAME ...", "Print a line of rates per context and second to stderr.",
        |c, v| { c.stat_print = value::switch(v).unwrap_or(!v.is_empty()); Ok(()) }, |c| show_switch(c.stat_print);
    new spin_us: "0..=100000", "Microseconds to look for more frames before sleeping, once those that came are dealt with.",
        |c, v| { c.spin = Duration::from_micros(value::integer(v, 0, 100_000)?); Ok(()) }, |c| c.spin.as_micros().to_string();
    new coalesce_us: "0..=10000", "Microseconds to sleep at most while frames gather, where many come over AF_XDP or TAP, or from far over shared memory; 0: be woken by each.",
        |c, v| { c.coalesce = Duration::from_micros(value::integer(v, 0, 10_000)?); Ok(()) }, |c| c.coalesce.as_micros().to_string();
    new pin: "yes | no", "Pin the threads of contexts to processors.",
        |c, v| { c.pin = value::switch(v)?; Ok(()) }, |c| show_switch(c.pin);
    new pcap: "FILE", "Capture all frames to this pcapng file.",
        |c, v| { c.pcap = Some(v.into()); Ok(()) }, |c| c.pcap.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
    new fault: "SPEC", "Faults to inject, such as 'loss=1%'.",
        |c, v| { c.fault = Some(v.to_owned()); Ok(()) }, |c| c.fault.clone().unwrap_or_default();
    new one_event_per_entry: "yes | no", "epoll entries carry one event bit, and events mean what the original mTCP's do: a reset is RDHUP or IN, not ERR (docs/porting.md).",
        |c, v| { c.one_event_per_entry = value::switch(v)?; Ok(()) }, |c| show_switch(c.one_event_per_entry);
    new legacy_errors: "yes | no", "After a reset, read returns 0 and write ENOTCONN, as the original mTCP's do; so do calls on sockets that connect, and a read of 0 bytes gives EAGAIN.",
        |c, v| { c.legacy_errors = value::switch(v)?; Ok(()) }, |c| show_switch(c.legacy_errors);
    new strict_options: "yes | no", "Refuse unknown socket options instead of ignoring them.",
        |c, v| { c.strict_options = value::switch(v)?; Ok(()) }, |c| show_switch(c.strict_options);
    new huge_pages: "yes | no", "Use 2 MB pages where reserved.",
        |c, v| { c.huge_pages = value::switch(v)?; Ok(()) }, |c| show_switch(c.huge_pages);
    old num_mem_ch: "N", "Accepted and ignored (DPDK memory channels).", ignored, nothing;
    old multiprocess: "0 | 1", "Accepted and ignored (DPDK processes).", ignored, nothing;
    old onvm_inst: "N", "Accepted and ignored (OpenNetVM).", ignored, nothing;
    old onvm_serv: "N", "Accepted and ignored (OpenNetVM).", ignored, nothing;
    old onvm_dest: "N", "Accepted and ignored (OpenNetVM).", ignored, nothing;
}

pub(super) fn link(text: &str) -> Parsed<IoSpec> {
    let (kind, name) = text.split_once(':').unwrap_or((text, ""));
    IoSpec::of(kind, name)
}

fn mode(text: &str) -> Parsed<Mode> {
    match text {
        "paired" => Ok(Mode::Paired),
        "inline" => Ok(Mode::Inline),
        _ => Err(format!("'{text}' is no mode: use paired or inline")),
    }
}

fn syn_cookies(text: &str) -> Parsed<SynCookies> {
    match text {
        "auto" => Ok(SynCookies::Auto),
        "always" => Ok(SynCookies::Always),
        "off" => Ok(SynCookies::Off),
        _ => Err(format!("'{text}' is not known: use auto, always or off")),
    }
}

fn show_syn_cookies(when: SynCookies) -> &'static str {
    match when {
        SynCookies::Auto => "auto",
        SynCookies::Always => "always",
        SynCookies::Off => "off",
    }
}

fn ignored(_: &mut Config, _: &str) -> Parsed<()> {
    Ok(())
}

fn nothing(_: &Config) -> String {
    String::new()
}

fn show_addresses(config: &Config) -> String {
    let host = config.host.then(|| "host".to_owned());
    let addresses = config.addresses.iter();
    let addresses = addresses.map(|cidr| format!("{}/{}", cidr.addr, cidr.prefix_len));
    host.into_iter()
        .chain(addresses)
        .collect::<Vec<_>>()
        .join(" ")
}

fn show_switch(on: bool) -> String {
    if on { "yes" } else { "no" }.to_owned()
}

fn show_seconds(time: Duration) -> String {
    time.as_secs_f64().to_string()
}

fn join<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_reads_what_it_shows() {
        let mut config = Config::default();
        for (key, value) in [
            ("addr", "10.0.0.2/24 fd00::2/64"),
            ("gateway", "10.0.0.1 fd00::1"),
            ("route", "10.1.0.0/16@10.0.0.9"),
            ("neighbour", "10.0.0.1/32=02:00:00:00:00:01"),
            ("mac", "02:00:00:00:00:09"),
            ("pcap", "/tmp/x.pcapng"),
            ("fault", "loss=1%"),
            ("tcp_timeout", "30"),
            ("io", "tap:x"),
            ("mode", "inline"),
            ("cc", "dctcp"),
            ("syn_cookies", "always"),
            ("abort_on_overflow", "yes"),
        ] {
            config.set(key, value).unwrap();
        }
        let mut copy = Config::default();
        for key in KEYS.iter().filter(|key| key.name != "core_mask") {
            let shown = key.show(&config);
            if !shown.is_empty() {
                key.set(&mut copy, &shown).unwrap();
            }
        }
        assert_eq!(copy, config);
    }

    #[test]
    fn the_original_keys_are_all_there() {
        let original = "io num_cores core_mask num_mem_ch port max_concurrency max_num_buffers rcvbuf sndbuf tcp_timeout tcp_timewait \
                        stat_print multiprocess onvm_inst onvm_serv onvm_dest cc";
        for name in original.split_whitespace() {
            assert!(
                KEYS.iter().any(|key| key.name == name && key.legacy),
                "{name}"
            );
        }
    }

    #[test]
    fn the_documentation_names_every_key() {
        let text = describe();
        for key in KEYS {
            assert!(text.contains(&format!("{} = ", key.name)));
        }
    }
}
