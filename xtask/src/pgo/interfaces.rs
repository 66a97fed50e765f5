//! What the program that counts does over interfaces. That takes privileges, and namespaces, which
//! `mtcp bench` makes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::child::Stop;
use crate::end::End;

use super::counts;
use super::training::{Place, scratch};

/// Measurements, as words of `mtcp`: of the kernel's clients, and of both ends.
const MEASUREMENTS: [&str; 4] = [
    "bench cpu --link afxdp --pairs 1 --seconds 4 --messages 1",
    "bench short --link afxdp --client mtcp --pairs 1 --seconds 2 --messages 1",
    "bench bulk --link afxdp --pairs 1 --seconds 1",
    "bench short --link tap --pairs 1 --seconds 2 --messages 1",
];

/// Takes all measurements with `program`, whose ends leave files in `counts`. Leaves out, with the
/// reason, what cannot be done here.
pub fn run(program: &Path, counts: &Path, stop: &Stop) -> Result<()> {
    let directory = scratch()?;
    let place = Place {
        program,
        counts,
        directory: directory.path(),
        stop,
    };
    for words in MEASUREMENTS {
        println!("==> training: mtcp {words}");
        match measure(&place, words) {
            Err(why) if stop.is_asked() => return Err(why),
            Err(why) => println!("    skipped: {why:#}"),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn measure(place: &Place<'_>, words: &str) -> Result<()> {
    let before = counts::files(place.counts)?;
    let bench = End::start(place.counting(words), &place.directory.join("bench"))?;
    let id = bench.id();
    let measured = bench.finish(place.stop);
    forget(place.counts, id)?;
    measured?;
    ensure!(
        counts::files(place.counts)? > before,
        "no end wrote down what it counted"
    );
    Ok(())
}

/// Removes what a process wrote. What `bench` itself does most is to measure how quiet the machine
/// is.
fn forget(counts: &Path, id: u32) -> Result<()> {
    let entries = fs::read_dir(counts).with_context(|| counts.display().to_string())?;
    let name = format!("{id}-");
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&name) {
            fs::remove_file(entry.path()).with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program that does this.
    fn program(directory: &Path, script: &str) -> std::path::PathBuf {
        let path = directory.join("program");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn what_the_ends_counted_stays_and_what_the_bench_counted_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let counts = directory.path().join("counts");
        fs::create_dir(&counts).unwrap();
        let script = "cd \"$(dirname \"$LLVM_PROFILE_FILE\")\"; touch $$-0.profraw $$7-0.profraw";
        let place = Place {
            program: &program(directory.path(), script),
            counts: &counts,
            directory: directory.path(),
            stop: &Stop::default(),
        };
        measure(&place, "bench").unwrap();
        assert_eq!(counts::files(&counts).unwrap(), 1);
        let idle = Place {
            program: Path::new("true"),
            ..place
        };
        let error = measure(&idle, "bench").unwrap_err();
        assert_eq!(error.to_string(), "no end wrote down what it counted");
    }

    #[test]
    fn what_cannot_be_measured_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let program = program(directory.path(), "echo 'needs root' >&2; exit 1");
        run(&program, directory.path(), &Stop::default()).unwrap();
    }
}
