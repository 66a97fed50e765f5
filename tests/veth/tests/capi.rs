//! C programs on the installed library, with kernels and with each other.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use interop::files::Noise;
use interop::installed::{Linking, compile};
use interop::lab::{OURS, OURS6, PEER, PORT, url};
use interop::process::{Finished, PROMPT, wait_until};
use interop::{
    Family, Gate, Kind, Lab, Process, baseline, client, files, process, programs, sized,
};

const WITHIN: Duration = Duration::from_secs(120);
const MODES: [&str; 2] = ["paired", "inline"];

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn example(name: &str, linking: Linking) -> PathBuf {
    compile(scratch(), &format!("examples/c/{name}.c"), linking)
}

/// None, with a printed reason: the tests cannot run here.
fn enter() -> Option<Gate> {
    let gate = Gate::alone()?;
    if baseline() {
        interop::skipped("the kernel cannot stand in for the library");
        return None;
    }
    Some(gate)
}

fn lab() -> Lab {
    let lab = Lab::new(Kind::Afxdp);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    files::make(&lab.www().join("big"), 5, 20_000_000);
    lab
}

/// A configuration file with our addresses and these lines.
fn configuration(directory: &Path, lines: &str) -> PathBuf {
    let file = directory.join("mtcp.conf");
    let common = "max_concurrency = 10000\nrcvbuf = 65536\nsndbuf = 65536\ntcp_timeout = 30\ntcp_timewait = 0\n";
    std::fs::write(&file, format!("{common}{lines}\n")).unwrap();
    file
}

fn on_afxdp(lab: &Lab, mode: &str) -> PathBuf {
    on(lab, "afxdp", mode)
}

fn on(lab: &Lab, io: &str, mode: &str) -> PathBuf {
    let lines = format!("io = {io}\nport = ours0\naddr = {OURS}/24 {OURS6}/64\nmode = {mode}");
    configuration(lab.files(), &lines)
}

/// Started on our end, reachable on `port`.
fn start(lab: &Lab, mut command: Command, port: u16) -> Process {
    command.current_dir(lab.files());
    let mut server = Process::start(command);
    wait_until("the C server answers", PROMPT, || {
        assert!(server.is_running(), "the C server ended");
        is_open(lab, port)
    });
    server
}

fn is_open(lab: &Lab, port: u16) -> bool {
    let to = SocketAddr::new(Family::V4.ours(), port);
    lab.peer()
        .enter(|| TcpStream::connect_timeout(&to, Duration::from_millis(300)).is_ok())
}

fn epserver(lab: &Lab, mode: &str) -> Process {
    epserver_with(lab, &on_afxdp(lab, mode), "1")
}

fn epserver_with(lab: &Lab, configuration: &Path, threads: &str) -> Process {
    let mut command = lab.ours().command(example("epserver", Linking::Shared));
    command.arg("-p").arg(lab.www());
    command.arg("-f").arg(configuration);
    command.args(["-N", threads]);
    start(lab, command, PORT)
}

fn fetch_all(lab: &Lab) {
    let target = lab.files().join("target");
    for family in Family::BOTH {
        let small = lab
            .curl(&[&url(family.ours(), "small")], WITHIN)
            .must_succeed();
        assert_eq!(small.stdout, "small\n");
        let big = url(family.ours(), "big");
        lab.curl(&["--output", target.to_str().unwrap(), &big], WITHIN)
            .must_succeed();
        assert_eq!(files::difference(&lab.www().join("big"), &target), None);
        let missing = lab.curl(&[&url(family.ours(), "missing")], WITHIN);
        assert_eq!(missing.status.code(), Some(22), "{missing}");
        assert!(missing.stderr.contains("404"), "{missing}");
    }
}

fn ab(lab: &Lab, words: &[&str]) {
    programs::require(&["ab"]);
    let requests = sized(100_000, 10_000).to_string();
    let mut command = lab.peer().command("ab");
    command.args(["-q", "-n", &requests, "-c", "200", "-s", "60"]);
    command.args(words).arg(url(Family::V4.ours(), "small"));
    let done = process::finish(command, WITHIN).must_succeed();
    for line in [
        format!("Complete requests:      {requests}\n"),
        "Failed requests:        0\n".into(),
    ] {
        assert!(done.stdout.contains(&line), "{done}");
    }
    assert!(!done.stdout.contains("Non-2xx"), "{done}");
}

#[test]
fn epserver_serves_curl_and_ab() {
    let Some(_gate) = enter() else { return };
    for mode in MODES {
        let lab = lab();
        let server = epserver(&lab, mode);
        fetch_all(&lab);
        ab(&lab, &[]);
        ab(&lab, &["-k"]);
        server.signal(rustix::process::Signal::INT);
        server.finish(PROMPT).must_succeed();
    }
}

/// Frames of a flow come to either socket of two, whichever thread has the connection: that of a
/// client chose its port without knowing which.
#[test]
fn two_threads_share_an_interface_by_packet_sockets() {
    let Some(_gate) = enter() else { return };
    let lab = lab();
    let configuration = on(&lab, "packet", "paired");
    let server = epserver_with(&lab, &configuration, "2");
    fetch_all(&lab);
    ab(&lab, &[]);
    server.signal(rustix::process::Signal::INT);
    server.finish(PROMPT).must_succeed();
    let server = lab.peer_serve(&[]);
    let mut command = lab.ours().command(example("epwget", Linking::Shared));
    command.current_dir(lab.files());
    command.args([&format!("http://{PEER}/small"), "5000", "-c", "100"]);
    command.args(["-N", "2", "-f"]).arg(&configuration);
    // Each thread has half of them.
    completed(&process::finish(command, WITHIN).must_succeed(), 2500);
    server.stop();
}

fn completed(finished: &Finished, flows: u32) {
    let wanted = format!("Completed {flows} connections, errors: 0 incompletes: 0");
    assert!(finished.stdout.contains(&wanted), "{finished}");
}

#[test]
fn epwget_fetches_from_a_kernel_server() {
    let Some(_gate) = enter() else { return };
    let flows = sized(100_000, 5_000);
    for mode in MODES {
        let lab = lab();
        let server = lab.peer_serve(&[]);
        let configuration = on_afxdp(&lab, mode);
        for family in Family::BOTH {
            for (file, flows) in [("small", flows), ("big", 1)] {
                let mut command = lab.ours().command(example("epwget", Linking::Shared));
                command.current_dir(lab.files());
                let target = SocketAddr::new(family.peer(), PORT).to_string();
                let target = target.trim_end_matches(":80");
                command
                    .arg(format!("http://{target}/{file}"))
                    .arg(flows.to_string());
                command
                    .args(["-c", "100", "-N", "1", "-f"])
                    .arg(&configuration);
                if flows == 1 {
                    command.args(["-o", "got"]);
                }
                let done = process::finish(command, WITHIN).must_succeed();
                completed(&done, flows);
            }
            let got = the_only_file(lab.files(), "got");
            assert_eq!(files::difference(&lab.www().join("big"), &got), None);
            std::fs::remove_file(got).unwrap();
        }
        server.stop();
    }
}

/// epwget puts the number of the flow behind the name.
fn the_only_file(directory: &Path, prefix: &str) -> PathBuf {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut found: Vec<_> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(prefix)
    });
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn epserver_and_epwget_meet_over_shared_memory() {
    let Some(_gate) = enter() else { return };
    for mode in MODES {
        let lab = lab();
        let flows = sized(100_000, 10_000);
        let (ours, theirs) = (lab.files().join("s"), lab.files().join("c"));
        let link = lab.files().join("link");
        let configure = |directory: &Path, address: &str| {
            std::fs::create_dir(directory).unwrap();
            let lines = format!(
                "io = shm:{}\naddr = {address}/24\nmode = {mode}",
                link.display()
            );
            configuration(directory, &lines)
        };
        let (served, fetched) = (configure(&ours, "10.9.0.1"), configure(&theirs, "10.9.0.2"));
        let mut server = Command::new(example("epserver", Linking::Shared));
        server
            .arg("-p")
            .arg(lab.www())
            .arg("-f")
            .arg(served)
            .args(["-N", "1"]);
        server.current_dir(&ours);
        let server = Process::start(server);
        wait_until("the link is there", PROMPT, || link.exists());
        for (file, flows) in [("small", flows), ("big", 1)] {
            let mut command = Command::new(example("epwget", Linking::Static));
            command
                .arg(format!("10.9.0.1/{file}"))
                .arg(flows.to_string());
            command.args(["-c", "100", "-N", "1", "-f"]).arg(&fetched);
            if flows == 1 {
                command.args(["-o", "got"]);
            }
            command.current_dir(&theirs);
            completed(&process::finish(command, WITHIN).must_succeed(), flows);
        }
        let got = the_only_file(&theirs, "got");
        assert_eq!(files::difference(&lab.www().join("big"), &got), None);
        server.signal(rustix::process::Signal::INT);
        server.finish(PROMPT).must_succeed();
    }
}

#[test]
fn a_blocking_program_serves_kernel_clients_shared_and_static() {
    let Some(_gate) = enter() else { return };
    for (linking, mode) in [(Linking::Shared, "paired"), (Linking::Static, "inline")] {
        let lab = lab();
        let mut command = lab.ours().command(example("echo", linking));
        command.arg(on_afxdp(&lab, mode)).arg("7");
        let server = start(&lab, command, 7);
        let to = SocketAddr::new(Family::V4.ours(), 7);
        for round in 0..5 {
            let said = Noise::bytes(round, 1_000_000);
            let mut stream = lab.peer().enter(|| client::open(to)).unwrap();
            let mut heard = Vec::new();
            std::thread::scope(|scope| {
                let mut writer = stream.try_clone().unwrap();
                scope.spawn({
                    let said = &said;
                    move || {
                        writer.write_all(said).unwrap();
                        writer.shutdown(std::net::Shutdown::Write).unwrap();
                    }
                });
                stream.read_to_end(&mut heard).unwrap();
            });
            assert!(
                heard == said,
                "round {round}: {} bytes came back",
                heard.len()
            );
        }
        server.kill();
    }
}
