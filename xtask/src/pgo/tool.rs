//! The tools of the toolchain: `llvm-profdata`, which makes one profile of many, and `llvm-nm`,
//! which knows the functions of a program.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// So many of the functions that ran are in the new program at least, one in so many. Some two
/// thirds are; others were inlined. Where names differ, because cargo made the crates for other
/// uses than those that counted, it is one in a hundred, and nothing was gained.
const FITTING: usize = 4;

/// Those that belong to the compiler: others may not know the format in which its programs write
/// what they counted.
pub struct Tools {
    profdata: PathBuf,
    nm: PathBuf,
}

impl Tools {
    /// Looks where the compiler that cargo runs is.
    pub fn find(root: &Path) -> Result<Self> {
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(rustc);
        command.args(["--print", "target-libdir"]).current_dir(root);
        let tools = Self::beside(Path::new(output(command, "rustc")?.trim()));
        for tool in [&tools.profdata, &tools.nm] {
            ensure!(
                tool.is_file(),
                "there is no {}: rustup component add llvm-tools",
                tool.display()
            );
        }
        Ok(tools)
    }

    /// In `bin` beside the libraries of the compiler's own target.
    fn beside(libraries: &Path) -> Self {
        let tools = libraries.with_file_name("bin");
        Self {
            profdata: tools.join("llvm-profdata"),
            nm: tools.join("llvm-nm"),
        }
    }

    /// Makes `profile` of the files in `counts`. Functions that never ran are left out, so that the
    /// compiler takes them as it does without a profile: that the training used no AF_XDP interface
    /// says nothing about whether the user will.
    pub fn merge(&self, counts: &Path, profile: &Path) -> Result<()> {
        let words = ["merge", "--sparse", "--output"].map(OsStr::new);
        let mut command = Command::new(&self.profdata);
        command.args(words).args([profile, counts]);
        output(command, "llvm-profdata").map(drop)
    }

    /// Fails unless `program` is made of the functions that `profile` is of.
    pub fn check(&self, profile: &Path, program: &Path) -> Result<()> {
        let mut ran = Command::new(&self.profdata);
        ran.args(["show", "--all-functions", "--covered"])
            .arg(profile);
        let mut there = Command::new(&self.nm);
        there.arg("--format=just-symbols").arg(program);
        let ran = output(ran, "llvm-profdata")?;
        let there = output(there, "llvm-nm")?;
        let (both, all) = common(&ran, &there);
        ensure!(
            both * FITTING >= all,
            "of {all} functions that ran when they were counted, {} has only {both}: the two builds are not alike, and nothing was gained",
            program.display()
        );
        Ok(())
    }
}

/// How many functions of a profile a program has, and how many there are in the profile. One whose
/// names were stripped has all.
fn common(ran: &str, there: &str) -> (usize, usize) {
    // The compiler marks what it made visible beyond a unit; the profile names the unit of what is
    // not.
    let there: HashSet<&str> = there
        .lines()
        .filter_map(|name| name.split(".llvm.").next())
        .collect();
    let ran: HashSet<&str> = ran
        .lines()
        .filter_map(|name| name.rsplit(';').next())
        .collect();
    if there.is_empty() {
        return (ran.len(), ran.len());
    }
    (ran.intersection(&there).count(), ran.len())
}

/// What a tool prints; its complaint, on one line, if it fails.
fn output(mut command: Command, name: &str) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.lines().next().unwrap_or("no word");
    ensure!(output.status.success(), "{name} failed: {complaint}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_are_beside_the_libraries() {
        let tools = Tools::beside(Path::new("/t/lib/rustlib/x86_64-unknown-linux-gnu/lib"));
        let expected = "/t/lib/rustlib/x86_64-unknown-linux-gnu/bin/llvm-profdata";
        assert_eq!(tools.profdata, Path::new(expected));
    }

    #[test]
    fn a_tool_that_fails_is_quoted_on_one_line() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo second >&2; exit 1"]);
        let error = output(command, "llvm-nm").unwrap_err().to_string();
        assert_eq!(error, "llvm-nm failed: first");
    }

    #[test]
    fn functions_are_found_however_each_tool_writes_them() {
        let ran = "mtcp_core.cd33-cgu.0;_ZN1aE\n_ZN1bE\n_ZN1cE\n";
        let there = "_ZN1aE.llvm.123\n_ZN1bE\n_ZN1dE\n";
        assert_eq!(common(ran, there), (2, 3));
        assert_eq!(common(ran, ""), (3, 3));
    }
}
