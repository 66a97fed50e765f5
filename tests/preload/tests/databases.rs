//! PostgreSQL, which forks for each connection, on the stack of a daemon.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use applications::host::Host;
use applications::process::{self, Process, wait_until};
use applications::site::{WITHIN, spell, succeed};
use applications::{Family, Site};
use rustix::process::{Pid, Signal, kill_process};

const PORT: u16 = 5432;
/// Whom Debian has for it: it wants to be somebody.
const USER: &str = "postgres";

/// Where Debian has the server: in none of the folders of PATH.
fn program(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found = versions.flatten().map(|version| version.path().join("bin"));
    found
        .find(|folder| folder.join(name).is_file())
        .map(|folder| folder.join(name))
}

fn client(site: &Site, words: &str) -> Command {
    let at = format!("-h {} -p {PORT} -U postgres", Family::V4.ours());
    let (name, rest) = words.split_once(' ').unwrap();
    site.peer(&format!("{name} {at} {rest}"))
}

fn query(site: &Site, text: &str) -> Command {
    let mut command = client(site, "psql -At -d postgres");
    command.args(["-c", text]);
    command
}

/// A new cluster, and its folder.
fn make(host: &Host) -> Option<PathBuf> {
    let folder = host.site.file("pg");
    fs::create_dir(&folder).unwrap();
    let mut chown = Command::new("chown");
    chown.arg(USER).arg(&folder);
    succeed(chown);
    let mut initdb = Command::new("setpriv");
    initdb.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
    initdb.arg(program("initdb")?).args(["-U", "postgres"]);
    initdb.args(["-A", "trust", "--no-sync", "-D"]).arg(&folder);
    succeed(initdb);
    let peer = format!("host all all {}/32 trust\n", Family::V4.peer());
    let mut rules = fs::read_to_string(folder.join("pg_hba.conf")).unwrap();
    rules.push_str(&peer);
    fs::write(folder.join("pg_hba.conf"), rules).unwrap();
    Some(folder)
}

/// pgbench loses nothing; who is in a session whose backend is killed is told, and the server goes
/// on, as on the kernel.
#[test]
fn postgres_outlives_a_backend() {
    if program("postgres").is_none() {
        return interop::skipped("needs PostgreSQL (package postgresql)");
    }
    let Some(host) = Host::new(&["pgbench", "psql"]) else {
        return;
    };
    let site = &host.site;
    let folder = make(&host).unwrap();
    let server = format!(
        "{} -D {folder} -h {} -p {PORT} -k {folder} -c fsync=off",
        spell(&program("postgres").unwrap()),
        Family::V4.ours(),
        folder = spell(&folder)
    );
    let mut server = host.run(USER, &server);
    server.current_dir("/");
    let _server = site.start_ours(server, PORT);
    succeed(client(site, "pgbench -i -q postgres"));
    let load = succeed(client(site, "pgbench -n -c 8 -j 2 -t 200 postgres"));
    let all = "number of transactions actually processed: 1600/1600";
    assert!(load.stdout.contains(all), "{load:?}");
    // Each transaction has a connection of its own.
    let load = succeed(client(site, "pgbench -n -C -S -c 4 -t 50 postgres"));
    let all = "number of transactions actually processed: 200/200";
    assert!(load.stdout.contains(all), "{load:?}");

    let session = Process::start(query(site, "select pg_sleep(60)"));
    let sleeps = "select pid from pg_stat_activity where query = 'select pg_sleep(60)'";
    let mut pid = None;
    wait_until("the session begins", WITHIN, || {
        pid = succeed(query(site, sleeps)).stdout.trim().parse().ok();
        pid.is_some()
    });
    kill_process(Pid::from_raw(pid.unwrap()).unwrap(), Signal::KILL).unwrap();
    let session = session.finish(WITHIN);
    assert!(
        session
            .stderr
            .contains("server closed the connection unexpectedly"),
        "{session:?}"
    );
    wait_until("the server has recovered", WITHIN, || {
        process::finish(query(site, "select 1"), WITHIN)
            .status
            .success()
    });
}
