//! The end of a connection: CLOSE and ABORT (RFC 9293 §3.10.4, §3.10.5), and giving back what it had.

use std::time::Duration;

use ring::stream::Status;
use wire::time::Instant;

use crate::error::Error;
use crate::flow;
use crate::info::State;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::tcb::Flags;

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
            self.hot.fin_seq = self.stream_end();
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
            // RFC 9293 §3.10.4 and RFC 2525 §2.17: unread data is lost data, and the peer must know.
            self.abort(now);
        } else {
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

    /// RFC 9293 leaves FIN_WAIT_2 open-ended; without an application nobody would ever end it.
    pub fn start_fin_wait_2(&mut self, now: Instant) {
        if !self.has(Flags::APP_CLOSED) {
            return;
        }
        let time = self.options().fin_wait_2;
        let time = time.unwrap_or(self.sh.config.fin_wait_2);
        if time.is_zero() {
            self.finish(State::Closed);
            return;
        }
        self.cold.fin_wait_2_at = now + time;
        self.set(Flags::COLD_TIMERS);
        self.wake_at(self.cold.fin_wait_2_at);
    }

    /// Whether TCP is done with it: [`Tcp::settle`] has to follow. Asked after everything that happens to it.
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
}

impl Tcp {
    /// Gives back what a connection whose TCP is done had, its place in the flow table too, where a TIME_WAIT record may take it; and the slot,
    /// if the application is done with it.
    pub fn settle(&mut self, now: Instant, slot: u32) {
        let Some(mut conn) = self.conns.view(slot, &mut self.shared) else {
            return;
        };
        if !conn.is_over() {
            return;
        }
        if !conn.has(Flags::DETACHED) {
            conn.unqueue();
            conn.forget_held();
            conn.forget_scoreboard();
            conn.forget_sent_log();
            conn.forget_rates();
            conn.forget_doubt();
            let id = conn.timer_id();
            conn.sh.wheel.cancel(id);
            conn.set(Flags::DETACHED);
            let (hash, waits) = (conn.hash, conn.hot.state == State::TimeWait);
            if !(waits && self.start_time_wait(now, slot)) {
                self.flows.remove(hash, flow::id(flow::CONNECTION, slot));
            }
            self.strike_connection(slot);
            self.leave_pending(now, slot);
        }
        self.release_slot(slot);
    }

    /// Frees the slot of a detached connection if nobody will ask for it again: the application closed it, or never heard of it.
    fn release_slot(&mut self, slot: u32) {
        let Some(mut conn) = self.conns.view(slot, &mut self.shared) else {
            return;
        };
        let unknown = conn.has(Flags::UNANNOUNCED) && conn.hot.state == State::Closed;
        if !(conn.has(Flags::APP_CLOSED) || unknown) {
            return;
        }
        let options = conn.cold.options;
        conn.sh.queues.remove_news(conn.place);
        if conn.has(Flags::BACKLOG) {
            self.listeners.leave_backlog(&mut conn);
        }
        // False only if the application has not released the streams as it must: then the slot stays taken, and nothing is unsafe.
        if self.shared.streams.close(slot) {
            self.conns.free(slot);
            self.shared.options.release(options);
        }
    }
}
