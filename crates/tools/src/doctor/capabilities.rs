//! Which capabilities this process has.

const NET_ADMIN: u32 = 12;

fn effective() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}

/// Whether this process may configure interfaces.
pub(crate) fn has_net_admin() -> bool {
    effective() >> NET_ADMIN & 1 == 1
}
