//! Servers in languages with sockets of their own: Python's threads and asyncio.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use applications::site::spell;
use applications::web::{Web, published};
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
