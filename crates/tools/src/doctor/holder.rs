//! Which process has its programs on an interface.

use std::fs;
use std::path::Path;

/// `NAME (PID)` of a process of this network namespace that holds a BPF program at the interface
/// with this index, by XDP or traffic control, as the kernel says in its `fdinfo`. Only processes
/// that this one may look at.
pub(crate) fn find(index: u32) -> Option<String> {
    let own = fs::read_link("/proc/self/ns/net").ok()?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut here = processes
        .map(|process| process.path())
        .filter(|process| fs::read_link(process.join("ns/net")).is_ok_and(|other| other == own));
    let holder = here.find(|process| holds(process, index))?;
    let name = fs::read_to_string(holder.join("comm")).unwrap_or_default();
    let pid = holder.file_name()?.to_string_lossy().into_owned();
    Some(format!("{} ({pid})", name.trim()))
}

fn holds(process: &Path, index: u32) -> bool {
    let files = fs::read_dir(process.join("fdinfo")).ok();
    let mut texts = files
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| fs::read_to_string(file.path()).ok());
    texts.any(|text| is_at(&text, index))
}

/// Whether `fdinfo` is of a link of a program to this interface.
fn is_at(fdinfo: &str, index: u32) -> bool {
    let value = |key: &str| {
        let mut lines = fdinfo.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(name, value)| (name == key).then(|| value.trim().to_owned()))
    };
    matches!(value("link_type").as_deref(), Some("xdp" | "tcx"))
        && value("ifindex") == Some(index.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_an_interface_are_recognised() {
        let link =
            "pos:\t0\nlink_type:\ttcx\nlink_id:\t7\nifindex:\t2\nattach_type:\t46 (ingress)\n";
        assert!(is_at(link, 2) && !is_at(link, 22));
        assert!(!is_at("pos:\t0\nifindex:\t2\n", 2));
    }
}
