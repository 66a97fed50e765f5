//! Programs of several users on the stack of one daemon, at one address, without rights.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use applications::host::Host;
use applications::site::{WITHIN, spell, succeed};
use applications::{Family, Process, Site, files, process, url};

/// Where nothing answers: curl says so.
const CURL_REFUSED: i32 = 7;

fn nginx(site: &Site, workers: u32, port: u16) -> String {
    let prefix = site.file("nginx");
    fs::create_dir_all(&prefix).unwrap();
    fs::set_permissions(&prefix, Permissions::from_mode(0o777)).unwrap();
    let www = site.lab().www();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {}/{what};", prefix.display()))
        .concat();
    let text = format!(
        "daemon off; worker_processes {workers}; pid {0}/pid; error_log {0}/error;\n\
             events {{}}\n\
             http {{ access_log off; {temporary} server {{ listen {1}:{port}; root {2}; }} }}\n",
        prefix.display(),
        Family::V4.ours(),
        www.display()
    );
    site.write("nginx.conf", &text)
}

/// nginx with two workers and redis, of two users, under load from kernel clients. One of them is
/// killed: the other serves on, and its port is free again.
#[test]
fn servers_of_two_users_have_one_address() {
    let Some(host) = Host::new(&["nginx", "redis-server", "redis-benchmark", "ab", "curl"]) else {
        return;
    };
    let site = &host.site;
    files::make(&site.lab().www().join("small"), 1, 64);
    fs::set_permissions(site.lab().www(), Permissions::from_mode(0o755)).unwrap();
    let conf = nginx(site, 2, 8080);
    let error = spell(&site.file("nginx/error"));
    let nginx = host.run("1001", &format!("nginx -e {error} -c {conf}"));
    let nginx = site.start_ours(nginx, 8080);
    let bind = Family::V4.ours();
    let redis = format!("redis-server --port 6379 --bind {bind} --protected-mode no --save");
    let mut redis = host.run("1002", &redis);
    redis.arg("").current_dir("/");
    let redis = site.start_ours(redis, 6379);
    let small = url("http", Family::V4, true, 8080, "small");
    let load = site.peer(&format!("ab -q -r -n 3000 -c 30 {small}"));
    let load = Process::start(load);
    let gets = format!("redis-benchmark -h {bind} -t get,set -n 20000 -c 20 -q");
    succeed(site.peer(&gets));
    let load = load.finish(WITHIN).must_succeed();
    assert!(
        load.stdout.contains("Failed requests:        0"),
        "{load:?}"
    );
    // Another user does not get the port, nor a part of what comes there.
    let thief = format!("redis-server --port 8080 --bind {bind} --protected-mode no --save");
    let mut thief = host.run("1002", &thief);
    thief.arg("").current_dir("/");
    let thief = process::finish(thief, WITHIN);
    assert_ne!(thief.status.code(), Some(0), "{thief:?}");
    redis.kill();
    succeed(site.peer(&format!("curl -sSf -o /dev/null {small}")));
    nginx.stop().must_succeed();
    let gone = process::finish(site.peer(&format!("curl -sS {small}")), WITHIN);
    assert_eq!(gone.status.code(), Some(CURL_REFUSED), "{gone:?}");
    host.daemon.stop().must_succeed();
}

/// Four clients of a user at once, each a process, and a server that forks for each connection.
#[test]
fn clients_run_at_once() {
    let Some(host) = Host::new(&["curl", "python3"]) else {
        return;
    };
    let site = &host.site;
    files::make(&site.lab().www().join("medium"), 2, 50_000);
    let server = format!(
        "python3 -m http.server --bind {} --directory {} 8081",
        Family::V4.peer(),
        spell(&site.lab().www())
    );
    let _server = site.start_peer(site.peer(&server), 8081);
    let medium = url("http", Family::V4, false, 8081, "medium");
    let start = |_| Process::start(host.run("1001", &format!("curl -sSf -o /dev/null {medium}")));
    let clients: Vec<Process> = (0..4).map(start).collect();
    for client in clients {
        client.finish(WITHIN).must_succeed();
    }
}

/// A server at our address alone, which the kernel has not, and a client that is a process of
/// another user's.
#[test]
fn programs_of_a_host_reach_each_other() {
    let Some(host) = Host::new(&["nginx", "curl"]) else {
        return;
    };
    let site = &host.site;
    files::make(&site.lab().www().join("small"), 3, 64);
    fs::set_permissions(site.lab().www(), Permissions::from_mode(0o755)).unwrap();
    let conf = nginx(site, 1, 8082);
    let error = spell(&site.file("nginx/error"));
    let server = host.run("1001", &format!("nginx -e {error} -c {conf}"));
    let _server = site.start_ours(server, 8082);
    let small = url("http", Family::V4, true, 8082, "small");
    succeed(host.run("1002", &format!("curl -sSf -o /dev/null {small}")));
    // Where nobody listens.
    let none = url("http", Family::V4, true, 8083, "small");
    let none = process::finish(host.run("1002", &format!("curl -sS {none}")), WITHIN);
    assert_eq!(none.status.code(), Some(CURL_REFUSED), "{none:?}");
}
