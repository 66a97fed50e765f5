//! `docs/configuration.md` lists every key as the table of keys has it.
//! `UPDATE_DOCS=1 cargo test -p mtcp --test docs` rewrites it.

use std::path::Path;

use mtcp::Config;
use mtcp::config::keys;

const INTRODUCTION: &str = "\
# Configuration

`mtcp.conf` has one `key = value` per line (or `key value`); `#` begins a comment. The C API reads the file that `mtcp_init` names, the command reads it with
`--config FILE` (options on the command line win). An unknown key is an error that names the line and the nearest known key. Sizes take
K, M and G; times are seconds unless the key says otherwise.

`config/route.conf` and `config/arp.conf` below the current directory are read as the original mTCP did, if they exist:

    ROUTES 2                      ARP_ENTRY 1
    192.0.2.0/24 eth1             192.0.2.1/32 02:00:00:00:00:01
    192.0.2.1/0 eth1

Files of the original are read as they are: sizes above the maximum are the maximum, of several interfaces the first is used, of several
words where one counts the first; a line says so. `io = dpdk` and its like need `io_as`, or `MTCP_IO` and `MTCP_ADDR` in the environment.

Commands change three defaults, with a file and without: `mode` inline, `pin` no, `max_concurrency` 65536; `mtcp run` also `spin_us` 0.

The C API changes four defaults to those of the original: `tcp_timeout` 30, `tcp_timewait` 0, one of `rcvbuf` and `sndbuf` sets both, one event bit
per entry.

| key | value | default | what it does |
|---|---|---|---|
";

const CLOSING: &str = "
## What is said

Errors and warnings go to stderr, one line each, each once: `mtcp: warning: XDP on eth0: no carrier: ...`. The first of these that is given
chooses what else is said:

- `--log-level LEVEL` of the command, which `mtcp run` hands to its program's library;
- `MTCP_LOG` in the environment, the only one of the C library's, besides
- `RUST_LOG`, for programs that have it anyway.

`LEVEL` is `off`, `error`, `warn` (without any of them), `info`, `debug` or `trace`, or names levels for parts: `warn,io::xdp=debug`. `MTCP_QUIET=1`
says nothing of it at all; why the command itself ends (`docs/messages.md`) is said in any case. A Rust program that uses the library gets all of this through the logger that it installs itself, or not at all.

`mtcp serve --access-log FILE` appends a line of the Common Log Format for each answer (host, time in UTC, request line, status, bytes of the body as
promised) to FILE, which is made for this user and its group. A request that is not answered, as its peer was gone, has none.

## Faults

`fault = SPEC` (and `--fault SPEC`) damages traffic on purpose: `loss=1%,reorder=1%,dup=1%,corrupt=1%,delay=5ms,jitter=1ms,seed=7` in both
directions, or `rx:loss=5%;tx:dup=1%` in each. The same seed gives the same faults.
";

#[test]
fn the_table_of_keys_is_documented() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let expected = document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/configuration.md is out of date: UPDATE_DOCS=1 cargo test -p mtcp --test docs"
    );
}

fn document() -> String {
    let defaults = Config::default();
    let mut text = INTRODUCTION.to_owned();
    for key in keys() {
        let default = key.show(&defaults);
        let new = if key.legacy { "" } else { " (new)" };
        let row = format!(
            "| `{}`{new} | {} | {} | {} |\n",
            key.name,
            key.syntax.replace('|', "or"),
            if default.is_empty() { "none" } else { &default },
            key.doc
        );
        text.push_str(&row);
    }
    text + CLOSING
}

/// Options whose effect takes a script to be seen.
const BY_SCRIPT: [(&str, &str); 7] = [
    ("SO_OOBINLINE", "urgent/in_line.pkt"),
    ("TCP_CONGESTION", "sockets/congestion_reno.pkt"),
    ("TCP_FASTOPEN", "fastopen/server.pkt"),
    ("TCP_FASTOPEN_CONNECT", "fastopen/connect_option.pkt"),
    ("TCP_INFO", "sockets/info_counts.pkt"),
    ("TCP_QUICKACK", "sockets/quickack_on.pkt"),
    ("TCP_SYNCNT", "sockets/syncnt.pkt"),
];

/// An option that returns what it should and does nothing is a fault: each has a case of
/// `tests/preload/calls/effects.c`, or a script.
#[test]
fn what_each_socket_option_does_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let porting = read("docs/porting.md");
    let (_, section) = porting.split_once("\n## Socket options\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    let effects = read("tests/preload/calls/effects.c");
    let (_, cases) = effects.split_once("const struct test effects[]").unwrap();
    let cases: Vec<_> = cases
        .split('"')
        .skip(1)
        .step_by(2)
        .flat_map(names)
        .collect();
    let mut options: Vec<_> = rows.flat_map(names).collect();
    options.retain(|name| {
        let levels = ["SO_", "TCP_", "IP_", "IPV6_"];
        let is_value = name.contains("PMTUDISC");
        levels.iter().any(|level| name.starts_with(level)) && !is_value
    });
    assert!(options.len() > 30, "{options:?}");
    options.retain(|name| {
        let scripts = BY_SCRIPT.iter().filter(|(option, _)| option == name);
        let mut scripts = scripts.map(|(_, script)| read(&format!("tests/pkt/{script}")));
        // Scripts look at the fields of TCP_INFO by their names.
        let written = if *name == "TCP_INFO" { "tcpi_" } else { name };
        let in_script = scripts.any(|text| text.contains(written));
        !in_script && !cases.contains(name)
    });
    assert!(options.is_empty(), "without a test: {options:?}");
}

fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}
