//! The library as users get it: installed under a prefix, found by pkg-config, linked with plain
//! cc.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::{process, programs};

const WITHIN: Duration = Duration::from_secs(120);

/// How a program gets the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linking {
    /// `libmtcp.so`.
    Shared,
    /// `libmtcp.a`.
    Static,
}

/// Installs the built library below `scratch` once per test program: its prefix.
pub fn prefix(scratch: &Path) -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = scratch.join("prefix");
        let mut install = Command::new("sh");
        install.arg(programs::repository().join("crates/capi/install.sh"));
        install.arg(&prefix);
        install.env("MTCP_LIB_DIR", programs::release());
        process::finish(install, WITHIN).must_succeed();
        prefix
    })
}

/// Compiles `source` (relative to the repository) as its user would; warnings are errors.
pub fn compile(scratch: &Path, source: &str, linking: Linking) -> PathBuf {
    programs::require(&["cc", "pkg-config"]);
    let prefix = prefix(scratch);
    let stem = Path::new(source).file_stem().unwrap().to_string_lossy();
    let program = scratch.join(format!("{stem}-{linking:?}").to_lowercase());
    let source = programs::repository().join(source);
    let libraries = match linking {
        Linking::Shared => "$(pkg-config --cflags --libs libmtcp) -Wl,-rpath,\"$3/lib\"",
        Linking::Static => {
            "$(pkg-config --cflags libmtcp) \"$3/lib/libmtcp.a\" $(pkg-config --static --libs-only-l libmtcp | sed s/-lmtcp//)"
        }
    };
    let script = format!("cc -O2 -Wall -Wextra -Werror -o \"$1\" \"$2\" {libraries}");
    let mut shell = Command::new("sh");
    shell.args(["-ec", &script, "sh"]);
    shell.args([program.as_path(), source.as_path(), prefix]);
    shell.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    process::finish(shell, WITHIN).must_succeed();
    program
}
