//! The conformance programs of `tests/c`, in both modes.

use crate::support::{Lab, compile, run};

const MODES: [&str; 2] = ["mode = paired", "mode = inline"];

#[test]
fn each_call_without_a_peer() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("tests/c/alone.c", dir.path());
    for mode in MODES {
        let lab = Lab::new();
        let conf = lab.conf("alone.conf", 2, mode);
        run(lab.command(&program).arg(conf));
        let modern = format!("{mode}\nstrict_options = yes\none_event_per_entry = no");
        let conf = lab.conf("modern.conf", 2, &modern);
        run(lab.command(&program).arg(conf).arg("modern"));
    }
}

#[test]
fn every_option_as_the_kernel_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("tests/c/options.c", dir.path());
    let lab = Lab::new();
    let conf = lab.conf("options.conf", 2, "strict_options = yes");
    if let Some(mut command) = lab.beside_kernel(&program) {
        run(command.arg(conf));
    }
}

#[test]
fn threads_and_signals() {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("tests/c/threads.c", dir.path());
    for mode in MODES {
        let lab = Lab::new();
        let conf = lab.conf("threads.conf", 2, mode);
        run(lab.command(&program).arg(conf));
    }
}

fn pair(server_address: &str) {
    let dir = tempfile::tempdir().unwrap();
    let program = compile("tests/c/pair.c", dir.path());
    for server in MODES {
        for client in MODES {
            let lab = Lab::new();
            let server = lab.conf("server.conf", 2, server);
            let client = lab.conf("client.conf", 3, client);
            if let Some(mut command) = lab.beside_kernel(&program) {
                run(command.arg(server).arg(client).arg(server_address));
            }
        }
    }
}

#[test]
fn connections_over_ipv4() {
    pair("10.0.0.2");
}

#[test]
fn connections_over_ipv6() {
    pair("fd00::2");
}

/// The stack is a daemon's: programs notice nothing.
#[test]
fn on_the_stack_of_a_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let [alone, pair] = ["alone", "pair"].map(|name| {
        let source = format!("tests/c/{name}.c");
        compile(&source, dir.path())
    });
    let lab = Lab::new();
    let Some((_daemon, attached)) = lab.daemon(2) else {
        return;
    };
    run(lab.command(&alone).arg(&attached));
    let other = lab.conf("other.conf", 3, "");
    for (server, client, address) in [
        (&attached, &other, "10.0.0.2"),
        (&attached, &other, "fd00::2"),
        (&other, &attached, "10.0.0.3"),
    ] {
        let mut command = lab.command(&pair);
        run(command.arg(server).arg(client).arg(address));
    }
}
