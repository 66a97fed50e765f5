//! Server and client as two processes over mTCP and a shared-memory link.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Server, noise, run, www};
use serde_json::Value;

/// A server on a link of its own, and clients that each have an address of their own.
struct Lab {
    server: Server,
    link: String,
    clients: u32,
    _directory: tempfile::TempDir,
}

impl Lab {
    fn new(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let link = format!("shm:{}", directory.path().join("link").display());
        let mut all = vec![
            "--io",
            &link,
            "--addr",
            "10.9.0.1/24,fd09::1/64",
            "--port",
            "80",
        ];
        all.extend_from_slice(arguments);
        let server = Server::start(&all);
        Self {
            server,
            link,
            clients: 0,
            _directory: directory,
        }
    }

    fn load(&mut self, arguments: &[&str]) -> Value {
        self.clients += 1;
        let host = 10 + self.clients;
        let address = format!("10.9.0.{host}/24,fd09::{host}/64");
        let mut all = vec!["load", "--io", &self.link, "--addr", &address, "--json"];
        all.extend_from_slice(arguments);
        let output = run(&all);
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(&text)
            .unwrap_or_else(|_| panic!("{text} {}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn web(directory: &Path, more: &[&str]) -> Lab {
    let directory = directory.to_str().unwrap();
    let mut arguments = vec![directory, "--upload", directory];
    arguments.extend_from_slice(more);
    Lab::new(&arguments)
}

/// Both directions, both IP versions; bytes compared.
fn bodies_go_both_ways(mode: &str) {
    let www = www();
    let mut lab = web(www.path(), &["--mode", mode]);
    let big = www.path().join("big").to_str().unwrap().to_owned();
    for (host, name) in [("10.9.0.1", "a"), ("[fd09::1]", "b")] {
        let copy = www.path().join(format!("copy-{name}"));
        let value = lab.load(&[
            &format!("http://{host}/big"),
            "-n",
            "1",
            "-o",
            copy.to_str().unwrap(),
            "--mode",
            mode,
        ]);
        assert_eq!(value["errors"], 0, "{value}");
        assert!(std::fs::read(&copy).unwrap() == noise(20_000_000), "{host}");
        let url = format!("http://{host}/put-{name}");
        let value = lab.load(&[
            &url, "-n", "1", "--method", "PUT", "--body", &big, "--mode", mode,
        ]);
        assert_eq!(value["errors"], 0, "{value}");
        assert!(
            std::fs::read(www.path().join(format!("put-{name}"))).unwrap() == noise(20_000_000),
            "{host}"
        );
    }
    let (last, success) = lab.server.stop();
    assert!(success && last.contains("4 requests (0 errors)"), "{last}");
}

#[test]
fn bodies_go_both_ways_inline() {
    bodies_go_both_ways("inline");
}

#[test]
fn bodies_go_both_ways_paired() {
    bodies_go_both_ways("paired");
}

#[test]
fn many_short_and_many_kept_connections() {
    let www = www();
    let mut lab = web(www.path(), &[]);
    let value = lab.load(&["http://10.9.0.1/hello.txt", "-n", "5000", "-c", "200"]);
    assert_eq!(
        (value["errors"].as_u64(), value["connections"].as_u64()),
        (Some(0), Some(5000)),
        "{value}"
    );
    let value = lab.load(&["http://[fd09::1]/hello.txt", "-n", "5000", "-c", "50", "-k"]);
    assert_eq!(
        (value["errors"].as_u64(), value["connections"].as_u64()),
        (Some(0), Some(50)),
        "{value}"
    );
}

#[test]
fn fixed_sizes() {
    let mut lab = Lab::new(&["--raw", "64/64"]);
    let value = lab.load(&["10.9.0.1", "--raw", "64/64", "-n", "5000", "-c", "100"]);
    assert_eq!(value["errors"], 0, "{value}");
    assert_eq!(
        (
            value["bytes_received"].as_u64(),
            value["bytes_sent"].as_u64()
        ),
        (Some(320_000), Some(320_000))
    );
}

#[test]
fn refused_and_unreachable() {
    let mut lab = Lab::new(&["--raw", "64/64"]);
    let value = lab.load(&[
        "10.9.0.1:81",
        "--raw",
        "64/64",
        "-n",
        "3",
        "--timeout",
        "20",
    ]);
    assert_eq!(value["errors_by_kind"]["connect_refused"], 3, "{value}");
    // No route: known at once.
    let value = lab.load(&["192.0.2.1", "--raw", "64/64", "-n", "3", "-c", "2"]);
    assert_eq!(value["errors_by_kind"]["no_route"], 3, "{value}");
}

#[test]
fn faults_are_overcome_and_captured() {
    let www = www();
    std::fs::write(www.path().join("medium"), noise(2_000_000)).unwrap();
    let mut lab = web(www.path(), &["--fault", "loss=1%,seed=7"]);
    let copy = www.path().join("copy");
    let capture = www.path().join("capture.pcapng");
    let value = lab.load(&[
        "http://10.9.0.1/medium",
        "-n",
        "1",
        "-o",
        copy.to_str().unwrap(),
        "--pcap",
        capture.to_str().unwrap(),
    ]);
    assert_eq!(value["errors"], 0, "{value}");
    assert!(std::fs::read(&copy).unwrap() == noise(2_000_000));
    let captured = std::fs::read(&capture).unwrap();
    // The block type of a pcapng section header.
    assert!(
        captured.starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]) && captured.len() > 2_000_000,
        "{} bytes",
        captured.len()
    );
}

#[test]
fn a_lost_link_ends_the_program_with_one_line() {
    let www = www();
    let lab = web(www.path(), &[]);
    // The second on a link connects to the first, and is nothing without it.
    let directory = www.path().to_str().unwrap();
    let arguments = [
        "serve",
        directory,
        "--io",
        &lab.link,
        "--addr",
        "10.9.0.2/24",
    ];
    let mut command = common::mtcp();
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.contains("listening"), "{line}");
    drop(lab);
    let output = common::wait(child);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.starts_with("mtcp: ") && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn a_settings_file_says_the_same_as_options() {
    let www = www();
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    let file = directory.path().join("mtcp.conf");
    let text = |host: u32| {
        format!(
            "io = shm:{}\naddr = 10.9.0.{host}/24\nmode = inline\n",
            link.display()
        )
    };
    std::fs::write(&file, text(1)).unwrap();
    let server = Server::start(&[
        www.path().to_str().unwrap(),
        "--config",
        file.to_str().unwrap(),
    ]);
    assert!(
        server.start_line.contains("10.9.0.1:80"),
        "{}",
        server.start_line
    );
    std::fs::write(&file, text(2)).unwrap();
    let output = run(&[
        "load",
        "http://10.9.0.1/hello.txt",
        "-n",
        "10",
        "--config",
        file.to_str().unwrap(),
    ]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

/// What neither the file nor an option says is as the command's help has it.
#[test]
fn a_settings_file_leaves_a_command_its_defaults() {
    let www = www();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("mtcp.conf");
    for (more, mode, told) in [
        ("", "inline", false),
        ("mode = paired\n", "paired", false),
        ("num_cores = 1\n", "inline", false),
        ("num_cores = 4\n", "inline", true),
    ] {
        let link = directory.path().join("link");
        let text = format!("io = shm:{}\naddr = 10.9.0.1/24\n{more}", link.display());
        std::fs::write(&file, text).unwrap();
        let said = std::fs::File::create(directory.path().join("said")).unwrap();
        let mut child = common::mtcp()
            .args(["serve", www.path().to_str().unwrap(), "--config"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stderr(said)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
        common::wait(child);
        assert!(line.contains(&format!(", {mode})")), "{more}{line}");
        let said = std::fs::read_to_string(directory.path().join("said")).unwrap();
        assert_eq!(said.contains("num_cores = 4"), told, "{more}{said}");
    }
}

#[test]
fn an_idle_server_costs_nothing() {
    let www = www();
    let mut lab = web(www.path(), &[]);
    assert_eq!(
        lab.load(&["http://10.9.0.1/hello.txt", "-n", "10"])["errors"],
        0
    );
    let used = || common::processor_time(lab.server.process());
    // What the load left to do is done when a while costs next to nothing.
    let deadline = Instant::now() + common::LONG;
    loop {
        let (start, before) = (Instant::now(), used());
        std::thread::sleep(Duration::from_secs(1));
        let (spent, passed) = (used() - before, start.elapsed());
        if spent < passed / 100 {
            break;
        }
        assert!(Instant::now() < deadline, "{spent:?} of {passed:?}");
    }
    assert_eq!(
        lab.load(&["http://10.9.0.1/hello.txt", "-n", "10"])["errors"],
        0,
        "it was there all the time"
    );
}
