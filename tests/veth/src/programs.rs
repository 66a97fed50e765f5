//! Where the programs are.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The repository.
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap().to_path_buf()
}

/// Where `cargo build --release` puts programs and libraries.
pub fn release() -> PathBuf {
    static RELEASE: OnceLock<PathBuf> = OnceLock::new();
    let ask = || {
        let script = repository().join("scripts/release.sh");
        let output = Command::new("sh").arg(script).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim_end())
    };
    RELEASE.get_or_init(ask).clone()
}

/// The program under test.
pub fn mtcp() -> PathBuf {
    let path = std::env::var_os("MTCP_BIN").map_or_else(|| release().join("mtcp"), PathBuf::from);
    assert!(
        path.is_file(),
        "{} is missing: build it with `cargo build --release -p tools -p capi`, or name it in MTCP_BIN",
        path.display()
    );
    path
}

/// Fails unless all of these can be started.
pub fn require(names: &[&str]) {
    let missing: Vec<_> = names.iter().filter(|name| find(name).is_none()).collect();
    assert!(
        missing.is_empty(),
        "missing programs: {missing:?}: run scripts/setup.sh"
    );
}

/// A program of this machine.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let directories = path.split(':').chain(["/usr/sbin", "/sbin"]);
    directories
        .map(|directory| Path::new(directory).join(name))
        .find(|file| file.is_file())
}
