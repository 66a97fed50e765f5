//! The host's own address: the stack has TCP of its own there, and the rest of the host does not
//! notice.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use interop::lab::{PORT, listening, report, url};
use interop::process::{Finished, Process, finish, wait_until};
use interop::{Family, Gate, Kind, Lab, baseline, files, programs, sized};

const MB: u64 = 1_000_000;
const SOON: Duration = Duration::from_secs(60);
/// Of the kernel's servers.
const OTHER: u16 = 8080;
/// What the promise says, and what one lost SYN takes.
const AT_ONCE: Duration = Duration::from_millis(100);
const SYN_AGAIN: Duration = Duration::from_secs(1);

/// `mtcp` at our end, on the host's address.
fn mtcp(lab: &Lab, words: &[&str]) -> Command {
    let mut command = lab.ours().command(programs::mtcp());
    command.args(words);
    command.args(["--io", "afxdp:ours0", "--addr", "host"]);
    command
}

/// A server of our directory at our end, with what these words say of addresses.
fn serve_with(lab: &Lab, words: &[&str]) -> Command {
    let mut command = lab.ours().command(programs::mtcp());
    command.args(["serve", "--io", "afxdp:ours0"]).args(words);
    command.arg(lab.www());
    command
}

fn serve(lab: &Lab) -> Process {
    let mut command = serve_with(lab, &["--addr", "host"]);
    command.arg("--upload").arg(lab.uploads());
    listening(command)
}

/// A counter of TCP in our namespace.
fn counter(lab: &Lab, name: &str) -> u64 {
    let path = "/proc/thread-self/net/snmp";
    let text = lab.ours().enter(|| std::fs::read_to_string(path)).unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split(' ').position(|other| other == name).unwrap();
    values.split(' ').nth(at).unwrap().parse().unwrap()
}

/// Ends what goes on beside a test, however that ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection of the kernel over which the peer sends until told to end, and the host sends back.
struct Session {
    ends: [TcpStream; 2],
}

impl Session {
    fn new(lab: &Lab) -> Self {
        let at = SocketAddr::new(Family::V4.kernel(), 22);
        let listener = lab.ours().enter(|| TcpListener::bind(at)).unwrap();
        let client = lab.peer().enter(|| TcpStream::connect(at)).unwrap();
        let (server, _) = listener.accept().unwrap();
        for end in [&client, &server] {
            end.set_read_timeout(Some(SOON)).unwrap();
        }
        Self {
            ends: [client, server],
        }
    }

    /// Goes on until told to end. Returns the bytes that came back.
    fn run(self, ended: &AtomicBool) -> u64 {
        let [client, server] = self.ends;
        thread::scope(|scope| {
            let back = scope.spawn(move || std::io::copy(&mut &server, &mut &server).unwrap());
            let reader = client.try_clone().unwrap();
            let came = scope.spawn(move || {
                let sum = std::io::copy(&mut &reader, &mut std::io::sink());
                sum.unwrap()
            });
            let block = files::Noise::bytes(5, 1 << 13);
            let mut sent = 0;
            while !ended.load(Ordering::Relaxed) {
                (&client).write_all(&block).unwrap();
                sent += block.len() as u64;
                thread::sleep(Duration::from_millis(1)); // some 64 Mbit/s
            }
            client.shutdown(std::net::Shutdown::Write).unwrap();
            assert_eq!(came.join().unwrap(), sent);
            // What was shut down is closed by the other end.
            drop(back);
            sent
        })
    }
}

/// Answers datagrams at the host's address until told to end; the peer asks. Returns how many
/// questions had an answer, all of them.
fn echo(lab: &Lab, ended: &AtomicBool) -> u32 {
    let at = SocketAddr::new(Family::V4.kernel(), 7);
    let server = lab.ours().enter(|| UdpSocket::bind(at)).unwrap();
    let from = SocketAddr::new(Family::V4.peer(), 0);
    let client = lab.peer().enter(|| UdpSocket::bind(from)).unwrap();
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(SOON)).unwrap();
    }
    let mut count = 0;
    while !ended.load(Ordering::Relaxed) {
        let mut bytes = [0; 8];
        client.send_to(b"question", at).unwrap();
        let (_, who) = server.recv_from(&mut bytes).unwrap();
        server.send_to(&bytes, who).unwrap();
        assert_eq!(client.recv(&mut bytes).unwrap(), 8);
        count += 1;
        thread::sleep(Duration::from_millis(1));
    }
    count
}

fn transfers(lab: &Lab) {
    let length = sized(100 * MB, 10 * MB);
    let big = lab.www().join("big");
    files::make(&big, 3, length);
    for family in Family::BOTH {
        let got = lab.files().join("got");
        let source = url(family.kernel(), "big");
        lab.curl(&["--output", got.to_str().unwrap(), &source], SOON)
            .must_succeed();
        assert_eq!(files::difference(&big, &got), None, "{family:?}");
        let target = url(family.kernel(), "sent");
        lab.curl(&["--upload-file", big.to_str().unwrap(), &target], SOON)
            .must_succeed();
        let sent = lab.uploads().join("sent");
        assert_eq!(files::difference(&big, &sent), None, "{family:?}");
        std::fs::remove_file(sent).unwrap();
    }
}

/// What the host does beside a server of the stack that comes and goes. Returns how many segments
/// its kernel sent again meanwhile.
fn beside_a_server(lab: &Lab) -> u64 {
    let session = Session::new(lab);
    let (before, ended) = (counter(lab, "RetransSegs"), AtomicBool::new(false));
    thread::scope(|scope| {
        let ends = Ends(&ended);
        let session = scope.spawn(|| session.run(&ended));
        let questions = scope.spawn(|| echo(lab, &ended));
        let server = serve(lab);
        let host = Family::V4.kernel().to_string();
        let mut ping = lab.peer().command("ping");
        ping.args(["-n", "-c", "50", "-i", "0.02", &host]);
        let ping = Process::start(ping);
        for family in Family::BOTH {
            let small = url(family.kernel(), "small");
            lab.curl(&[&small], SOON).must_succeed();
        }
        let answers = ping.finish(SOON).must_succeed();
        assert!(answers.stdout.contains(" 0% packet loss"), "{answers}");
        let mut command = lab.ours().command(programs::mtcp());
        command.arg("serve").arg(lab.www()).args(["--io", "kernel"]);
        command.args(["--port", &OTHER.to_string()]);
        let kernels = listening(command);
        let other = format!("http://{host}:{OTHER}/small");
        lab.curl(&[&other], SOON).must_succeed();
        kernels.stop();
        server.stop();
        drop(ends);
        assert!(session.join().unwrap() > 0);
        assert!(questions.join().unwrap() > 0);
    });
    counter(lab, "RetransSegs") - before
}

#[test]
fn the_host_goes_on_beside_a_server_at_its_address() {
    let Some(_gate) = Gate::alone().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    // A machine that is busy makes the kernel send again by itself, but not each time.
    let undisturbed = (0..5).any(|_| beside_a_server(&lab) == 0);
    assert!(undisturbed, "segments of the kernel were lost each time");
    let resets = counter(&lab, "OutRsts");
    let server = serve(&lab);
    transfers(&lab);
    server.stop();
    assert_eq!(
        counter(&lab, "OutRsts"),
        resets,
        "the kernel reset flows of the stack"
    );
}

#[test]
fn clients_at_the_hosts_address_reach_the_peer() {
    let Some(_gate) = Gate::alone().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    files::make(&lab.www().join("big"), 4, sized(100 * MB, 10 * MB));
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    let server = lab.peer_serve(&[]);
    let opened = counter(&lab, "ActiveOpens");
    for family in Family::BOTH {
        let mut command = mtcp(&lab, &["load", "--json", "-n", "200", "-c", "20"]);
        command.arg(url(family.peer(), "small"));
        let report = report(&finish(command, SOON).must_succeed());
        assert_eq!(report["succeeded"], 200, "{report}");
        let mut command = mtcp(&lab, &["run"]);
        let got = lab.files().join("got");
        command.args(["--", "curl", "--silent", "--fail", "--globoff", "--output"]);
        command.arg(&got).arg(url(family.peer(), "big"));
        finish(command, SOON).must_succeed();
        assert_eq!(files::difference(&lab.www().join("big"), &got), None);
    }
    assert_eq!(
        counter(&lab, "ActiveOpens"),
        opened,
        "the kernel opened connections"
    );
    server.stop();
}

#[test]
fn connections_take_no_ports_that_the_kernel_chooses() {
    let Some(_gate) = Gate::alone().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    let range = "/proc/sys/net/ipv4/ip_local_port_range";
    lab.ours()
        .enter(|| std::fs::write(range, "32768 60999"))
        .unwrap();
    let at = SocketAddr::new(Family::V4.peer(), PORT);
    let server = lab.peer().enter(|| TcpListener::bind(at)).unwrap();
    let load = Process::start(mtcp(
        &lab,
        &["load", &url(at.ip(), "x"), "-n", "50", "-c", "50"],
    ));
    let theirs: Vec<_> = (0..50).map(|_| server.accept().unwrap()).collect();
    for (_, from) in &theirs {
        assert!(!(32_768..=60_999).contains(&from.port()), "{from}");
    }
    load.kill();
}

/// How long after it was killed a server of the kernel serves at the port of the stack's.
fn recovery(lab: &Lab) -> Duration {
    let server = serve(lab);
    let at = SocketAddr::new(Family::V4.kernel(), PORT);
    let small = url(Family::V4.kernel(), "small");
    lab.curl(&[&small], SOON).must_succeed();
    let load = Process::start(lab.peer_load(&[&small, "-c", "20", "-d", "30", "--timeout", "2"]));
    wait_until("it is under load", SOON, || {
        server.processor_time() > Duration::from_millis(300)
    });
    let listener = lab.ours().enter(|| TcpListener::bind(at)).unwrap();
    let start = Instant::now();
    server.kill();
    lab.peer().enter(|| {
        let mut client = TcpStream::connect(at).unwrap();
        client.write_all(b"hello").unwrap();
        let (mut server, _) = listener
            .incoming()
            .map(|stream| (stream.unwrap(), ()))
            .find(|(stream, ())| stream.peer_addr().unwrap() == client.local_addr().unwrap())
            .unwrap();
        let mut heard = [0; 5];
        server.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
    });
    let took = start.elapsed();
    load.kill();
    took
}

#[test]
fn when_the_stack_is_killed_its_ports_are_the_kernels_at_once() {
    let Some(_gate) = Gate::alone().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    let took: Vec<Duration> = (0..3).map(|_| recovery(&lab)).collect();
    assert!(took.iter().all(|took| *took < SYN_AGAIN), "{took:?}");
    assert!(took.iter().any(|took| *took < AT_ONCE), "{took:?}");
}

/// Nothing is said of addresses, or what the kernel has, which is told in one line.
#[test]
fn the_kernels_address_is_shared_unless_another_is_given() {
    let Some(_gate) = Gate::alone().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    std::fs::write(lab.www().join("small"), "small\n").unwrap();
    let peers = lab.peer_serve(&[]);
    let at = SocketAddr::new(Family::V4.kernel(), OTHER);
    let _kernel = lab.ours().enter(|| TcpListener::bind(at)).unwrap();
    let v4 = format!("{}/24", Family::V4.kernel());
    let v6 = format!("{}/64", Family::V6.kernel());
    for (words, families, lines) in [
        (vec![], &Family::BOTH[..], 0),
        (vec!["--addr", &v4], &[Family::V4], 1),
        (vec!["--addr", &v4, "--addr", &v6], &Family::BOTH, 1),
        (vec!["--addr", "host", "--addr", &v4], &[Family::V4], 0),
    ] {
        let server = listening(serve_with(&lab, &words));
        for family in families {
            let got = lab.curl(&[&url(family.kernel(), "small")], SOON);
            assert_eq!(got.must_succeed().stdout, "small\n", "{words:?}");
        }
        lab.peer().enter(|| TcpStream::connect(at)).unwrap();
        assert_eq!(sharings(&server.stop()), lines, "{words:?}");
        let mut run = lab.ours().command(programs::mtcp());
        run.args(["run", "--io", "afxdp:ours0"]).args(&words);
        run.args(["--", "curl", "--silent", "--fail", "--max-time", "10"]);
        run.arg(url(Family::V4.peer(), "small"));
        let got = finish(run, SOON).must_succeed();
        assert_eq!(
            (got.stdout.as_str(), sharings(&got)),
            ("small\n", lines),
            "{words:?}"
        );
    }
    peers.stop();
}

/// Lines that name the addresses of the command as the kernel's.
fn sharings(finished: &Finished) -> usize {
    let lines = finished.stderr.lines();
    lines
        .filter(|line| line.contains("the kernel's on ours0: shared with"))
        .count()
}

#[test]
fn an_interface_without_an_address_is_refused_in_one_line() {
    let Some(_gate) = Gate::beside_others().filter(|_| !baseline()) else {
        return;
    };
    let lab = Lab::new(Kind::Afxdp);
    lab.ours().ip("address flush dev ours0");
    for words in [&["--addr", "host"][..], &[]] {
        let refused = finish(serve_with(&lab, words), SOON);
        assert_eq!(refused.status.code(), Some(2), "{refused}");
        assert!(refused.stderr.contains("ours0 has no address"), "{refused}");
    }
    let mut command = mtcp(&lab, &["serve", "--addr", "10.77.0.9/24"]);
    command.arg(lab.www());
    let refused = finish(command, SOON);
    assert!(
        refused.stderr.contains("not the kernel's on ours0"),
        "{refused}"
    );
}
