//! How much memory the control group of this process may have (cgroups(7), versions 1 and 2).

use std::path::{Path, PathBuf};

/// A mounted hierarchy that may limit memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    /// Where it is mounted, ...
    mounted_at: PathBuf,
    /// ... and what of it.
    root: String,
    is_v2: bool,
}

impl Hierarchy {
    /// Line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
    fn parse(line: &str) -> Option<Self> {
        let (mount, source) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, mounted_at) = (mount.next()?, mount.next()?);
        let mut source = source.split(' ');
        let is_v2 = match source.next()? {
            "cgroup2" => true,
            "cgroup" if source.next_back()?.split(',').any(|word| word == "memory") => false,
            _ => return None,
        };
        Some(Self {
            mounted_at: mounted_at.into(),
            root: root.to_owned(),
            is_v2,
        })
    }

    /// The group of this process in it, of the lines of `/proc/self/cgroup`.
    fn group(&self, groups: &str) -> Option<PathBuf> {
        let path = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            let is_ours = match self.is_v2 {
                true => controllers.is_empty(),
                false => controllers
                    .split(',')
                    .any(|controller| controller == "memory"),
            };
            is_ours.then_some(path)
        })?;
        let inside = path.strip_prefix(&self.root).unwrap_or(path);
        Some(self.mounted_at.join(inside.trim_start_matches('/')))
    }

    /// The least that the group or one above it may have, in bytes.
    fn limit(&self, groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
        let file = match self.is_v2 {
            true => "memory.max",
            false => "memory.limit_in_bytes",
        };
        let group = self.group(groups)?;
        let above = group
            .ancestors()
            .take_while(|path| path.starts_with(&self.mounted_at));
        // "max" where there is none.
        let limits = above.filter_map(|path| read(&path.join(file))?.trim().parse().ok());
        limits.min()
    }
}

/// In bytes; `None`: no limit, or none that can be read. In a network namespace that was entered by
/// `ip netns exec` there is another `/sys`, without these hierarchies: they are looked for where
/// the parent has them, too.
pub(super) fn memory_limit() -> Option<u64> {
    let parent = || {
        let parent = rustix::process::getppid()?.as_raw_nonzero();
        limit_in(
            &format!("/proc/{parent}/mountinfo"),
            &format!("/proc/{parent}/root"),
        )
    };
    limit_in("/proc/self/mountinfo", "/").or_else(parent)
}

/// Of the hierarchies in a file, whose paths begin at `root`.
fn limit_in(mounts: &str, root: &str) -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = std::fs::read_to_string(mounts).ok()?;
    let read = |path: &Path| {
        let path = path.strip_prefix("/").unwrap_or(path);
        std::fs::read_to_string(Path::new(root).join(path)).ok()
    };
    let hierarchies = mounts.lines().filter_map(Hierarchy::parse);
    hierarchies
        .filter_map(|hierarchy| hierarchy.limit(&groups, read))
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "35 28 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory";
    const V2: &str =
        "36 28 0:32 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
    /// Docker, with version 1: the group is the root of what is mounted.
    const PART: &str = "35 28 0:31 /docker/42 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory";
    const GROUPS: &str = "9:name=systemd:/\n4:cpu,memory:/docker/42\n0::/a/b\n";

    fn limit(mount: &str, files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path)?;
            Some(file.1.to_owned())
        };
        Hierarchy::parse(mount).unwrap().limit(GROUPS, read)
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_above_counts() {
        let above = ("/sys/fs/cgroup/a/memory.max", "104857600\n");
        assert_eq!(limit(V2, &[above]), Some(100 << 20));
        let own = ("/sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(limit(V2, &[own, above]), Some(100 << 20));
        let less = ("/sys/fs/cgroup/a/b/memory.max", "4096\n");
        assert_eq!(limit(V2, &[less, above]), Some(4096));
        assert_eq!(limit(V2, &[]), None);
    }

    #[test]
    fn version_1_is_understood() {
        let own = (
            "/sys/fs/cgroup/memory/docker/42/memory.limit_in_bytes",
            "100663296\n",
        );
        assert_eq!(limit(V1, &[own]), Some(96 << 20));
        let own = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "100663296\n");
        assert_eq!(limit(PART, &[own]), Some(96 << 20));
    }

    #[test]
    fn other_mounts_are_none() {
        for line in [
            "",
            "21 28 0:20 / /proc rw - proc proc rw",
            "34 28 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu",
        ] {
            assert_eq!(Hierarchy::parse(line), None);
        }
    }
}
