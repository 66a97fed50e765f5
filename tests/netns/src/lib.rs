//! A kernel with Linux's own settings, for tests that compare with it: a network namespace with
//! nothing but its loopback, whoever tuned the machine. Root makes one, and who is not root one in
//! a user namespace. Where neither can be had, the machine will do if it has these settings.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Linux's own values of what decides how its sockets behave, below `/proc/sys/net`.
pub const SETTINGS: &[(&str, &str)] = &[
    ("core/somaxconn", "4096"),
    ("ipv4/ip_default_ttl", "64"),
    ("ipv4/ip_local_port_range", "32768 60999"),
    ("ipv4/ip_unprivileged_port_start", "1024"),
    ("ipv4/tcp_abort_on_overflow", "0"),
    ("ipv4/tcp_autocorking", "1"),
    ("ipv4/tcp_ecn", "2"),
    ("ipv4/tcp_fastopen", "1"),
    ("ipv4/tcp_fin_timeout", "60"),
    ("ipv4/tcp_keepalive_intvl", "75"),
    ("ipv4/tcp_keepalive_probes", "9"),
    ("ipv4/tcp_keepalive_time", "7200"),
    ("ipv4/tcp_mtu_probing", "0"),
    ("ipv4/tcp_notsent_lowat", "4294967295"),
    ("ipv4/tcp_rmem", "4096 131072 6291456"),
    ("ipv4/tcp_sack", "1"),
    ("ipv4/tcp_syncookies", "1"),
    ("ipv4/tcp_timestamps", "1"),
    ("ipv4/tcp_window_scaling", "1"),
    ("ipv4/tcp_wmem", "4096 16384 4194304"),
    ("ipv6/bindv6only", "0"),
    ("ipv6/conf/all/disable_ipv6", "0"),
    ("ipv6/conf/default/disable_ipv6", "0"),
];

/// Sets the pairs of words before `--`, and becomes the program behind it.
const SCRIPT: &str = r#"
set -e
ip link set lo up
while [ "$1" != -- ]; do
    [ ! -e "/proc/sys/net/$1" ] || echo "$2" >"/proc/sys/net/$1"
    shift 2
done
shift
exec "$@"
"#;

/// Said to a program that is in a namespace of its own.
const INSIDE: &str = "MTCP_TEST_NETNS";

/// `program` where the kernel's settings are Linux's own.
///
/// # Errors
/// What it needs, where there is no such place.
pub fn command(program: impl AsRef<OsStr>) -> Result<Command, String> {
    static PLACE: OnceLock<Result<&[&str], String>> = OnceLock::new();
    match PLACE.get_or_init(place) {
        Ok([]) => Ok(Command::new(program)),
        Ok(namespaces) => Ok(inside(namespaces, program)),
        Err(reason) => Err(reason.clone()),
    }
}

/// Starts this program anew in a namespace of its own; to be called before it has threads. Returns
/// if it is there already, or cannot be.
///
/// # Errors
/// As [`command`].
pub fn enter() -> Result<(), String> {
    if env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut again = command(program)?;
    again.args(env::args_os().skip(1)).env(INSIDE, "1");
    Err(again.exec().to_string())
}

/// The namespaces that can be had: the words of unshare(1). None: the machine's own will do.
fn place() -> Result<&'static [&'static str], String> {
    const WAYS: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    if let Some(way) = WAYS.into_iter().find(|way| works(way)) {
        return Ok(way);
    }
    let other: Vec<String> = SETTINGS.iter().filter_map(difference).collect();
    if other.is_empty() {
        return Ok(&[]);
    }
    Err(format!(
        "needs a network namespace (root, or user namespaces), or Linux's own settings: {}",
        other.join(", ")
    ))
}

fn works(namespaces: &[&str]) -> bool {
    let output = inside(namespaces, "true").output();
    output.is_ok_and(|output| output.status.success())
}

fn inside(namespaces: &[&str], program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", SCRIPT, "sh"]);
    for (key, value) in SETTINGS {
        command.args([key, value]);
    }
    command.arg("--").arg(program);
    command
}

/// What this machine has in place of a setting, if something else.
fn difference((key, value): &(&str, &str)) -> Option<String> {
    let found = fs::read_to_string(Path::new("/proc/sys/net").join(key)).ok()?;
    let is_same = found.split_whitespace().eq(value.split_whitespace());
    let key = key.replace('/', ".");
    (!is_same).then(|| format!("net.{key} is {}, not {value}", found.trim()))
}
