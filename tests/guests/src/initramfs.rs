//! The root file system of a guest: an archive that the kernel unpacks into memory (cpio "newc").

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::programs;

use crate::modules::{self, Module};
use crate::packages::Packages;

/// The first program.
const INIT: &str = include_str!("init.sh");
/// Programs of this machine that guests have.
const PROGRAMS: [&str; 4] = ["curl", "ethtool", "ip", "nginx"];

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;

/// Files by path.
#[derive(Debug, Default)]
struct Tree(BTreeMap<PathBuf, (u32, Vec<u8>)>);

/// The archive for guests with drivers of these names.
pub fn build(packages: &Packages, drivers: &[&str]) -> Vec<u8> {
    let mut tree = Tree::default();
    for directory in [
        "dev",
        "proc",
        "sys",
        "tmp",
        "run",
        "srv",
        "root",
        "var/log/nginx",
        "var/lib/nginx",
    ] {
        tree.directory(Path::new(directory));
    }
    tree.put("init", PROGRAM, INIT.as_bytes().to_vec());
    tree.put(
        "bin/busybox",
        PROGRAM,
        fs::read(packages.busybox()).unwrap(),
    );
    tree.put(
        "etc/passwd",
        FILE,
        b"root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n".to_vec(),
    );
    tree.put(
        "etc/group",
        FILE,
        b"root:x:0:\nwww-data:x:33:\nnogroup:x:65534:\n".to_vec(),
    );
    programs::require(&PROGRAMS);
    for name in PROGRAMS {
        let program = programs::find(name).unwrap();
        tree.program(&program, &format!("usr/bin/{name}"));
    }
    let mtcp = programs::mtcp();
    tree.program(&mtcp, "opt/mtcp");
    tree.program(
        &mtcp.with_file_name("libmtcp_preload.so"),
        "opt/libmtcp_preload.so",
    );
    tree.modules(modules::with_dependencies(&packages.modules(), drivers));
    tree.archive()
}

impl Tree {
    /// With the directories that it lies in.
    fn put(&mut self, path: impl AsRef<Path>, mode: u32, bytes: Vec<u8>) {
        let path = path.as_ref().strip_prefix("/").unwrap_or(path.as_ref());
        if let Some(parent) = path.parent() {
            self.directory(parent);
        }
        self.0.insert(path.to_path_buf(), (mode, bytes));
    }

    fn directory(&mut self, path: &Path) {
        for directory in path.ancestors().filter(|path| !path.as_os_str().is_empty()) {
            self.0
                .entry(directory.to_path_buf())
                .or_insert((DIRECTORY, Vec::new()));
        }
    }

    /// With the libraries that it needs, where it looks for them.
    fn program(&mut self, from: &Path, to: &str) {
        self.put(to, PROGRAM, fs::read(from).unwrap());
        let output = Command::new("ldd").arg(from).output().unwrap();
        for library in String::from_utf8_lossy(&output.stdout)
            .split_whitespace()
            .filter(|word| word.starts_with('/'))
        {
            self.put(library, PROGRAM, fs::read(library).unwrap());
        }
    }

    /// The modules, and their order.
    fn modules(&mut self, all: Vec<Module>) {
        let order: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
        self.put(
            "modules/order",
            FILE,
            (order.join("\n") + "\n").into_bytes(),
        );
        for (name, bytes) in all {
            self.put(format!("modules/{name}.ko"), FILE, bytes);
        }
    }

    /// In the order of paths: a directory comes before what lies in it.
    fn archive(&self) -> Vec<u8> {
        let mut archive = Vec::new();
        for (number, (path, (mode, bytes))) in (1..).zip(&self.0) {
            entry(
                &mut archive,
                number,
                &path.to_string_lossy(),
                (*mode, bytes),
            );
        }
        entry(&mut archive, 0, "TRAILER!!!", (0, &[]));
        archive
    }
}

/// One file of the archive: thirteen numbers of eight hexadecimal digits, the name with its
/// terminator, the contents; both filled up to four bytes.
fn entry(archive: &mut Vec<u8>, inode: usize, name: &str, (mode, bytes): (u32, &[u8])) {
    let numbers = [
        inode,
        mode as usize,
        0,
        0,
        1,
        0,
        bytes.len(),
        0,
        0,
        0,
        0,
        name.len() + 1,
        0,
    ];
    archive.extend_from_slice(b"070701");
    for number in numbers {
        archive.extend_from_slice(format!("{number:08x}").as_bytes());
    }
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    fill_up(archive);
    archive.extend_from_slice(bytes);
    fill_up(archive);
}

fn fill_up(archive: &mut Vec<u8>) {
    archive.resize(archive.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_its_entries_at_multiples_of_four() {
        let mut tree = Tree::default();
        tree.put("a/b", FILE, b"12345".to_vec());
        let archive = tree.archive();
        let text = String::from_utf8_lossy(&archive);
        let names: Vec<usize> = text.match_indices("070701").map(|(at, _)| at).collect();
        assert_eq!(names.len(), 3, "the directory, the file, the trailer");
        assert!(names.iter().all(|at| at % 4 == 0));
        assert!(text.contains("a/b\0") && text.contains("12345") && text.contains("TRAILER!!!"));
        assert_eq!(archive.len() % 4, 0);
    }
}
