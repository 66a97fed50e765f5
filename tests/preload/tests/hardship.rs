//! Processes of a server are killed, stopped, executed anew and made to pass their connections to
//! each other, at random and under load: no peer misses a byte that was written to it, who was not
//! accepted is served by who is left, another program loses nothing, and the daemon keeps nothing.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use applications::host::Host;
use applications::resp::Store;
use applications::site::{WITHIN, spell, succeed};
use applications::{Family, Site};
use interop::Process;
use interop::files::Noise;
use interop::process::{PROMPT, wait_until};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use rustix::process::{Pid, Signal, kill_process};

const PORT: u16 = 8080;
const WORKERS: u32 = 6;
const CLIENTS: usize = 12;

/// What the processes have written down, as `hardship.c` lays it out.
struct Notes(File);

/// Of one connection.
#[derive(Debug, Default)]
struct Note {
    accepted: u32,
    owner: u32,
    written: u32,
}

impl Notes {
    const SLOTS: u64 = 65_536 * 12;
    const SLOT: u64 = 12 + 12 * 24;

    fn word(&self, at: u64) -> u32 {
        let mut word = [0; 4];
        self.0.read_exact_at(&mut word, at).unwrap();
        u32::from_ne_bytes(word)
    }

    fn of(&self, port: u16) -> Note {
        let at = u64::from(port) * 12;
        Note {
            accepted: self.word(at),
            owner: self.word(at + 4),
            written: self.word(at + 8),
        }
    }

    fn worker(&self, slot: u32) -> u32 {
        self.word(Self::SLOTS + u64::from(slot) * Self::SLOT)
    }

    /// How many processes ended while they did what they had not written down, and how many
    /// otherwise than by SIGKILL.
    fn ends(&self) -> (u32, u32) {
        let at = Self::SLOTS + 16 * Self::SLOT;
        (self.word(at), self.word(at + 4))
    }
}

/// Whether threads beside have to end, also when somebody panics.
#[derive(Default)]
struct Over(AtomicBool);

impl Over {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn after<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Set<'a>(&'a Over);
        impl Drop for Set<'_> {
            fn drop(&mut self) {
                self.0.0.store(true, Ordering::Relaxed);
            }
        }
        let _set = Set(self);
        work()
    }
}

/// What a peer saw of a connection.
#[derive(Debug)]
struct Seen {
    port: u16,
    wanted: u32,
    got: u32,
    end: Result<(), ErrorKind>,
}

/// Asks for some bytes from this port, and compares them. `None`: the port is taken.
fn ask(to: SocketAddr, port: u16, noise: &mut Noise) -> Option<Seen> {
    let [wanted, first, pause] = random(noise);
    let (wanted, first) = (1 + wanted % 200_000, first % 251);
    let mut seen = Seen {
        port,
        wanted,
        got: 0,
        end: Ok(()),
    };
    let own = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    match bind(&socket, &own) {
        Err(Errno::ADDRINUSE) => return None,
        bound => bound.unwrap(),
    }
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(WITHIN)).unwrap();
    if let Err(error) = connect(&socket, &to) {
        seen.end = Err(std::io::Error::from(error).kind());
        return Some(seen);
    }
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    if pause % 4 == 0 {
        thread::sleep(Duration::from_micros(u64::from(pause % 3_000)));
    }
    let request = [wanted.to_ne_bytes(), first.to_ne_bytes()].concat();
    let mut room = vec![0; 65_536];
    seen.end = stream.write_all(&request).map_err(|error| error.kind());
    while seen.end.is_ok() {
        match stream.read(&mut room) {
            Ok(0) => break,
            Ok(count) => {
                for byte in &room[..count] {
                    assert_eq!(u32::from(*byte), (first + seen.got) % 251, "{seen:?}");
                    seen.got += 1;
                }
            }
            Err(error) => seen.end = Err(error.kind()),
        }
    }
    Some(seen)
}

fn random<const N: usize>(noise: &mut Noise) -> [u32; N] {
    std::array::from_fn(|_| {
        let mut bytes = [0; 4];
        noise.fill(&mut bytes);
        u32::from_ne_bytes(bytes)
    })
}

/// A worker that has not been killed.
fn living(notes: &Notes, killed: &HashSet<u32>, noise: &mut Noise) -> Pid {
    let mut found = None;
    wait_until("a worker", WITHIN, || {
        let [slot] = random(noise);
        let pid = notes.worker(slot % WORKERS);
        found = (pid != 0 && !killed.contains(&pid)).then_some(pid);
        found.is_some()
    });
    Pid::from_raw(found.unwrap().cast_signed()).unwrap()
}

/// Does `count` random deeds to workers, some connections apart: whom it killed.
fn vex(notes: &Notes, count: usize, noise: &mut Noise, seen: &Mutex<Vec<Seen>>) -> HashSet<u32> {
    let mut killed = HashSet::new();
    let mut stopped = None;
    for _ in 0..count {
        let worker = living(notes, &killed, noise);
        let [deed, pause] = random(noise);
        let signal = match deed % 10 {
            0..4 => Signal::KILL,
            4..6 => Signal::STOP,
            6..8 => Signal::USR1,
            _ => Signal::USR2,
        };
        kill_process(worker, signal).unwrap();
        if signal == Signal::KILL {
            killed.insert(worker.as_raw_nonzero().get().cast_unsigned());
        }
        let count = || seen.lock().unwrap().len();
        let enough = count() + 2;
        thread::sleep(Duration::from_micros(u64::from(1_000 + pause % 8_000)));
        // Nobody stays stopped for longer than one other deed takes: all may wait for who is.
        let now = (signal == Signal::STOP).then_some(worker);
        if let Some(worker) = mem::replace(&mut stopped, now) {
            let _ = kill_process(worker, Signal::CONT);
        }
        let end = Instant::now() + Duration::from_millis(100);
        while count() < enough && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }
    if let Some(worker) = stopped {
        let _ = kill_process(worker, Signal::CONT);
    }
    killed
}

/// `count` deeds to the server at `at` under load.
fn hardship(site: &Site, at: IpAddr, notes: &Notes, count: usize) {
    let (to, seed) = (SocketAddr::new(at, PORT), 41);
    let (over, ports, all) = (Over::default(), AtomicU16::new(2_000), Mutex::new(vec![]));
    let client = |number: u64| {
        let mut noise = Noise::new(seed + number);
        while !over.is_set() {
            let port = ports.fetch_add(1, Ordering::Relaxed);
            assert!(port < 65_000, "no ports are left");
            let seen = ask(to, port, &mut noise);
            all.lock().unwrap().extend(seen);
        }
    };
    let killed = thread::scope(|scope| {
        let load = scope.spawn(|| {
            site.lab().peer().enter(|| {
                thread::scope(|scope| {
                    for number in 0..CLIENTS {
                        scope.spawn(move || client(number as u64 + 1));
                    }
                });
            });
        });
        let killed = over.after(|| vex(notes, count, &mut Noise::new(seed), &all));
        load.join().unwrap();
        killed
    });
    judge(notes, &all.into_inner().unwrap(), &killed);
}

fn judge(notes: &Notes, all: &[Seen], killed: &HashSet<u32>) {
    let (unsure, broken) = notes.ends();
    let (mut cut, mut lost) = (0, 0);
    for seen in all {
        let note = notes.of(seen.port);
        if seen.got == seen.wanted && seen.end.is_ok() {
            assert_ne!(note.accepted, 0, "{seen:?} {note:?}");
            continue;
        }
        assert!(seen.got >= note.written, "{seen:?} {note:?}");
        let timely = matches!(
            seen.end,
            Ok(()) | Err(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
        );
        assert!(timely, "{seen:?} {note:?}");
        // Who has it was killed; or it was when it had just got it, which it could not write down.
        if note.accepted != 0 && killed.contains(&note.owner) {
            cut += 1;
        } else {
            lost += 1;
            println!("lost: {seen:?} {note:?}");
        }
    }
    println!(
        "{} connections, {} killed, {cut} cut, {lost} lost, {unsure} unsure",
        all.len(),
        killed.len()
    );
    assert_eq!(broken, 0, "processes ended by themselves");
    assert!(lost <= unsure, "{lost} lost, {unsure} unsure");
    assert!(all.len() > killed.len(), "there was no load");
}

/// A server, and what its processes write down.
fn start(site: &Site, ours: Option<&Host>, program: &Path) -> (Process, Notes) {
    let file = site.file("notes");
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    let family = Family::V4;
    let at = if ours.is_some() {
        family.ours()
    } else {
        family.peer()
    };
    let words = format!("{} {} {at} {PORT} {WORKERS}", spell(program), spell(&file));
    let command = ours.map_or_else(|| site.peer(&words), |host| host.run("1001", &words));
    let mut server = Process::start(command);
    server.wait_for("ready", PROMPT);
    (server, Notes(File::open(file).unwrap()))
}

fn compile(site: &Site) -> std::path::PathBuf {
    let program = site.file("hardship");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program);
    cc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/process/hardship.c"));
    succeed(cc);
    program
}

/// Descriptors and mappings of the daemon.
fn usage(host: &Host) -> (usize, usize) {
    let of = |name: &str| format!("/proc/{}/{name}", host.daemon.pid());
    let descriptors = fs::read_dir(of("fd")).unwrap().count();
    let mappings = fs::read_to_string(of("maps")).unwrap().lines().count();
    (descriptors, mappings)
}

/// Waits until the daemon has no socket of the server but in TIME_WAIT: what it uses then.
fn settled(host: &Host) -> (usize, usize) {
    let site = &host.site;
    let sockets = || {
        let mut mtcp = site.lab().ours().command(site.file("mtcp"));
        mtcp.arg("sockets")
            .arg("--daemon")
            .arg(site.file("run").join("default"));
        succeed(mtcp).stdout
    };
    let port = format!(":{PORT}");
    let is_one = |line: &str| line.contains(&port) && !line.contains("TIME-WAIT");
    wait_until("no socket", WITHIN, || !sockets().lines().any(is_one));
    usage(host)
}

/// Another program's user, for as long as the server has it hard.
fn beside(host: &Host, over: &Over) -> u64 {
    let at = SocketAddr::new(Family::V4.ours(), 6379);
    let rounds = || {
        let mut store = Store::open(at);
        let mut seed = 0;
        while !over.is_set() {
            store.redis_round(seed, 20, 3_000);
            Store::open(at).redis_round(seed + 1, 2, 100);
            seed += 2;
        }
        seed
    };
    host.site.lab().peer().enter(rounds)
}

#[test]
fn processes_that_have_it_hard_lose_what_the_kernel_would_lose() {
    let Some(host) = Host::new(&["cc", "redis-server"]) else {
        return;
    };
    let site = &host.site;
    let program = compile(site);
    let (kernel, notes) = start(site, None, &program);
    hardship(site, Family::V4.peer(), &notes, 200);
    kernel.kill();
    let words = format!(
        "redis-server --bind {} --port 6379 --protected-mode no --save",
        Family::V4.ours()
    );
    let mut redis = host.run("1002", &words);
    redis.current_dir("/");
    let _redis = site.start_ours(redis, 6379);
    let over = Over::default();
    thread::scope(|scope| {
        let beside = scope.spawn(|| beside(&host, &over));
        over.after(|| keeps_nothing(&host, &program));
        assert!(beside.join().unwrap() > 100);
    });
}

/// A short run and a long one leave the daemon with the same.
fn keeps_nothing(host: &Host, program: &Path) {
    let [before, after] = [50, 1_000].map(|count| {
        let (server, notes) = start(&host.site, Some(host), program);
        hardship(&host.site, Family::V4.ours(), &notes, count);
        server.kill();
        settled(host)
    });
    println!("the daemon has {before:?} and {after:?} descriptors and mappings");
    assert!(
        after.0 <= before.0 + 2 && after.1 <= before.1 + 2,
        "{before:?} {after:?}"
    );
}
