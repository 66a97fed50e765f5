//! The end of a connection: CLOSE and ABORT (RFC 9293 §3.10.4, §3.10.5), and giving back what it
//! had.

use std::time::Duration;

use ring::stream::Status;
use wire::tcp::Timestamps;
use wire::time::Instant;

use crate::command::Reply;
use crate::error::Error;
use crate::flow;
use crate::id::{ConnId, PortId};
use crate::info::State;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::option_sets::SetId;
use crate::tcp::segment::Segment;
use crate::tcp::setup::{Before, Listeners};
use crate::tcp::step::{Step, Stop};
use crate::tcp::teardown::{Facts, Rest, TimeWait, one_too_many, reset_of, since};

impl Conn<'_> {
    /// Our side sends no more after what is written: CLOSE of RFC 9293 §3.10.4, or half of it.
    pub fn shutdown(&mut self) -> Result<(), Error> {
        match self.hot.state {
            State::Closed | State::Listen => return Err(Error::NotConnected),
            State::SynSent | State::SynReceived => {
                self.queue_fin();
                self.release_syn();
            }
            State::Established => {
                self.queue_fin();
                self.hot.state = State::FinWait1;
            }
            State::CloseWait => {
                self.queue_fin();
                self.hot.state = State::LastAck;
            }
            // Done already.
            _ => return Ok(()),
        }
        self.mark_output();
        Ok(())
    }

    /// Behind what has been written, the FIN.
    fn queue_fin(&mut self) {
        if !self.has(Flags::FIN_QUEUED) {
            self.hot.snd.fin_seq = self.send_view().stream_end();
            self.set(Flags::FIN_QUEUED);
            self.add_status(Status::WRITE_CLOSED);
        }
    }

    /// The application is done with both directions.
    /// RFC 9293 MAY-1, SHLD-3.
    pub fn close(&mut self, now: Instant) {
        self.set(Flags::APP_CLOSED);
        if self.hot.state.is_over() {
            return;
        }
        let lost = self.sh.streams.recv_unread(self.stream) > 0;
        let hard = self.options().linger == Some(Duration::ZERO);
        if self.hot.state == State::SynSent {
            self.hot.state = State::Closed;
        } else if lost || hard {
            // RFC 9293 §3.10.4 and RFC 2525 §2.17: unread data is lost data, and the peer must
            // know.
            self.abort(now);
        } else {
            // All was read, and nobody will read more: the memory, still in the cache, is for the
            // next connection. What is held out of order goes, too: what would fill the gap is
            // answered with a reset.
            self.sh.streams.trim(self.stream, false);
            let _ = self.shutdown();
            if self.hot.state == State::FinWait2 {
                self.start_fin_wait_2(now);
            }
        }
    }

    /// ABORT.
    pub fn abort(&mut self, now: Instant) {
        self.send_reset(now);
        self.hot.state = State::Closed;
    }

    /// RFC 9293 leaves FIN_WAIT_2 open-ended; without an application nobody would ever end it. As
    /// on Linux, one that may not last at all (TCP_LINGER2 below zero) ends with a reset.
    pub fn start_fin_wait_2(&mut self, now: Instant) {
        if !self.has(Flags::APP_CLOSED) {
            return;
        }
        let time = self.options().fin_wait_2;
        let time = time.unwrap_or(self.sh.config.fin_wait_2);
        if time.is_zero() {
            self.abort(now);
            return;
        }
        self.cold.fin_wait_2_at = now + time;
        self.set(Flags::COLD_TIMERS);
        self.wake_at(self.cold.fin_wait_2_at);
    }

    /// Whether TCP is done with it: [`Tcp::settle`] has to follow. Asked after everything that
    /// happens to it.
    pub fn is_over(&self) -> bool {
        let is_over = self.hot.state.is_over();
        if !is_over {
            self.check_invariants();
        }
        is_over
    }

    /// Gives back what only a connection has that goes on.
    fn detach(&mut self) {
        self.lists().leave_all();
        self.receive().forget_held();
        self.loss().forget();
        let id = self.timer_id();
        self.sh.wheel.cancel(id);
        self.set(Flags::DETACHED);
    }

    /// Whether nobody will ask for it again: the application closed it, or never heard of it.
    fn is_left_alone(&self) -> bool {
        let unknown = self.has(Flags::UNANNOUNCED) && self.hot.state == State::Closed;
        self.has(Flags::APP_CLOSED) || unknown
    }

    /// Off the lists of those that the application may ask for.
    fn leave_lists(&mut self, listeners: &mut Listeners) {
        self.sh.queues.remove_news(self.place);
        if self.has(Flags::BACKLOG) {
            self.leave_backlog(listeners);
        } else if self.has(Flags::APP_CLOSED) {
            self.sh.queues.remove_orphan(self.place);
        }
    }

    /// Leaves the backlog of its listener.
    pub fn leave_backlog(&mut self, listeners: &mut Listeners) {
        let links = &mut self.sh.queues.backlog;
        listeners.leave_backlog(self.cold.listener, links, self.place);
    }

    /// The RST of ABORT, unless the peer has not heard of the connection.
    pub fn send_reset(&mut self, now: Instant) {
        if !self.hot.state.is_synchronized() && self.hot.state != State::SynReceived {
            return;
        }
        if self.has(Flags::DETACHED) {
            return;
        }
        let timestamps = self.has(Flags::TIMESTAMPS).then(|| Timestamps {
            tsval: self.tsval(now),
            tsecr: self.hot.ts_recent,
        });
        let header = reset_of(self.hot.snd.nxt, self.hot.rcv.nxt, timestamps);
        self.sh.send_bare(self.key, &header);
        self.sh.counters.resets_out += 1;
    }

    /// What is left of it, if its state is TIME_WAIT.
    fn time_wait(&self, now: Instant) -> Option<Rest> {
        let hot = &*self.hot;
        let mut facts = Facts::LIVE;
        facts.set(Facts::TIMESTAMPS, hot.has(Flags::TIMESTAMPS));
        (hot.state == State::TimeWait).then(|| Rest {
            record: TimeWait {
                key: *self.key,
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
        })
    }

    /// Whether the end that CLOSE brings is a RST, and there is something to send before it.
    fn has_last_words(&mut self, now: Instant) -> bool {
        self.has(Flags::ON_DATA)
            && self.sh.streams.recv_unread(self.stream) > 0
            && self.options().linger != Some(Duration::ZERO)
            && self.plan(now).is_some()
    }
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
        let left = conn
            .is_left_alone()
            .then_some((conn.stream, conn.cold.options));
        if left.is_some() {
            conn.leave_lists(&mut self.setup.listeners);
        }
        if !conn.has(Flags::DETACHED) {
            conn.detach();
            conn.leave_pending(now, &mut self.setup.listeners);
            let (key, hash, rest) = (*conn.key, conn.hash, conn.time_wait(now));
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
        if conn.has_last_words(now) {
            conn.set(Flags::APP_CLOSED);
            self.closing_with_reset.push(id);
            return Ok(Reply::Done);
        }
        conn.close(now);
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
