//! What a daemon gives up before it opens its links, while it has one thread: all others begin
//! without it. What the kernel lacks for that is told in a line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use mtcp::{Config, IoSpec, privileges};
use nix::unistd::{User, getgrouplist};
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use crate::fail::Failure;

/// What a daemon keeps, of what it has: what links take that come back after a flap or with more
/// queues, and what listening beside the kernel below 1024 takes.
const KEPT: CapabilitySet = privileges::USEFUL.union(CapabilitySet::NET_BIND_SERVICE);

/// System calls that a daemon has no use for, and whoever takes it over has: other programs and
/// processes, modules, mounts, namespaces, keys, the clock.
const FORBIDDEN: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_personality,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// Gives up what is not needed: becomes `user`, if one is named, keeps [`KEPT`] at most, and cannot
/// get more; writes below the directory of the socket and where the settings say, and nowhere else.
///
/// # Errors
/// It cannot become that user.
pub(super) fn confine(user: Option<&str>, config: &Config, directory: &Path) -> anyhow::Result<()> {
    if let Some(user) = user {
        become_user(user)?;
    }
    if let Err(error) = reduce_capabilities() {
        log::warn!("capabilities that are not needed stay: {error}");
    }
    if let Err(error) = rustix::thread::set_no_new_privs(true) {
        log::warn!("programs that it would start could get more rights: {error}");
    }
    match restrict_files(&writable(config, directory)) {
        Ok(RulesetStatus::NotEnforced) => {
            log::warn!(
                "files are not kept from the daemon: this kernel has no Landlock (Linux 5.13)"
            );
        }
        Ok(_) => {}
        Err(error) => log::warn!("files are not kept from the daemon: {error}"),
    }
    if let Err(error) = forbid_calls() {
        log::warn!("system calls that are not needed stay allowed: {error}");
    }
    Ok(())
}

fn become_user(name: &str) -> anyhow::Result<()> {
    let refuse = |cause: String| Failure::error(cause, "start it as root, or leave 'user' out");
    if !geteuid().is_root() {
        return Err(refuse(format!("only root can become '{name}'")));
    }
    let user = User::from_name(name).ok().flatten();
    let user = user.ok_or_else(|| refuse(format!("there is no user '{name}' to become")))?;
    let (uid, gid) = (
        Uid::from_raw(user.uid.as_raw()),
        Gid::from_raw(user.gid.as_raw()),
    );
    let groups = std::ffi::CString::new(name)
        .ok()
        .and_then(|name| getgrouplist(&name, user.gid).ok())
        .unwrap_or_default();
    let groups: Vec<Gid> = groups
        .iter()
        .map(|gid| Gid::from_raw(gid.as_raw()))
        .collect();
    let change = || -> rustix::io::Result<()> {
        // Of what root may, the change of the user leaves what is permitted.
        rustix::thread::set_keep_capabilities(true)?;
        rustix::thread::set_thread_groups(&groups)?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)
    };
    change().map_err(|error| refuse(format!("cannot become '{name}': {error}")))
}

fn reduce_capabilities() -> rustix::io::Result<()> {
    let kept = capabilities(None)?.permitted & KEPT;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
}

/// Directories in which the daemon makes or writes files.
fn writable(config: &Config, directory: &Path) -> Vec<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let of_link = match &config.io {
        IoSpec::Shm(path) => Some(parent(path)),
        IoSpec::Tap(_) => Some(PathBuf::from("/dev/net")),
        IoSpec::Afxdp(_) | IoSpec::Packet(_) | IoSpec::Loop(_) | IoSpec::Daemon(_) => None,
    };
    let of_capture = config.pcap.as_deref().map(parent);
    let null = PathBuf::from("/dev/null");
    [directory.to_owned(), null]
        .into_iter()
        .chain(of_link)
        .chain(of_capture)
        .collect()
}

/// Files are written below `writable` only, and none is executed (landlock(7)).
fn restrict_files(writable: &[PathBuf]) -> Result<RulesetStatus, RulesetError> {
    let abi = ABI::V6;
    let writes = AccessFs::from_write(abi);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writes | AccessFs::Execute)?
        .scope(Scope::Signal)?
        .create()?;
    for path in writable {
        // What is not there cannot be written to either.
        let Ok(file) = PathFd::new(path) else {
            continue;
        };
        let allowed = if path.is_dir() {
            writes
        } else {
            writes & AccessFs::from_file(abi)
        };
        rules = rules.add_rule(PathBeneath::new(file, allowed))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// EPERM for those calls, from all threads.
fn forbid_calls() -> Result<(), seccompiler::Error> {
    seccompiler::apply_filter_all_threads(&filter()?)
}

fn filter() -> Result<BpfProgram, seccompiler::Error> {
    let calls: BTreeMap<_, _> = FORBIDDEN.iter().map(|call| (*call, Vec::new())).collect();
    let filter = SeccompFilter::new(
        calls,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM as u32),
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn calls_are_in_order_and_named_once() {
        let numbers: BTreeSet<i64> = FORBIDDEN.iter().copied().collect();
        assert_eq!(numbers.len(), FORBIDDEN.len());
    }

    /// The unit gives what the daemon keeps, and what becoming another user takes.
    #[test]
    fn the_unit_has_these_capabilities() {
        let unit = include_str!("../../../../packaging/mtcp.service");
        let line = |name: &str| unit.lines().find_map(|line| line.strip_prefix(name));
        let given: BTreeSet<&str> = line("CapabilityBoundingSet=").unwrap().split(' ').collect();
        let of_links = privileges::PRIVILEGES.iter().map(|one| one.name);
        let more = ["CAP_NET_BIND_SERVICE", "CAP_SETGID", "CAP_SETUID"];
        assert_eq!(given, of_links.chain(more).collect());
        let start = line("ExecStart=").unwrap();
        assert!(
            start.ends_with("/bin/mtcp daemon --config /etc/mtcp/daemon.conf"),
            "{start}"
        );
        assert!(line("Type=").is_some_and(|kind| kind == "notify"));
        assert!(line("RuntimeDirectory=").is_some_and(|name| name == "mtcp"));
    }

    /// In a thread of its own, which both concern alone.
    #[test]
    fn files_are_written_where_that_is_allowed_and_nothing_is_executed() {
        use std::io::ErrorKind::PermissionDenied;
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let kept = outside.path().join("kept");
        std::fs::write(&kept, "before").unwrap();
        let restricted = || {
            rustix::thread::set_no_new_privs(true).unwrap();
            let status = restrict_files(&[inside.path().to_owned(), "/dev/null".into()]).unwrap();
            if status != RulesetStatus::NotEnforced {
                std::fs::write(inside.path().join("new"), "x").unwrap();
                std::fs::write("/dev/null", "x").unwrap();
                std::fs::remove_file(inside.path().join("new")).unwrap();
                let kind = |result: std::io::Result<()>| result.unwrap_err().kind();
                assert_eq!(kind(std::fs::write(&kept, "after")), PermissionDenied);
                assert_eq!(kind(std::fs::remove_file(&kept)), PermissionDenied);
                assert_eq!(std::fs::read_to_string(&kept).unwrap(), "before");
            }
            seccompiler::apply_filter(&filter().unwrap()).unwrap();
            let error = std::process::Command::new("/bin/true")
                .status()
                .unwrap_err();
            assert_eq!(error.kind(), PermissionDenied);
        };
        std::thread::scope(|scope| scope.spawn(restricted).join().unwrap());
    }

    #[test]
    fn what_the_settings_name_is_written_to() {
        let mut config = Config {
            io: IoSpec::Shm("/run/user/7/link".into()),
            pcap: Some("capture.pcapng".into()),
            ..Config::default()
        };
        let paths = writable(&config, Path::new("/run/mtcp"));
        assert_eq!(
            paths,
            ["/run/mtcp", "/dev/null", "/run/user/7", "."].map(PathBuf::from)
        );
        config.io = IoSpec::Tap("t0".into());
        config.pcap = None;
        let paths = writable(&config, Path::new("/run/mtcp"));
        assert_eq!(
            paths,
            ["/run/mtcp", "/dev/null", "/dev/net"].map(PathBuf::from)
        );
    }
}
