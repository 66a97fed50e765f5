//! Connections whose bytes lie in memory of other processes.

use ring::stream::{AppStreams, StreamError, slot_in_home};
use wire::time::Instant;

use crate::error::Error;
use crate::id::ConnId;
use crate::tcp::Tcp;

/// Connections of programs in other processes, for one step.
#[derive(Debug)]
pub struct Programs<'a>(pub &'a mut Tcp);

impl Programs<'_> {
    /// Closes what the program of a home had. Looks at each slot there that was ever used.
    pub fn app_gone(&mut self, now: Instant, home: u32) {
        self.0.shared.streams.homes().app_gone(home);
        for listener in self.0.setup.listeners.of_home(home) {
            // It is there.
            let _ = self.0.unlisten(now, listener, false);
        }
        for slot in self.0.shared.streams.homes().owners(home) {
            // What was closed before may wait for nothing but that the streams are released.
            let _ = self.0.close(now, self.0.conns.id_of(slot));
            self.0.settle(now, slot);
        }
    }

    /// A connection that no application holds goes on in another home, with all that it has
    /// received. Where bytes were written that the peer has not acknowledged, `writer` writes them
    /// again: it is that of home 0, and has the connection then.
    pub fn move_streams(
        &mut self,
        id: ConnId,
        home: u32,
        writer: Option<&mut AppStreams>,
    ) -> Result<(), Error> {
        let conn = self.0.live(id)?;
        let from = conn.stream;
        let streams = &mut self.0.shared.streams;
        if !streams.app_released(from) {
            return Err(Error::NoMemory);
        }
        let len = streams.send_len(from);
        if len > 0 && writer.is_none() {
            return Err(Error::Invalid);
        }
        let written = streams.peek(from, 0, len).to_vec();
        let limits = streams.homes().limits(from).ok_or(Error::BadId)?;
        let to = self.0.shared.reserve(home, id.slot, limits);
        let to = to.map_err(|_| Error::NoMemory)?;
        let streams = &mut self.0.shared.streams;
        let moved = streams
            .homes()
            .copy_received(from, to)
            .and_then(|()| match writer {
                None => Ok(()),
                Some(app) => {
                    streams.grant(to)?;
                    if app.write(to, &written) == written.len() {
                        return Ok(());
                    }
                    app.release(to);
                    Err(StreamError::NoMemory)
                }
            });
        if moved.is_err() {
            streams.turn_to(to);
            streams.close(to);
            return Err(Error::NoMemory);
        }
        streams.turn_to(from);
        streams.close(from);
        self.0.conns.set_stream(id.slot, to);
        self.0.live(id)?.bound_unsent();
        Ok(())
    }
}

/// The home of a connection, and its slot there.
pub fn stream_of(tcp: &Tcp, conn: ConnId) -> Option<(u32, u32)> {
    let is_live = tcp.conns.slots.is_live(conn.slot, conn.generation);
    let stream = is_live.then(|| tcp.conns.stream(conn.slot))?;
    Some(match tcp.shared.streams.home_of(stream) {
        0 => (0, stream),
        home => (home, slot_in_home(stream)),
    })
}
