//! The daemon's own lines in a settings file.

use rustix::io::Errno;

use super::parse::{Addresses, Names, Ports, Who, amount, list};
use super::{ConnectRule, ListenRule, Policy};
use crate::Error;

/// A line that a settings file may have.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value looks like.
    pub syntax: &'static str,
    /// What counts without one.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
    set: fn(&mut Settings, &str, &dyn Names) -> Result<(), String>,
}

/// What a settings file says to the daemon itself.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// Who may use what.
    pub policy: Policy,
    /// Whom the daemon becomes.
    pub user: Option<String>,
    /// The other lines, which are the stack's (`mtcp.conf`), under the numbers that they had.
    pub others: String,
}

/// All keys.
pub const KEYS: &[Key] = &[
    Key {
        name: "user",
        syntax: "USER",
        default: "who starts it",
        doc: "Whom the daemon becomes before it opens its links.",
        set: |settings, value, _| {
            settings.user = Some(value.to_owned());
            Ok(())
        },
    },
    Key {
        name: "attach",
        syntax: "WHO",
        default: "everyone",
        doc: "Who may use the daemon; the line may be repeated.",
        set: |settings, value, names| {
            settings.policy.attach.extend(whom(value, names)?);
            Ok(())
        },
    },
    Key {
        name: "listen",
        syntax: "WHO ADDRESSES PORTS",
        default: "none",
        doc: "Ports where only root and those listen whom such lines name for them. Of the others, those below \
              net.ipv4.ip_unprivileged_port_start are root's, the rest everyone's.",
        set: |settings, value, names| {
            let [who, addresses, ports] = words(value, "WHO ADDRESSES PORTS")?;
            settings.policy.listen.push(ListenRule {
                who: whom(who, names)?,
                addresses: list(addresses, Addresses::parse)?,
                ports: list(ports, Ports::parse)?,
            });
            Ok(())
        },
    },
    Key {
        name: "connect",
        syntax: "WHO ADDRESSES",
        default: "none",
        doc: "Addresses of ours from which only root and those connect whom such lines name for them.",
        set: |settings, value, names| {
            let [who, addresses] = words(value, "WHO ADDRESSES")?;
            settings.policy.connect.push(ConnectRule {
                who: whom(who, names)?,
                addresses: list(addresses, Addresses::parse)?,
            });
            Ok(())
        },
    },
    Key {
        name: "connections",
        syntax: "WHO NUMBER",
        default: "65536",
        doc: "Connections of one program, 65536 at most; a stack has room for four times as many (`max_concurrency`).",
        set: |settings, value, names| {
            settings
                .policy
                .budgets
                .connections
                .push(limit(value, names)?);
            Ok(())
        },
    },
    Key {
        name: "listeners",
        syntax: "WHO NUMBER",
        default: "1024",
        doc: "Listeners of one program.",
        set: |settings, value, names| {
            settings.policy.budgets.listeners.push(limit(value, names)?);
            Ok(())
        },
    },
    Key {
        name: "memory",
        syntax: "WHO BYTES",
        default: "256M",
        doc: "Shared memory of one program.",
        set: |settings, value, names| {
            settings.policy.budgets.memory.push(limit(value, names)?);
            Ok(())
        },
    },
    Key {
        name: "events",
        syntax: "WHO NUMBER",
        default: "65536",
        doc: "Events that wait for one program.",
        set: |settings, value, names| {
            settings.policy.budgets.events.push(limit(value, names)?);
            Ok(())
        },
    },
    Key {
        name: "programs",
        syntax: "WHO NUMBER",
        default: "256",
        doc: "Programs of one user that are connected to the daemon.",
        set: |settings, value, names| {
            settings.policy.budgets.programs.push(limit(value, names)?);
            Ok(())
        },
    },
];

impl Settings {
    /// Reads a settings file: `key = value` or `key value` in a line, `#` begins a comment, as in
    /// `mtcp.conf`. `file` is for messages.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn read(text: &str, file: &str, names: &dyn Names) -> Result<Self, Error> {
        let mut settings = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let (name, value) = entry(line);
            match KEYS.iter().find(|key| key.name == name) {
                Some(key) => {
                    settings.set(key, value, names).map_err(|error| {
                        Error::new(Errno::INVAL, format!("{file}:{number}: {name}"), error)
                    })?;
                    settings.others.push('\n');
                }
                None => {
                    settings.others.push_str(line);
                    settings.others.push('\n');
                }
            }
        }
        Ok(settings)
    }

    fn set(&mut self, key: &Key, value: &str, names: &dyn Names) -> Result<(), String> {
        if value.is_empty() {
            return Err(format!("has no value: write {} = {}", key.name, key.syntax));
        }
        (key.set)(self, value, names)
    }
}

/// Key and value of a line; empty where it has none.
fn entry(line: &str) -> (&str, &str) {
    let line = line.split('#').next().unwrap_or_default().trim();
    let end = line
        .find(|char: char| char == '=' || char.is_whitespace())
        .unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    (key, rest.strip_prefix('=').unwrap_or(rest).trim())
}

/// Exactly so many words.
fn words<'a, const N: usize>(value: &'a str, syntax: &str) -> Result<[&'a str; N], String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    words
        .try_into()
        .map_err(|_| format!("'{value}' is not {syntax}"))
}

fn whom(word: &str, names: &dyn Names) -> Result<Vec<Who>, String> {
    let [word] = words(
        word,
        "WHO, such as everyone, none, USER, @GROUP, or several with commas",
    )?;
    list(word, |word| Who::parse(word, names))
}

fn limit(value: &str, names: &dyn Names) -> Result<(Vec<Who>, u64), String> {
    let [who, most] = words(value, "WHO NUMBER")?;
    Ok((whom(who, names)?, amount(most)?))
}
