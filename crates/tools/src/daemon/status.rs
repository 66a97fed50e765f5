//! Daemons and their programs, for people.

use std::fmt::Write as _;

use control::client::{self, Found, Session, Status};
use control::place::Place;
use control::server::DropReason;
use mtcp::service::build;

use crate::output;

/// All daemons in these places that answer.
pub(super) fn list(places: &[Place]) -> anyhow::Result<()> {
    let (mut count, mut text) = (0, String::new());
    for place in places {
        if !matches!(place.check(), Ok(true)) {
            continue;
        }
        for name in place.names() {
            match client::any_namespace(place, &name, &build()) {
                Ok(Found::Session(session)) => {
                    count += 1;
                    text += &describe(&session, &session.status()?);
                }
                Ok(Found::Nobody(_)) => {}
                Err(error) => text += &format!("{name}: {error}\n"),
            }
        }
    }
    if count == 0 {
        text += "no daemon runs that this user can reach\n";
    }
    output::print(&text)
}

/// The daemon of this name, and whom it turned away.
pub(super) fn of(places: &[Place], name: &str) -> anyhow::Result<()> {
    let mut failure = None;
    for place in places {
        match client::any_namespace(place, name, &build())? {
            Found::Session(session) => {
                let status = session.status()?;
                return output::print(&(describe(&session, &status) + &refusals(&status)));
            }
            Found::Nobody(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(()), |error| Err(error.into()))
}

fn describe(session: &Session, status: &Status) -> String {
    let welcome = session.welcome();
    let overview = &status.overview;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}: {}, process {}, mTCP {}, {}, {} s, {} programs attached",
        welcome.name,
        welcome.links,
        welcome.pid,
        welcome.build,
        welcome.namespace,
        overview.uptime,
        overview.attached,
    );
    for row in &status.clients {
        let _ = writeln!(
            text,
            "  {}: process {}, user {}, {} connections, {} listeners, {} events waiting, {} KB, {} s",
            row.command,
            row.pid,
            row.uid,
            row.connections,
            row.listeners,
            row.events,
            row.memory.div_ceil(1024),
            row.seconds,
        );
    }
    text
}

fn refusals(status: &Status) -> String {
    let counts = DropReason::ALL.iter().zip(status.overview.drops);
    let line = |(reason, count): (&DropReason, u64)| {
        (count > 0).then(|| format!("  turned away {count} times: {}\n", reason.text()))
    };
    counts.filter_map(line).collect()
}
