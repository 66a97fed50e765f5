//! The end of a connection: CLOSE and ABORT (RFC 9293 §3.10.4, §3.10.5), and giving back what it
//! had.

use std::time::Duration;

use ring::stream::Status;
use wire::time::Instant;

use crate::command::Reply;
use crate::error::Error;
use crate::flow::{self, FlowKey};
use crate::id::{ConnId, PortId};
use crate::info::State;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::connect::{leave_pending, release_syn};
use crate::tcp::flags::Flags;
use crate::tcp::option_sets::SetId;
use crate::tcp::output::plan_next;
use crate::tcp::segment::Segment;
use crate::tcp::setup::{Before, Listeners};
use crate::tcp::step::{Step, Stop};
use crate::tcp::tcb::Hot;
use crate::tcp::teardown::{Facts, Rest, TimeWait, one_too_many, since};

/// Our side sends no more after what is written: CLOSE of RFC 9293 §3.10.4, or half of it.
pub(crate) fn shutdown(conn: &mut Conn<'_>) -> Result<(), Error> {
    match conn.hot.state {
        State::Closed | State::Listen => return Err(Error::NotConnected),
        State::SynSent | State::SynReceived => {
            queue_fin(conn);
            release_syn(conn);
        }
        State::Established => {
            queue_fin(conn);
            conn.hot.state = State::FinWait1;
        }
        State::CloseWait => {
            queue_fin(conn);
            conn.hot.state = State::LastAck;
        }
        // Done already.
        _ => return Ok(()),
    }
    conn.mark_output();
    Ok(())
}

/// Behind what has been written, the FIN.
fn queue_fin(conn: &mut Conn<'_>) {
    if !conn.has(Flags::FIN_QUEUED) {
        conn.hot.snd.fin_seq = conn.send_view().stream_end();
        conn.send_part().end_urgent();
        conn.set(Flags::FIN_QUEUED);
        conn.add_status(Status::WRITE_CLOSED);
    }
}

/// The application is done with both directions.
/// RFC 9293 MAY-1, SHLD-3.
pub(crate) fn close(conn: &mut Conn<'_>, now: Instant) {
    conn.set(Flags::APP_CLOSED);
    if conn.hot.state.is_over() {
        return;
    }
    let lost = conn.sh.streams.recv_unread(conn.stream) > 0;
    let hard = conn.options().linger == Some(Duration::ZERO);
    if conn.hot.state == State::SynSent {
        conn.hot.state = State::Closed;
    } else if lost || hard {
        // RFC 9293 §3.10.4 and RFC 2525 §2.17: unread data is lost data, and the peer must
        // know.
        conn.abort(now);
    } else {
        // All was read, and nobody will read more: the memory, still in the cache, is for the
        // next connection. What is held out of order goes, too: what would fill the gap is
        // answered with a reset.
        conn.sh.streams.trim(conn.stream, false);
        let _ = shutdown(conn);
        if conn.hot.state == State::FinWait2 {
            conn.start_fin_wait_2(now);
        }
    }
}

/// Gives back what only a connection has that goes on.
fn detach(conn: &mut Conn<'_>) {
    conn.lists().leave_all();
    conn.receive().forget_held();
    conn.loss().forget();
    let id = conn.timer_id();
    conn.sh.wheel.cancel(id);
    conn.set(Flags::DETACHED);
}

/// Whether nobody will ask for it again: the application closed it, or never heard of it.
fn is_left_alone(conn: &Conn<'_>) -> bool {
    let unknown = conn.has(Flags::UNANNOUNCED) && conn.hot.state == State::Closed;
    conn.has(Flags::APP_CLOSED) || unknown
}

/// Off the lists of those that the application may ask for.
fn leave_lists(conn: &mut Conn<'_>, listeners: &mut Listeners) {
    conn.sh.queues.remove_news(conn.place);
    if conn.has(Flags::BACKLOG) {
        leave_backlog(conn, listeners);
    } else if conn.has(Flags::APP_CLOSED) {
        conn.sh.queues.remove_orphan(conn.place);
    }
}

/// Leaves the backlog of its listener.
pub(crate) fn leave_backlog(conn: &mut Conn<'_>, listeners: &mut Listeners) {
    let links = &mut conn.sh.queues.backlog;
    listeners.leave_backlog(conn.cold.listener, links, conn.place);
}

/// What is left of it, if its state is TIME_WAIT.
fn time_wait(hot: &Hot, key: &FlowKey, owner: u32, now: Instant) -> Option<Rest> {
    let mut facts = Facts::LIVE;
    facts.set(Facts::TIMESTAMPS, hot.has(Flags::TIMESTAMPS));
    (hot.state == State::TimeWait).then(|| Rest {
        record: TimeWait {
            key: *key,
            snd_nxt: hot.snd.nxt,
            rcv_nxt: hot.rcv.nxt,
            ts_recent: hot.ts_recent,
            since: since(now),
            due: 0,
            window: u16::try_from(hot.rcv_wnd() >> hot.rcv_wscale).unwrap_or(u16::MAX),
            port: hot.port,
            facts,
        },
        owes_ack: hot.has(Flags::ACK_NOW),
        owner,
    })
}

/// Whether the end that CLOSE brings is a RST, and there is something to send before it.
fn has_last_words(conn: &mut Conn<'_>, now: Instant) -> bool {
    conn.has(Flags::ON_DATA)
        && conn.sh.streams.recv_unread(conn.stream) > 0
        && conn.options().linger != Some(Duration::ZERO)
        && plan_next(conn, now).is_some()
}

impl Tcp {
    /// Gives back what a connection whose TCP is done had, its place in the flow table too, where a
    /// TIME_WAIT record may take it; and the slot, if the application is done with it.
    pub fn settle(&mut self, now: Instant, slot: u32) {
        let Some(mut conn) = self.conns.view(slot, &mut self.shared) else {
            return;
        };
        if !conn.is_over() {
            return;
        }
        let left = is_left_alone(&conn).then_some((conn.stream, conn.cold.options));
        if left.is_some() {
            leave_lists(&mut conn, &mut self.setup.listeners);
        }
        if !conn.has(Flags::DETACHED) {
            detach(&mut conn);
            leave_pending(&mut conn, now, &mut self.setup.listeners);
            let owner = self.home_owners.of(conn.sh.streams.home_of(conn.stream));
            let rest = time_wait(conn.hot, conn.key, owner, now);
            let (key, hash) = (*conn.key, conn.hash);
            let id = flow::id(flow::CONNECTION, slot);
            // Segments find a TIME_WAIT record instead, or nothing.
            if !rest.is_some_and(|rest| self.time_waits().start(now, id, hash, &rest)) {
                self.flows.remove(hash, id);
                self.flows.leave(&key);
            }
            self.survivors.strike_connection(slot);
        }
        if let Some((stream, options)) = left {
            self.release_slot(slot, stream, options);
        }
    }

    /// Frees the slot of a detached connection that nobody will ask for again.
    fn release_slot(&mut self, slot: u32, stream: u32, options: SetId) {
        // False only if the application has not released the streams as it must: then the slot
        // stays taken, and nothing is unsafe.
        if self.shared.streams.close(stream) {
            if stream != slot {
                self.conns.set_stream(slot, slot);
            }
            self.conns.free(slot);
            self.shared.options.release(options);
        }
    }

    /// CLOSE.
    pub fn close(&mut self, now: Instant, id: ConnId) -> Result<Reply, Error> {
        let mut conn = self.live(id)?;
        if has_last_words(&mut conn, now) {
            conn.set(Flags::APP_CLOSED);
            self.closing_with_reset.push(id);
            return Ok(Reply::Done);
        }
        close(&mut conn, now);
        if conn.is_over() {
            self.settle(now, id.slot);
        } else {
            // Of a connection in a backlog the links are in use: its listener ends it.
            conn.sh.queues.push_orphan(conn.place);
            self.limit_orphans(now);
        }
        Ok(Reply::Done)
    }

    /// Ends those that have had their turn on this port.
    pub fn part(&mut self, now: Instant, port: PortId) {
        let mut at = 0;
        loop {
            let (conns, shared) = (&mut self.conns, &mut self.shared);
            let ready = |id| {
                conns
                    .live(id, shared)
                    .is_none_or(|conn| conn.hot.port == port)
            };
            let Some(id) = self.closing_with_reset.take(&mut at, ready) else {
                return;
            };
            if let Ok(mut conn) = self.live(id)
                && !conn.hot.state.is_over()
            {
                conn.abort(now);
                self.settle(now, id.slot);
            }
        }
    }

    /// One orphan more: is it one too many?
    fn limit_orphans(&mut self, now: Instant) {
        let (conns, queues) = (&self.conns, &mut self.shared.queues);
        let most = self.shared.config.max_orphans;
        let place = one_too_many(queues, most, |place| conns.is_unanswered(place));
        if let Some(place) = place
            && let Some(mut conn) = self.conns.at(place, &mut self.shared)
        {
            conn.sh.counters.orphans_evicted += 1;
            conn.abort(now);
            let slot = conn.slot();
            self.settle(now, slot);
        }
    }

    /// A segment for a connection in TIME_WAIT (RFC 9293 §3.10.7.4).
    /// RFC 1337 §3-2.
    pub fn on_time_wait(&mut self, now: Instant, slot: u32, seg: &Segment<'_>) -> Step {
        if self.time_waits().may_reopen(slot, seg)
            && let Some(listener) = self.setup.listeners.find(seg.key.local(), seg.origin)
        {
            return self.reopen(now, slot, listener, seg);
        }
        self.time_waits().on_segment(now, slot, seg)
    }

    /// The SYN opens the next connection.
    fn reopen(&mut self, now: Instant, slot: u32, listener: u32, seg: &Segment<'_>) -> Step {
        let has_stamps = self.shared.config.timestamps && seg.options.timestamps.is_some();
        let before = self.time_wait.at(slot).map(|record| Before {
            end: record.snd_nxt,
            timestamps: has_stamps && record.has(Facts::TIMESTAMPS),
        });
        self.setup().admit(listener, before.as_ref())?;
        self.time_waits().end(slot);
        self.open_half(now, listener, seg, before)
            .map_err(Stop::Drop)
    }
}
