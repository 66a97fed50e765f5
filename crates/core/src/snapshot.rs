//! A stack that goes on in another process: what a daemon hands to the one that takes its place.

use std::io;

use ring::stream::{AppStreams, HomeMemory, HomePlan};
use wire::steering::Steering;
use wire::time::Instant;

use crate::config::Config;
use crate::stack::Stack;
use crate::tcp::Tcp;
use crate::tcp::saved::{self, Given, Saved};

/// All that a [`Stack`] knows of its connections, by value. It holds secrets, and the bytes of
/// connections whose streams are in the memory of the stack's own process.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub struct Snapshot {
    taken_at: Instant,
    tcp: Saved,
}

impl Stack {
    /// Copies all that is known of connections and listeners, for a stack in another process that
    /// goes on with them. `app` is the application's end of the streams. This stack is as before,
    /// and may go on if the other does not: only one of them may.
    ///
    /// Neighbours, path MTUs and Fast Open cookies of servers are not in it: they are learnt anew.
    ///
    /// # Errors
    /// `Unsupported`: several stacks share these addresses.
    pub fn save(&mut self, now: Instant, app: &mut AppStreams) -> io::Result<Snapshot> {
        Ok(Snapshot {
            taken_at: now,
            tcp: saved::save(&mut self.tcp, app)?,
        })
    }

    /// The stack that goes on where another was [saved](Self::save), with all its ids, and the
    /// application's end of its streams. Time goes on, too: the clock is that of the stack before,
    /// and no earlier than [`Snapshot::taken_at`]. The secrets are that stack's. `steering`, if
    /// there is one, is told of each flow; `homes` is the memory of programs, by the numbers of
    /// their homes.
    ///
    /// # Errors
    /// As [`Stack::new`]; `InvalidData`: the snapshot contradicts itself, or is more than `config`
    /// has room for.
    pub fn restore(
        config: Config,
        snapshot: Snapshot,
        homes: &[(u32, HomeMemory)],
        steering: Option<Box<dyn Steering>>,
    ) -> io::Result<(Self, AppStreams)> {
        let Snapshot { taken_at, tcp } = snapshot;
        let config = tcp.with_secrets(config);
        config.check()?;
        let (mut stack, mut app) = Tcp::new(config, None)?;
        let given = Given { homes, steering };
        saved::restore(&mut stack, &mut app, taken_at, tcp, given)?;
        Ok((Self { tcp: stack }, app))
    }
}

impl Snapshot {
    /// When it was taken.
    pub fn taken_at(&self) -> Instant {
        self.taken_at
    }

    /// The homes of programs: their numbers, and what their memory was made with.
    pub fn homes(&self) -> impl Iterator<Item = (u32, HomePlan)> {
        self.tcp.homes()
    }
}
