//! The kernel, the memory and the processors.

use std::path::Path;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Resource, getrlimit};

use super::check::Check;

/// The trimmed text of a small file; empty if it cannot be read.
pub(crate) fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .unwrap_or_default()
}

/// Major and minor number of a kernel release.
fn release(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Major and minor number of this kernel.
pub(crate) fn version() -> Option<(u32, u32)> {
    release(&text("/proc/sys/kernel/osrelease"))
}

/// Whether the kernel is new enough for AF_XDP as we use it.
pub(crate) fn kernel() -> Check {
    let text = text("/proc/sys/kernel/osrelease");
    match release(&text) {
        Some(version) if version >= (5, 11) => Check::ok("kernel", text),
        Some(version) if version >= (5, 9) => Check::warn(
            "kernel",
            format!("{text}: BPF memory counts against the memlock limit"),
            "raise 'ulimit -l' or use Linux 5.11 or newer",
        ),
        Some(_) => Check::fail(
            "kernel",
            format!("{text} lacks the BPF links that AF_XDP needs"),
            "use Linux 5.9 or newer, or tap:NAME",
        ),
        None => Check::warn(
            "kernel",
            format!("cannot tell the version of '{text}'"),
            "AF_XDP needs Linux 5.9 or newer",
        ),
    }
}

/// Whether the kernel has AF_XDP at all.
pub(crate) fn xdp_sockets() -> Check {
    let socket = rustix::net::socket_with(
        AddressFamily::XDP,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    );
    match socket {
        Ok(_) => Check::ok("AF_XDP sockets", "available"),
        Err(rustix::io::Errno::AFNOSUPPORT) => Check::fail(
            "AF_XDP sockets",
            "the kernel was built without CONFIG_XDP_SOCKETS",
            "use a kernel that has it, or tap:NAME",
        ),
        Err(error) => Check::fail("AF_XDP sockets", format!("{error}"), "run as root"),
    }
}

/// Whether BPF programs are compiled.
pub(crate) fn bpf_jit() -> Check {
    match text("/proc/sys/net/core/bpf_jit_enable").as_str() {
        "0" => Check::warn(
            "BPF JIT",
            "off: the XDP program is interpreted",
            "sysctl net.core.bpf_jit_enable=1",
        ),
        "" => Check::ok("BPF JIT", "always on, or not visible here"),
        _ => Check::ok("BPF JIT", "on"),
    }
}

/// Whether locked memory suffices for AF_XDP rings.
pub(crate) fn memlock() -> Check {
    /// All frames of an interface, and the rings.
    const WANTED: u64 = 80 << 20;
    if super::capabilities::may_lock() {
        return Check::ok("locked memory", "not limited for this process");
    }
    // The stack raises the limit as far as it may.
    match getrlimit(Resource::Memlock).maximum {
        None => Check::ok("locked memory", "unlimited"),
        Some(bytes) if bytes >= WANTED => {
            Check::ok("locked memory", format!("up to {} MB", bytes >> 20))
        }
        Some(bytes) => Check::warn(
            "locked memory",
            format!("at most {} kB: fewer frames for each queue", bytes >> 10),
            "LimitMEMLOCK=80M (ulimit -l 81920), or CAP_IPC_LOCK",
        ),
    }
}

/// Whether enough descriptors may be open for kernel sockets.
pub(crate) fn open_files() -> Check {
    match getrlimit(Resource::Nofile).maximum {
        Some(files) if files < 65_536 => Check::warn(
            "open files",
            format!("at most {files}: --io kernel serves fewer connections"),
            "raise the hard limit ('ulimit -Hn', limits.conf)",
        ),
        Some(files) => Check::ok("open files", format!("up to {files}")),
        None => Check::ok("open files", "unlimited"),
    }
}

/// Whether 2 MB pages are to be had.
pub(crate) fn huge_pages() -> Check {
    let meminfo = text("/proc/meminfo");
    let value = |name: &str| -> u64 {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.trim_start_matches(':').split_ascii_whitespace().next())
            .and_then(|value| value.parse().ok())
            .unwrap_or_default()
    };
    let (free, total) = (value("HugePages_Free"), value("HugePages_Total"));
    if total > 0 && free > 0 {
        return Check::ok(
            "huge pages",
            format!("{free} of {total} free, {} kB each", value("Hugepagesize")),
        );
    }
    let finding = if total > 0 {
        format!("all {total} in use")
    } else {
        "none reserved".into()
    };
    let transparent = text("/sys/kernel/mm/transparent_hugepage/enabled");
    if transparent.contains("[never]") || transparent.is_empty() {
        return Check::warn(
            "huge pages",
            format!("{finding}, transparent ones off"),
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        );
    }
    Check::ok(
        "huge pages",
        format!("{finding}; transparent ones are used (sysctl vm.nr_hugepages=512 reserves some)"),
    )
}

/// Processors: how many, whether some are kept free, how they are clocked.
pub(crate) fn processors() -> Vec<Check> {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let mut checks = vec![match count {
        1 => Check::warn(
            "processors",
            "1: server and client share it",
            "measure with two or more",
        ),
        _ => Check::ok("processors", count.to_string()),
    }];
    let isolated = text("/sys/devices/system/cpu/isolated");
    checks.push(match isolated.as_str() {
        "" => Check::ok(
            "isolation",
            "no processor is isolated (isolcpus= steadies latencies)",
        ),
        list => Check::ok(
            "isolation",
            format!("processors {list} (choose them with --core)"),
        ),
    });
    let governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    if !governor.is_empty() {
        checks.push(match governor.as_str() {
            "performance" => Check::ok("clocking", governor),
            _ => Check::warn(
                "clocking",
                governor,
                "cpupower frequency-set -g performance",
            ),
        });
    }
    checks
}

/// What TAP devices are made with.
pub(crate) fn tun() -> Check {
    let path = "/dev/net/tun";
    match std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
    {
        Ok(_) => Check::ok("TAP devices", format!("{path} opens")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Check::fail("TAP devices", format!("no {path}"), "modprobe tun")
        }
        Err(error) => Check::fail("TAP devices", format!("{path}: {error}"), "run as root"),
    }
}

/// What kernel sockets are limited by.
pub(crate) fn kernel_sockets() -> Vec<Check> {
    let number = |path: &str| text(path).parse::<u64>().unwrap_or_default();
    let backlog = number("/proc/sys/net/core/somaxconn");
    let range: Vec<u64> = text("/proc/sys/net/ipv4/ip_local_port_range")
        .split_ascii_whitespace()
        .filter_map(|port| port.parse().ok())
        .collect();
    let ports = match range.as_slice() {
        [first, last] => last.saturating_sub(*first) + 1,
        _ => 0,
    };
    vec![
        match backlog {
            4096.. => Check::ok("listen backlog", backlog.to_string()),
            _ => Check::warn(
                "listen backlog",
                backlog.to_string(),
                "sysctl net.core.somaxconn=65535",
            ),
        },
        match ports {
            20_000.. => Check::ok(
                "local ports",
                format!("{ports} per destination (load --spread and --reset help beyond)"),
            ),
            _ => Check::warn(
                "local ports",
                format!("{ports} per destination"),
                "sysctl net.ipv4.ip_local_port_range='1024 65000', or load --spread N --reset",
            ),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(release("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(release("5.9"), Some((5, 9)));
        assert_eq!(release("unknown"), None);
    }
}
