//! Servers in languages with sockets of their own: Python's threads and asyncio, node.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use applications::site::{WITHIN, spell, succeed};
use applications::web::{Web, judge_wrk, published};
use applications::{Family, Process, Site, url};
use interop::programs;

fn program(name: &str) -> String {
    spell(
        &programs::repository()
            .join("tests/preload/programs")
            .join(name),
    )
}

#[test]
fn python_http_server() {
    let Some(site) = published(&["python3", "curl", "ab"]) else {
        return;
    };
    let www = spell(&site.lab().www());
    let words = format!("/usr/bin/python3 -m http.server 80 --bind :: --directory {www}");
    let _server = site.start_ours(site.ours(&words), 80);
    let web = Web {
        keeps_alive: false,
        load: (500, 10),
        ..Web::default()
    };
    web.exercise(&site);
}

#[test]
fn node() {
    let Some(site) = published(&["node", "curl", "ab", "wrk"]) else {
        return;
    };
    let words = format!(
        "node {} 80 {}",
        program("node_server.js"),
        spell(&site.lab().www())
    );
    let _server = site.start_ours(site.ours(&words), 80);
    Web::default().exercise(&site);
    // What came after many others is as whole as what came first.
    for family in Family::BOTH {
        let to = url("http", family, true, 80, "small");
        let report = succeed(site.peer(&format!("wrk -t 2 -c 20 -d 2 {to}")));
        judge_wrk(&report.stdout);
        Web::default().fetch(&site, family, "large");
    }
}

#[test]
fn python_asyncio() {
    let Some(site) = published(&["python3", "curl", "ab"]) else {
        return;
    };
    let words = format!(
        "/usr/bin/python3 {} 80 {}",
        program("asyncio_server.py"),
        spell(&site.lab().www())
    );
    let _server = site.start_ours(site.ours(&words), 80);
    let web = Web {
        load: (1000, 50),
        ..Web::default()
    };
    web.exercise(&site);
}

/// Urgent data interrupts a server and a client, Python's on our end and on the peer's kernel.
#[test]
fn python_urgent() {
    let Some(site) = Site::new(&["python3"]) else {
        return;
    };
    let script = program("urgent.py");
    let words = |rest: String| format!("/usr/bin/python3 {script} {rest}");
    for family in Family::BOTH {
        let serve = words("serve 23".to_owned());
        let server = site.start_ours(site.ours(&serve), 23);
        succeed(site.peer(&words(format!("call {} 23", family.ours()))));
        fine(server);
        let server = site.start_peer(site.peer(&serve), 23);
        succeed(site.ours(&words(format!("call {} 23", family.peer()))));
        fine(server);
    }
}

fn fine(server: Process) {
    let finished = server.finish(WITHIN).must_succeed();
    assert!(finished.stdout.ends_with("fine\n"), "{finished:?}");
}
