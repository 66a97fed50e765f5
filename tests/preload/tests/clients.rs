//! Clients on mTCP, servers on the peer's kernel.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::process::Command;

use applications::nginx::Nginx;
use applications::site::{spell, succeed};
use applications::tls::Identity;
use applications::web::{judge_ab, judge_wrk, publish, publish_large, same};
use applications::{Family, Process, Site, note, tls, url};

/// A site whose peer serves files on port 80, and with TLS on 81.
fn with_nginx(needed: &[&str]) -> Option<(Site, Process)> {
    let site = Site::new(&[needed, &["nginx"]].concat())?;
    publish(&site);
    let identity = tls::identity(&site);
    let server = start_nginx(&site, &identity);
    Some((site, server))
}

fn start_nginx(site: &Site, identity: &Identity) -> Process {
    let uploads = spell(&site.lab().uploads());
    let more = format!(
        "location /sent/ {{ alias {uploads}/; dav_methods PUT; client_body_temp_path {uploads}/tmp; }}"
    );
    let nginx = Nginx {
        name: "peer",
        workers: 1,
        port: 80,
        identity: Some(identity),
        more: &more,
    };
    site.start_peer(site.peer(&nginx.words(site)), 80)
}

fn theirs(scheme: &str, family: Family, path: &str) -> String {
    let port = if scheme == "https" { 81 } else { 80 };
    url(scheme, family, false, port, path)
}

fn curl(site: &Site, words: &str) -> Command {
    site.ours(&format!(
        "curl --silent --show-error --fail --insecure --max-time 60 {words}"
    ))
}

#[test]
fn curl_fetches_and_sends() {
    let Some((site, _server)) = with_nginx(&["curl"]) else {
        return;
    };
    let (large, target) = (publish_large(&site), site.file("target"));
    for (scheme, family) in [
        ("http", Family::V4),
        ("http", Family::V6),
        ("https", Family::V4),
    ] {
        let from = theirs(scheme, family, "large");
        succeed(curl(
            &site,
            &format!("--http1.1 --output {} {from}", spell(&target)),
        ));
        same(&large, &target);
    }
    let to = theirs("http", Family::V4, "sent/large");
    succeed(curl(
        &site,
        &format!("--upload-file {} {to}", spell(&large)),
    ));
    same(&large, &site.lab().uploads().join("large"));
}

#[test]
fn curl_in_parallel() {
    let Some((site, _server)) = with_nginx(&["curl"]) else {
        return;
    };
    for (scheme, version) in [
        ("http", "--http1.1"),
        ("https", "--http1.1"),
        ("https", "--http2"),
    ] {
        let from = theirs(scheme, Family::V4, "medium") + "?[1-40]";
        let targets = spell(&site.file("parallel"));
        succeed(curl(
            &site,
            &format!("{version} --parallel --parallel-max 20 --output {targets}-#1 {from}"),
        ));
        for number in 1..=40 {
            let target = format!("{targets}-{number}");
            same(&site.lab().www().join("medium"), target.as_ref());
            std::fs::remove_file(target).unwrap();
        }
    }
}

#[test]
fn wget() {
    let Some((site, _server)) = with_nginx(&["wget"]) else {
        return;
    };
    let (large, target) = (publish_large(&site), site.file("target"));
    for family in Family::BOTH {
        let from = theirs("http", family, "large");
        succeed(site.ours(&format!("wget -q -t 1 -T 60 -O {} {from}", spell(&target))));
        same(&large, &target);
    }
}

#[test]
fn ab() {
    let Some((site, _server)) = with_nginx(&["ab"]) else {
        return;
    };
    for (words, scheme) in [("", "http"), ("-k", "http"), ("", "https")] {
        let from = theirs(scheme, Family::V4, "small");
        let requests = 2000;
        let report = succeed(site.ours(&format!("ab -q {words} -n {requests} -c 50 {from}")));
        judge_ab(&report.stdout, requests);
    }
}

#[test]
fn wrk_with_two_threads() {
    let Some((site, _server)) = with_nginx(&["wrk"]) else {
        return;
    };
    let from = theirs("http", Family::V4, "small");
    let report = succeed(site.ours(&format!("wrk -t 2 -c 50 -d 3 {from}")));
    let requests = judge_wrk(&report.stdout);
    assert!(requests > 500, "{report:?}");
    note(&format!("wrk {requests} requests in 3 s"));
}

#[test]
fn h2load() {
    let Some((site, _server)) = with_nginx(&["h2load"]) else {
        return;
    };
    let from = theirs("https", Family::V4, "medium");
    let report = succeed(site.ours(&format!("h2load -n 2000 -c 20 -m 10 {from}"))).stdout;
    assert!(
        report.contains("2000 succeeded, 0 failed, 0 errored"),
        "{report}"
    );
}

#[test]
fn redis_benchmark() {
    let Some(site) = Site::new(&["redis-server", "redis-benchmark"]) else {
        return;
    };
    let mut server = site.peer("redis-server --port 6379 --protected-mode no --appendonly no");
    server.args(["--save", ""]);
    let _server = site.start_peer(server, 6379);
    for words in ["-n 3000 -c 50", "-n 50000 -c 50 -P 16 -t set,get"] {
        let command = site.ours(&format!(
            "redis-benchmark -h {} --csv {words}",
            Family::V4.peer()
        ));
        let report = succeed(command).stdout;
        assert!(report.lines().count() >= 3, "{report}");
        assert!(!report.contains("rror"), "{report}");
    }
}

#[test]
fn git_over_http() {
    let Some((site, _server)) = with_nginx(&["git"]) else {
        return;
    };
    let (work, bare) = (site.file("work"), site.lab().www().join("project.git"));
    std::fs::create_dir(&work).unwrap();
    let git = |words: &str| {
        let mut git = Command::new("git");
        git.arg("-C")
            .arg(&work)
            .args(["-c", "user.name=i", "-c", "user.email=i@i"]);
        git.args(words.split_whitespace());
        succeed(git).stdout
    };
    git("init -q");
    for number in 0..20 {
        std::fs::copy(
            site.lab().www().join("medium"),
            work.join(format!("file{number}")),
        )
        .unwrap();
        std::fs::write(work.join("number"), number.to_string()).unwrap();
        git("add .");
        git(&format!("commit -q -m {number}"));
    }
    git(&format!("clone -q --bare . {}", spell(&bare)));
    git(&format!("--git-dir {} update-server-info", spell(&bare)));
    let from = theirs("http", Family::V4, "project.git");
    let copy = site.file("copy");
    succeed(site.ours(&format!("git clone -q {from} {}", spell(&copy))));
    let head = git("rev-parse HEAD");
    let mut check = Command::new("git");
    check.arg("-C").arg(&copy).args(["rev-parse", "HEAD"]);
    assert_eq!(succeed(check).stdout, head);
    same(&work.join("file19"), &copy.join("file19"));
}
