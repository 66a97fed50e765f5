//! The built program on the oldest processor that it is for, which qemu stands in for.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::child::Stop;
use crate::end::End;
use crate::metadata;
use crate::suites::BUILD;

const QEMU: &str = "qemu-x86_64";
/// The first processor with x86-64-v2, of 2008.
const OLDEST: &str = "Nehalem";
const REQUESTS: &str = "1000";

/// Has `mtcp serve` answer `mtcp load` over shared memory, each on that processor. Without qemu it
/// is skipped, with the reason.
pub fn check(root: &Path) -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        println!("elsewhere: skipped, what is built here is for another kind of processor");
        return Ok(());
    }
    if Command::new(QEMU).arg("--version").output().is_err() {
        println!("elsewhere: skipped, there is no {QEMU} (Debian: apt install qemu-user)");
        return Ok(());
    }
    let mut build = Command::new(env!("CARGO"));
    build.args(BUILD).current_dir(root);
    let built = build.status().context("cannot run cargo")?;
    ensure!(built.success(), "the build failed (see above)");
    let program = metadata::target(root)?.join("release/mtcp");
    let said = talk(&program, &Stop::watch()?)?;
    ensure!(is_served(&said)?, "not all requests were answered: {said}");
    println!(
        "elsewhere: {REQUESTS} requests over shared memory between two programs on a {OLDEST}"
    );
    Ok(())
}

/// What the client says in the end.
fn talk(program: &Path, stop: &Stop) -> Result<String> {
    let directory = tempfile::Builder::new().prefix("mtcp-elsewhere-").tempdir();
    let directory = directory.context("cannot make a temporary directory")?;
    let path = directory.path();
    std::fs::write(path.join("index.html"), "elsewhere\n")?;
    let end = |words: &str, address: &str, name: &str| {
        let mut command = Command::new(QEMU);
        command.args(["-cpu", OLDEST]).arg(program);
        command.args(words.split_whitespace());
        command.args(["--io", "shm:link", "--addr", address]);
        command.current_dir(path);
        End::start(command, &path.join(name))
    };
    let mut server = end("serve . --port 80", "10.9.0.1/24", "server")?;
    server.has_said(stop).context("the server")?;
    let words = format!("load http://10.9.0.1/ -c 10 -n {REQUESTS} --json");
    let client = end(&words, "10.9.0.2/24", "client")?;
    let said = client.finish(stop).context("the client")?;
    server.terminate();
    server.finish(stop).context("the server")?;
    Ok(said)
}

/// Whether a client says that it was answered each time.
fn is_served(said: &str) -> Result<bool> {
    let report: serde_json::Value =
        serde_json::from_str(said).context("the client said no report")?;
    Ok(
        report["requests"].as_u64() == REQUESTS.parse().ok()
            && report["errors"].as_u64() == Some(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_counts() {
        assert!(is_served(r#"{"requests":1000,"errors":0}"#).unwrap());
        assert!(!is_served(r#"{"requests":999,"errors":0}"#).unwrap());
        assert!(!is_served(r#"{"requests":1000,"errors":1}"#).unwrap());
        assert!(is_served("").is_err());
    }
}
