//! A build with a profile: the `mtcp` command is built so that it counts what it does, does what
//! stacks do most, and is built again, with the libraries, by a compiler that knows the counts.

mod counts;
mod interfaces;
mod tool;
mod training;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::child::{Running, Stop};
use crate::metadata;
use crate::suites::BUILD;

use tool::Tools;

/// What divides the flags of the compiler in the variable that cargo prefers: they may have blanks.
const DIVIDER: &str = "\u{1f}";

/// Every program is compiled in one piece: what follows each other in the path of a segment is in
/// several crates.
const WHOLE: [(&str, &str); 2] = [
    ("CARGO_PROFILE_RELEASE_LTO", "fat"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
];

/// A build with a profile is for the machine that makes it, unless the user's flags say something
/// else.
const NATIVE: &str = "-Ctarget-cpu=native";

/// Where things are while this runs, all below the target directory.
struct Places {
    /// The usual target directory.
    target: PathBuf,
    /// That of the program that counts.
    counting: PathBuf,
    /// What this program counted, one file for each process.
    counts: PathBuf,
    /// What build scripts counted, which are built with the same flags and teach nothing.
    strays: PathBuf,
    /// All counts in one, as the compiler reads them.
    profile: PathBuf,
}

/// Builds `target/release` with a profile.
pub fn run(root: &Path) -> Result<()> {
    let tools = Tools::find(root)?;
    let places = Places::new(&metadata::target(root)?);
    let stop = Stop::watch()?;
    println!("==> building mtcp so that it counts what it does");
    let program = places.build_counting(root, &stop)?;
    training::run(&program, &places.counts, &stop)?;
    interfaces::run(&program, &places.counts, &stop)?;
    println!("==> merging what was counted");
    tools.merge(&places.counts, &places.profile)?;
    fresh(&places.counts)?;
    println!("==> building everything with it");
    let flag = flag("-Cprofile-use=", &places.profile)?;
    build(cargo(root, &flag, &places.target), &stop)?;
    let program = places.target.join("release/mtcp");
    tools.check(&places.profile, &program)?;
    println!(
        "{}, and the libraries beside it, are built with a profile. What it gains: mtcp bench short. 'make build' builds them without it again",
        program.display()
    );
    Ok(())
}

impl Places {
    fn new(target: &Path) -> Self {
        let ours = target.join("pgo");
        Self {
            target: target.to_owned(),
            counting: ours.join("counting"),
            counts: ours.join("counts"),
            strays: ours.join("strays"),
            profile: ours.join("mtcp.profdata"),
        }
    }

    /// Builds the program that counts; its path. All that users take is built, although only this
    /// program runs: in a build of `mtcp` alone functions have other names (cargo puts into them
    /// for whom a crate is made), and nobody would find their counts.
    fn build_counting(&self, root: &Path, stop: &Stop) -> Result<PathBuf> {
        fresh(&self.counts)?;
        let flag = flag("-Cprofile-generate=", &self.strays)?;
        build(cargo(root, &flag, &self.counting), stop)?;
        fresh(&self.strays)?;
        let program = self.counting.join("release/mtcp");
        ensure!(
            program.is_file(),
            "cargo built no {}: is there a build.target in its configuration?",
            program.display()
        );
        Ok(program)
    }
}

/// An empty directory.
fn fresh(directory: &Path) -> Result<()> {
    let wrong = || format!("cannot empty {}", directory.display());
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(wrong)?;
    }
    fs::create_dir_all(directory).with_context(wrong)
}

/// The build of all packages into `target`, with one more flag for the compiler than the user's or,
/// without those, than the tree's own.
fn cargo(root: &Path, flag: &str, target: &Path) -> Command {
    let variable = |name| std::env::var(name).ok();
    let encoded = variable("CARGO_ENCODED_RUSTFLAGS");
    let plain = variable("RUSTFLAGS");
    let mut command = Command::new(env!("CARGO"));
    match flags(encoded.as_deref(), plain.as_deref(), flag) {
        Some(flags) => command.env("CARGO_ENCODED_RUSTFLAGS", flags),
        None => command.args(["--config", &config(flag)]),
    };
    command
        .args(BUILD)
        .env("CARGO_TARGET_DIR", target)
        .envs(WHOLE)
        // Would send the counts of build scripts elsewhere.
        .env_remove("LLVM_PROFILE_FILE")
        .current_dir(root);
    command
}

/// Flags behind those of `.cargo/config.toml`, of which the last counts: the key has to be the
/// same.
fn config(flag: &str) -> String {
    let arch = std::env::consts::ARCH;
    format!("target.'cfg(target_arch = \"{arch}\")'.rustflags=[{NATIVE:?}, {flag:?}]")
}

fn build(mut command: Command, stop: &Stop) -> Result<()> {
    let status = Running::start(&mut command)?.wait(None, stop)?;
    ensure!(status.success(), "the build failed (see above)");
    Ok(())
}

fn flag(name: &str, path: &Path) -> Result<String> {
    let path = path.to_str();
    let path = path.context("the target directory has a name that is not UTF-8")?;
    Ok(format!("{name}{path}"))
}

/// The flags that the user gave, as cargo would take them from its two variables, and `ours`.
/// `None`: neither is set, and cargo looks into its configuration.
fn flags(encoded: Option<&str>, plain: Option<&str>, ours: &str) -> Option<String> {
    let theirs: Vec<&str> = match (encoded, plain) {
        (Some(encoded), _) => encoded.split(DIVIDER).collect(),
        (None, Some(plain)) => plain.split_whitespace().collect(),
        (None, None) => return None,
    };
    let theirs = theirs.into_iter().filter(|flag| !flag.is_empty());
    let all: Vec<&str> = theirs.chain([ours]).collect();
    Some(all.join(DIVIDER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_the_user_stay() {
        let ours = "-Cprofile-use=/a b";
        let with = |encoded, plain| flags(encoded, plain, ours).unwrap();
        assert_eq!(flags(None, None, ours), None);
        assert_eq!(with(Some(""), Some("-Cx")), ours);
        let both = with(None, Some(" -Ctarget-cpu=native  -g "));
        assert_eq!(both, "-Ctarget-cpu=native\u{1f}-g\u{1f}-Cprofile-use=/a b");
        let encoded = with(Some("--cfg\u{1f}x y"), Some("-g"));
        assert_eq!(encoded, "--cfg\u{1f}x y\u{1f}-Cprofile-use=/a b");
    }

    #[test]
    fn flags_stand_behind_those_of_the_tree() {
        let tree = include_str!("../../../.cargo/config.toml");
        let tree: toml::Table = tree.parse().unwrap();
        let ours: toml::Table = config("-Cx=/a b").parse().unwrap();
        let flags = &ours["target"]["cfg(target_arch = \"x86_64\")"]["rustflags"];
        assert_eq!(flags[1].as_str(), Some("-Cx=/a b"));
        let same = &tree["target"]["cfg(target_arch = \"x86_64\")"]["rustflags"];
        assert_eq!(same[0].as_str(), Some("-Ctarget-cpu=x86-64-v2"));
        assert!(tree.get("build").is_none(), "cargo would not look there");
    }

    #[test]
    fn it_builds_what_make_build_builds() {
        let makefile = include_str!("../../../Makefile");
        let line = format!("\n\t$(CARGO) {}\n", BUILD.join(" "));
        assert!(makefile.contains(&format!("\nbuild:{line}")), "{line}");
    }

    #[test]
    fn a_directory_becomes_empty_whether_it_was_there_or_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b");
        fresh(&path).unwrap();
        fs::write(path.join("1.profraw"), "x").unwrap();
        fs::write(path.join("1.txt"), "x").unwrap();
        assert_eq!(counts::files(&path).unwrap(), 1);
        fresh(&path).unwrap();
        assert_eq!(counts::files(&path).unwrap(), 0);
    }
}
