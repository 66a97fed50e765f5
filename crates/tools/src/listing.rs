//! `mtcp sockets`: the sockets of a daemon, as ss(8) prints those of the kernel.

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::SocketAddr;

use clap::Args;
use control::message::{ClientRow, SocketRow};
use serde_json::json;

use crate::output;

const EXAMPLES: &str = "Examples:
  mtcp sockets                                all sockets of the daemon of this network namespace
  mtcp sockets -l                             those that listen
  mtcp sockets --daemon web --json            those of the daemon 'web', for programs";

const HEADER: [&str; 7] = [
    "Netid",
    "State",
    "Recv-Q",
    "Send-Q",
    "Local Address:Port",
    "Peer Address:Port",
    "Process",
];
/// The columns of numbers.
const RIGHT: [usize; 2] = [2, 3];
/// TCP_LISTEN.
const LISTEN: u8 = 10;

/// Prints the sockets of a daemon: a user's own; root and the daemon's own user see all.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SocketsArgs {
    /// The daemon of this name, or /DIRECTORY/NAME [default: that of this network namespace]
    #[arg(long, value_name = "NAME")]
    daemon: Option<String>,
    /// Print listeners only
    #[arg(short, long)]
    listening: bool,
    /// Print one JSON array instead of columns
    #[arg(long)]
    json: bool,
}

impl SocketsArgs {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let name = self.daemon.as_deref().unwrap_or_default();
        let session = mtcp::find_daemon(name).map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut sockets = session.sockets()?;
        sockets.retain(|one| !self.listening || one.state == LISTEN);
        let status = session.status()?;
        let programs = Programs::of(&status.clients);
        output::print_with(|out| match self.json {
            true => write_json(out, &sockets, &programs),
            false => write_columns(out, &sockets, &programs),
        })
    }
}

/// The names of programs, by process.
struct Programs<'a>(HashMap<u32, &'a str>);

impl<'a> Programs<'a> {
    fn of(clients: &'a [ClientRow]) -> Self {
        let named = clients.iter().map(|row| (row.pid, row.command.as_str()));
        Self(named.collect())
    }

    /// One that has gone since has none.
    fn name(&self, pid: u32) -> Option<&'a str> {
        self.0.get(&pid).copied()
    }
}

fn write_json(
    out: &mut dyn Write,
    sockets: &[SocketRow],
    programs: &Programs<'_>,
) -> io::Result<()> {
    let object = |row: &SocketRow| {
        json!({
            "state": state(row.state),
            "recv_q": row.receive_queue,
            "send_q": row.send_queue,
            "local": row.local.to_string(),
            "peer": (row.state != LISTEN).then(|| row.remote.to_string()),
            "uid": row.uid,
            "pid": (row.pid != 0).then_some(row.pid),
            "program": programs.name(row.pid),
        })
    };
    for (n, row) in sockets.iter().enumerate() {
        write!(out, "{}{}", if n == 0 { "[" } else { ",\n" }, object(row))?;
    }
    writeln!(out, "{}", if sockets.is_empty() { "[]" } else { "]" })
}

fn write_columns(
    out: &mut dyn Write,
    sockets: &[SocketRow],
    programs: &Programs<'_>,
) -> io::Result<()> {
    let header = HEADER.map(str::to_owned);
    let rows = sockets.iter().map(|row| cells(row, programs));
    let rows: Vec<_> = std::iter::once(header).chain(rows).collect();
    let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    for row in &rows {
        let mut line = String::new();
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            line += &match RIGHT.contains(&at) {
                true => format!("{cell:>width$} "),
                false => format!("{cell:<width$} "),
            };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn cells(row: &SocketRow, programs: &Programs<'_>) -> [String; 7] {
    let peer = match row.state {
        LISTEN => any_port(row.remote),
        _ => row.remote.to_string(),
    };
    let process = match (row.pid, programs.name(row.pid)) {
        (0, _) => String::new(),
        (pid, None) => format!("users:((pid={pid})) "),
        (pid, Some(name)) => format!("users:((\"{name}\",pid={pid})) "),
    };
    [
        "tcp".to_owned(),
        state(row.state).to_owned(),
        row.receive_queue.to_string(),
        row.send_queue.to_string(),
        row.local.to_string(),
        peer,
        format!("{process}uid:{}", row.uid),
    ]
}

fn any_port(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => format!("{}:*", v4.ip()),
        SocketAddr::V6(v6) => format!("[{}]:*", v6.ip()),
    }
}

/// As ss(8) calls it.
fn state(number: u8) -> &'static str {
    match number {
        1 => "ESTAB",
        2 => "SYN-SENT",
        3 | 12 => "SYN-RECV",
        4 => "FIN-WAIT-1",
        5 => "FIN-WAIT-2",
        6 => "TIME-WAIT",
        7 => "UNCONN",
        8 => "CLOSE-WAIT",
        9 => "LAST-ACK",
        LISTEN => "LISTEN",
        11 => "CLOSING",
        _ => "UNKNOWN",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: u8, local: &str, remote: &str) -> SocketRow {
        SocketRow {
            uid: 33,
            pid: 7,
            state,
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            receive_queue: 0,
            send_queue: 128,
        }
    }

    fn printed(
        write: impl Fn(&mut dyn Write, &[SocketRow], &Programs<'_>) -> io::Result<()>,
    ) -> String {
        let rows = [
            row(10, "0.0.0.0:80", "0.0.0.0:0"),
            row(10, "[::]:80", "[::]:0"),
            SocketRow {
                pid: 8,
                ..row(1, "10.0.0.2:80", "10.0.0.1:40000")
            },
            SocketRow {
                pid: 0,
                ..row(6, "[fd00::2]:80", "[fd00::1]:40000")
            },
        ];
        let programs = Programs(HashMap::from([(7, "nginx")]));
        let mut out = Vec::new();
        write(&mut out, &rows, &programs).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_those_of_ss() {
        let expected = "\
Netid State     Recv-Q Send-Q Local Address:Port Peer Address:Port Process
tcp   LISTEN         0    128 0.0.0.0:80         0.0.0.0:*         users:((\"nginx\",pid=7)) uid:33
tcp   LISTEN         0    128 [::]:80            [::]:*            users:((\"nginx\",pid=7)) uid:33
tcp   ESTAB          0    128 10.0.0.2:80        10.0.0.1:40000    users:((pid=8)) uid:33
tcp   TIME-WAIT      0    128 [fd00::2]:80       [fd00::1]:40000   uid:33
";
        assert_eq!(printed(write_columns), expected);
    }

    #[test]
    fn programs_read_json() {
        let text = printed(write_json);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value[0]["peer"], serde_json::Value::Null);
        assert_eq!(
            (&value[0]["state"], &value[0]["program"]),
            (&json!("LISTEN"), &json!("nginx"))
        );
        assert_eq!(
            (&value[3]["peer"], &value[3]["pid"]),
            (&json!("[fd00::1]:40000"), &json!(null))
        );
        let mut out = Vec::new();
        write_json(&mut out, &[], &Programs(HashMap::new())).unwrap();
        assert_eq!(out, b"[]\n");
    }
}
