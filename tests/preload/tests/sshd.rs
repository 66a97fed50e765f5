//! Debian's sshd on mTCP: it forks for each connection, and what it forks executes itself again
//! with the connection in hand.

#![allow(clippy::unwrap_used, clippy::panic)] // tests

use std::process::{Command, Stdio};

use applications::host::Host;
use applications::process::Process;
use applications::site::{WITHIN, spell, succeed};
use applications::web::same;
use applications::{Family, Site, files};

/// Bytes each way.
const LARGE: u64 = 100_000_000;

fn key(site: &Site, name: &str) -> String {
    let file = spell(&site.file(name));
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", &file]);
    succeed(keygen);
    file
}

fn configuration(site: &Site) -> String {
    let (host, user) = (key(site, "host"), key(site, "user"));
    let text = format!(
        "Port 22\nListenAddress 0.0.0.0\nListenAddress ::\nHostKey {host}\nAuthorizedKeysFile {user}.pub\n\
         PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nPrintMotd no\nMaxStartups 100\nSubsystem sftp internal-sftp\n"
    );
    site.write("sshd.conf", &text)
}

fn ssh(site: &Site, family: Family, words: &str) -> Command {
    let user = spell(&site.file("user"));
    let mut ssh = site.peer(&format!(
        "ssh -F none -i {user} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
         -o LogLevel=ERROR -o ConnectTimeout=60 root@{} {words}",
        family.ours()
    ));
    ssh.env_remove("SSH_AUTH_SOCK");
    ssh
}

#[test]
fn sshd() {
    let Some(site) = Site::new(&["sshd", "ssh", "ssh-keygen"]) else {
        return;
    };
    // Where Debian's sshd leaves its privileges.
    std::fs::create_dir_all("/run/sshd").unwrap();
    let file = configuration(&site);
    // It wants to be called by its whole path, which `ours` gives.
    let _server = site.start_ours(site.ours(&format!("sshd -D -e -f {file}")), 22);
    who_is_there(&site);
    there_and_back(&site);
    many(&site);
}

/// The addresses are those of the connection.
fn who_is_there(site: &Site) {
    for family in Family::BOTH {
        let told = succeed(ssh(site, family, "echo $SSH_CONNECTION")).stdout;
        let words: Vec<_> = told.split_whitespace().collect();
        let (peer, ours) = (family.peer().to_string(), family.ours().to_string());
        assert!(
            words.len() == 4 && words[0] == peer && words[2] == ours && words[3] == "22",
            "{told}"
        );
    }
}

/// A large file through `cat` at the other end, both ways at once.
fn there_and_back(site: &Site) {
    let (large, back) = (site.file("large"), site.file("back"));
    files::make(&large, 3, LARGE);
    let mut shell = Command::new("sh");
    let cat = ssh(site, Family::V4, "cat");
    shell
        .arg("-c")
        .arg("input=$1 output=$2; shift 2; exec \"$@\" < $input > $output");
    shell.arg("sh").arg(&large).arg(&back);
    shell.arg(cat.get_program()).args(cat.get_args());
    shell.stdin(Stdio::null());
    succeed(shell);
    same(&large, &back);
}

/// Sessions at once, each with an end and a status of its own.
fn many(site: &Site) {
    let sessions: Vec<Process> = (0..8)
        .map(|number| {
            Process::start(ssh(
                site,
                Family::V4,
                &format!("seq 1 20000; exit {number}"),
            ))
        })
        .collect();
    let all: String = (1..=20_000).map(|line| format!("{line}\n")).collect();
    for (number, session) in (0..).zip(sessions) {
        let finished = session.finish(WITHIN);
        assert_eq!(finished.status.code(), Some(number), "{finished}");
        assert!(finished.stdout == all, "session {number}");
    }
}

/// Sessions have their connections from sshd, which is killed and started again meanwhile.
#[test]
fn sessions_outlive_sshd() {
    let Some(host) = Host::new(&["sshd", "ssh", "ssh-keygen"]) else {
        return;
    };
    let site = &host.site;
    std::fs::create_dir_all("/run/sshd").unwrap();
    let words = format!("sshd -D -e -f {}", configuration(site));
    let server = site.start_ours(host.run("0", &words), 22);
    let go = site.file("go");
    let script = format!(
        "echo begun; while [ ! -e {} ]; do sleep 0.1; done; echo still there; seq 1 20000",
        spell(&go)
    );
    let mut session = Process::start(ssh(site, Family::V4, &script));
    session.wait_for("begun", WITHIN);
    site.kill_ours(server, 22);
    let _server = site.start_ours(host.run("0", &words), 22);
    let another = succeed(ssh(site, Family::V4, "echo another"));
    assert_eq!(another.stdout, "another\n");
    std::fs::write(go, "").unwrap();
    let all: String = (1..=20_000).map(|line| format!("{line}\n")).collect();
    let said = session.finish(WITHIN).must_succeed().stdout;
    assert!(said == format!("begun\nstill there\n{all}"), "{said:.200}");
}
