//! The end of a connection: CLOSE and ABORT (RFC 9293 §3.10.4, §3.10.5), and giving back what it
//! had.

use std::time::Duration;

use ring::stream::Status;
use wire::time::Instant;

use crate::error::Error;
use crate::flow::{self, FlowHash};
use crate::info::State;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::listen::Listeners;
use crate::tcp::option_sets::SetId;
use crate::tcp::time_wait::Rest;

impl Conn<'_> {
    /// The application reads no more.
    pub fn shutdown_read(&mut self) -> Result<(), Error> {
        self.cold.read_shut = true;
        Ok(())
    }

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
        let lost = self.sh.streams.recv_unread(self.slot) > 0;
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
            self.sh.streams.trim(self.slot, false);
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

    /// Both FINs are exchanged and we were first: 2 MSL follow, in a record of their own.
    pub fn enter_time_wait(&mut self) {
        self.finish(State::TimeWait);
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
            listeners.leave_backlog(self);
        } else {
            self.leave_orphans();
        }
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
        let left = conn.is_left_alone().then_some(conn.cold.options);
        if left.is_some() {
            conn.leave_lists(&mut self.listeners);
        }
        if !conn.has(Flags::DETACHED) {
            conn.detach();
            conn.leave_pending(now, &mut self.listeners);
            let (hash, rest) = (conn.hash, conn.time_wait(now));
            self.leave_flows(now, slot, hash, rest);
            self.strike_connection(slot);
        }
        if let Some(options) = left {
            self.release_slot(slot, options);
        }
    }

    /// Segments find a TIME_WAIT record instead, or nothing.
    fn leave_flows(&mut self, now: Instant, slot: u32, hash: FlowHash, rest: Option<Rest>) {
        let id = flow::id(flow::CONNECTION, slot);
        if !rest.is_some_and(|rest| self.start_time_wait(now, id, hash, &rest)) {
            self.flows.remove(hash, id);
        }
    }

    /// Frees the slot of a detached connection that nobody will ask for again.
    fn release_slot(&mut self, slot: u32, options: SetId) {
        // False only if the application has not released the streams as it must: then the slot
        // stays taken, and nothing is unsafe.
        if self.shared.streams.close(slot) {
            self.conns.free(slot);
            self.shared.options.release(options);
        }
    }
}
