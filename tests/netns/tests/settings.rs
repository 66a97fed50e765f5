//! The settings of the namespace are there, whatever the machine's are.
#![allow(clippy::unwrap_used)] // tests

use std::io::Write;
use std::process::Command;

/// What a program says there.
fn said(words: &[&str]) -> Option<String> {
    match netns::command(words[0]) {
        Ok(mut command) => Some(text(command.args(&words[1..]))),
        Err(reason) => {
            let _ = writeln!(std::io::stdout(), "\nskipped: {reason}"); // println! would be captured
            None
        }
    }
}

fn text(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_program_has_linuxs_own_settings() {
    for (key, value) in netns::SETTINGS {
        let file = format!("/proc/sys/net/{key}");
        // Some are newer than this kernel.
        let Some(found) = said(&["sh", "-c", &format!("cat {file} || echo {value}")]) else {
            return;
        };
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(words(&found), words(value), "{key}");
    }
}

#[test]
fn a_program_can_talk_to_itself() {
    if let Some(links) = said(&["ip", "-o", "link", "show", "lo"]) {
        assert!(links.contains("UP"), "{links}");
    }
}
