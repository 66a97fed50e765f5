//! Programs and links that `mtcp run` cannot reach: it says so before the program runs, or the
//! program hears of it. No connection of the stack is the kernel's instead.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::Permissions;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use applications::process::{self, Finished, PROMPT};
use applications::site::{WITHIN, spell};
use applications::{Family, Process, Site, baseline};
use interop::programs;
use rustix::process::Signal;

const PORT: &str = "7000";

/// `process.c`, compiled with these words. `None`, with a printed reason: that cannot be done here.
fn program(site: &Site, name: &str, words: &[&str]) -> Option<PathBuf> {
    let program = site.file(name);
    let source = programs::repository().join("tests/preload/process/process.c");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-pthread"]).args(words);
    cc.arg("-o").arg(&program).arg(source);
    let compiled = process::finish(cc, WITHIN);
    if !compiled.status.success() {
        let _ = writeln!(
            std::io::stdout(),
            "\nskipped: cc {words:?}: {}",
            compiled.stderr
        );
        return None;
    }
    Some(program)
}

/// `mtcp run` with these words before the link's, and a case of the program at this address.
fn run(site: &Site, words: &[&str], program: &Path, case: &str, family_address: &str) -> Command {
    let mut command = site.lab().mtcp(&[&["run"], words].concat());
    command.arg("--").arg(program);
    command.args([case, family_address, PORT]);
    command
}

fn refused(finished: &Finished, why: &str) {
    assert_eq!(finished.status.code(), Some(2), "{finished:?}");
    assert_eq!(finished.stdout, "", "it ran: {finished:?}");
    assert!(finished.stderr.starts_with("mtcp: "), "{finished:?}");
    assert!(finished.stderr.contains(why), "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
}

fn ours() -> String {
    Family::V4.ours().to_string()
}

#[test]
fn programs_out_of_reach_do_not_run() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let usual = program(&site, "usual", &[]).unwrap();
    let set_uid = site.file("set-uid");
    std::fs::copy(&usual, &set_uid).unwrap();
    chown(&set_uid, Some(65534), None).unwrap();
    std::fs::set_permissions(&set_uid, Permissions::from_mode(0o4755)).unwrap();
    let unlinked = program(&site, "static", &["-static"]);
    let script = site.file("script");
    let hidden = unlinked.as_deref().unwrap_or(&set_uid);
    std::fs::write(&script, format!("#!{}\n", spell(hidden))).unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    // With the note that Go's linker writes: what it makes is dynamic where C code is linked in.
    let note = site.write(
        "go.s",
        ".section .note.go.buildid,\"a\",@note\n.long 4,4,4\n.ascii \"Go\\0\\0\"\n.ascii \"test\"\n",
    );
    let go = program(&site, "go", &[&note]);
    let all = [
        (Some(set_uid.clone()), "is set-user-ID"),
        (go, "is a Go program"),
        (unlinked.clone(), "is linked statically"),
        (Some(script), spell(hidden).leak()),
    ];
    for (program, why) in all {
        let Some(program) = program else { continue };
        let finished = process::finish(run(&site, &[], &program, "refused", &ours()), PROMPT);
        refused(&finished, why);
    }
    if let Some(program) = unlinked {
        let command = run(
            &site,
            &["--fallback", "kernel"],
            &program,
            "descriptors",
            "127.0.0.1",
        );
        process::finish(command, PROMPT).must_succeed();
    }
}

/// Ending such a program would be wrong, as it may have nothing to do with the network; but nobody
/// is to wonder.
#[test]
fn programs_that_the_program_executes_are_told_where_they_are_out_of_reach() {
    let Some(site) = Site::new(&["cc", "sh", "env"]).filter(|_| !baseline()) else {
        return;
    };
    let usual = program(&site, "usual", &[]).unwrap();
    let Some(unlinked) = program(&site, "static", &["-static"]) else {
        return;
    };
    let [usual, unlinked] = [usual, unlinked].map(|program| spell(&program));
    let work = format!("descriptors 127.0.0.1 {PORT}");
    let script =
        format!("{unlinked} {work}; {unlinked} {work}; env -i {usual} {work}; {usual} {work}");
    let why = [
        format!("{unlinked} is linked statically"),
        format!("{usual} is executed without LD_PRELOAD"),
    ];
    for (words, level, lines) in [
        (&[][..], "warn", 1),
        (&["--fallback", "kernel"], "warn", 0),
        (&["--fallback", "kernel"], "info", 1),
    ] {
        let mut command = site.lab().mtcp(&[&["run"], words].concat());
        command.env("MTCP_LOG", level);
        command.args(["--", "sh", "-c", &script]);
        let finished = process::finish(command, WITHIN).must_succeed();
        for why in &why {
            assert_eq!(finished.stderr.matches(why).count(), lines, "{finished:?}");
        }
    }
}

#[test]
fn a_program_does_not_run_where_the_link_cannot_be_opened() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let program = program(&site, "usual", &[]).unwrap();
    let mut missing = site.lab().ours().command(programs::mtcp());
    missing.args(["run", "--io", "afxdp:none0", "--addr", "10.77.0.1/24", "--"]);
    missing.arg(&program).args(["served", &ours(), PORT]);
    refused(&process::finish(missing, PROMPT), "none0");
    let mut instead = site.lab().ours().command(programs::mtcp());
    instead.args(["run", "--io", "afxdp:none0", "--addr", "10.77.0.1/24"]);
    instead.args(["--fallback", "kernel", "--"]).arg(&program);
    instead.args(["descriptors", "127.0.0.1", PORT]);
    process::finish(instead, PROMPT).must_succeed();
    site.lab().ours().ip("link set ours0 down");
    let down = run(&site, &[], &program, "served", &ours());
    refused(&process::finish(down, PROMPT), "ours0");
    let kernel = run(
        &site,
        &["--fallback", "kernel"],
        &program,
        "descriptors",
        "127.0.0.1",
    );
    process::finish(kernel, PROMPT).must_succeed();
}

#[test]
fn a_program_does_not_run_where_another_host_has_its_address_or_a_file_the_name_of_its_link() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let program = program(&site, "usual", &[]).unwrap();
    let interface = site.lab().peer_interface();
    site.lab()
        .peer()
        .ip(&format!("addr add {}/32 dev {interface}", ours()));
    let taken = run(&site, &[], &program, "served", &ours());
    refused(&process::finish(taken, PROMPT), "in use by another host");
    let file = site.write("file", "");
    for (path, why) in [
        (file.as_str(), "no socket"),
        ("/nowhere/link", "no directory"),
    ] {
        let mut command = site.lab().ours().command(programs::mtcp());
        command.args([
            "run",
            "--io",
            &format!("shm:{path}"),
            "--addr",
            "10.9.0.1/24",
            "--",
        ]);
        command.arg(&program).args(["served", "10.9.0.1", PORT]);
        refused(&process::finish(command, PROMPT), why);
    }
}

/// What `mtcp serve` takes is enough here: the threads of the program run the stack, whatever the
/// file says of modes.
#[test]
fn a_settings_file_need_not_know_of_mtcp_run() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let program = program(&site, "usual", &[]).unwrap();
    let peer = Family::V4.peer().to_string();
    for mode in ["", "mode = paired\n"] {
        let link = format!("io = afxdp:ours0\naddr = {}/24\n{mode}", ours());
        let file = site.write("mtcp.conf", &link);
        let mut run = site.lab().ours().command(programs::mtcp());
        run.args(["run", "--config", &file, "--"]).arg(&program);
        run.args(["refused", &peer, PORT]);
        process::finish(run, PROMPT).must_succeed();
    }
}

#[test]
fn what_fails_later_is_an_error_to_the_program() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let program = program(&site, "usual", &[]).unwrap();
    let peer = Family::V4.peer().to_string();
    let mut later = Process::start(run(&site, &[], &program, "later", &peer));
    later.wait_for("ready", PROMPT);
    site.lab().ours().ip("link set ours0 down");
    later.signal(Signal::USR1);
    let finished = later.finish(PROMPT).must_succeed();
    assert!(finished.stderr.contains("ENETDOWN"), "{finished:?}");
}

#[test]
fn ways_past_the_library_are_closed() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let program = program(&site, "usual", &[]).unwrap();
    process::finish(run(&site, &[], &program, "refused", &ours()), PROMPT).must_succeed();
}

#[test]
fn a_program_with_address_sanitizer_is_served() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let Some(program) = program(&site, "sanitized", &["-fsanitize=address"]) else {
        return;
    };
    let mut server = Process::start(run(&site, &[], &program, "quiet", &ours()));
    server.wait_for("ready", PROMPT);
    server.kill();
}

/// Threads and locks of the library are no races of the program.
#[test]
fn a_program_with_thread_sanitizer_is_served() {
    let Some(site) = Site::new(&["cc"]).filter(|_| !baseline()) else {
        return;
    };
    let Some(program) = program(&site, "sanitized", &["-fsanitize=thread"]) else {
        return;
    };
    let mut server = Process::start(run(&site, &[], &program, "served", &ours()));
    server.wait_for("ready", PROMPT);
    let at = SocketAddr::new(Family::V4.ours(), PORT.parse().unwrap());
    let connect = || TcpStream::connect_timeout(&at, PROMPT).unwrap();
    let mut stream = site.lab().peer().enter(connect);
    stream.write_all(b"hello").unwrap();
    let finished = server.finish(WITHIN).must_succeed();
    assert!(!finished.stderr.contains("ThreadSanitizer"), "{finished:?}");
}
