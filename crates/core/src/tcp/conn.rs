//! One connection, as the protocol steps see it: a view of its columns and of what all share.

use ring::stream::Status;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::command::Options;
use crate::drops::DropReason;
use crate::event::Ready;
use crate::flow::{self, FlowHash, FlowKey};
use crate::id::Token;
use crate::info::State;
use crate::tcp::clock::near;
use crate::tcp::ecn::{EcnPart, EcnView};
use crate::tcp::flags::{Bits, EcnFlags, Flags, LossFlags, PathFlags, ReceiveFlags, SendFlags};
use crate::tcp::lists::Lists;
use crate::tcp::loss::{Loss, LossActions, LossView};
use crate::tcp::path::{PathPart, PathView};
use crate::tcp::queues::Output;
use crate::tcp::receive::{Receive, ReceiveActions, ReceiveView};
use crate::tcp::segment::Segment;
use crate::tcp::send::{SendActions, SendPart, SendView};
use crate::tcp::setup::{OpenPart, OpenView};
use crate::tcp::shared::Shared;
use crate::tcp::tcb::{Cold, Hot};

/// One connection and what it shares with all others.
#[derive(Debug)]
pub(crate) struct Conn<'a> {
    /// Its slot in the byte streams.
    pub stream: u32,
    /// Where its control block is.
    pub place: u32,
    pub hot: &'a mut Hot,
    pub cold: &'a mut Cold,
    pub key: &'a FlowKey,
    /// Of the key, in the flow table.
    pub hash: FlowHash,
    pub sh: &'a mut Shared,
}

impl Conn<'_> {
    /// What everyone else calls it: the same, where its bytes are in this process.
    #[inline(always)]
    pub fn slot(&self) -> u32 {
        self.sh.streams.owner_of(self.stream)
    }

    pub fn timer_id(&self) -> u32 {
        flow::id(flow::CONNECTION, self.slot())
    }

    pub fn has(&self, flags: Flags) -> bool {
        self.hot.has(flags)
    }

    pub fn set(&mut self, flags: Flags) {
        self.hot.insert(flags);
    }

    pub fn clear(&mut self, flags: Flags) {
        self.hot.remove(flags);
    }

    /// The options that the application chose.
    pub fn options(&self) -> &Options {
        self.sh.options.at(self.cold.options)
    }

    /// The lists of its port, for one step.
    #[inline(always)]
    pub fn lists(&mut self) -> Lists<'_> {
        Lists {
            queues: &mut self.sh.queues,
            bits: Bits::new(&mut self.hot.flags),
            port: self.hot.port,
            place: self.place,
        }
    }

    /// Something may want to be sent: have `transmit` look.
    pub fn mark_output(&mut self) {
        if self.has(Flags::ON_CONTROL | Flags::ON_DATA | Flags::PARKED | Flags::DETACHED) {
            return;
        }
        let is_opening = matches!(self.hot.state, State::SynSent | State::SynReceived);
        if self.send_view().has_only_fin() || is_opening {
            self.lists().join(Output::Control);
        } else {
            self.lists().join(Output::Data);
        }
    }

    /// An ACK is due in the next `transmit`, on data if there is some to send. Not while one is
    /// withheld: it would tell what that is not to.
    pub fn mark_ack(&mut self) {
        if self.receive_view().has_withheld_ack() {
            return;
        }
        self.set(Flags::ACK_NOW);
        self.queue_ack();
    }

    /// No ACK is due any more.
    #[inline]
    pub fn unmark_ack(&mut self) {
        self.clear(Flags::ACK_NOW);
        if !self.has(Flags::KEEPALIVE_DUE) {
            self.lists().leave_acks();
        }
    }

    pub fn queue_ack(&mut self) {
        if self.has(Flags::PARKED | Flags::DETACHED) {
            return;
        }
        if !self.lists().join_acks() && !self.has_little_to_acknowledge() {
            // It waits no longer.
            self.lists().move_ack_to_end();
        }
    }

    /// Tells the application. News waits until the connection is accepted.
    pub fn notify(&mut self, news: Ready) {
        if self.has(Flags::APP_CLOSED) {
            return;
        }
        self.hot.ready |= news;
        if !self.has(Flags::BACKLOG) || self.has(Flags::UNANNOUNCED) {
            self.sh.queues.push_news(self.place);
        }
    }

    pub fn add_status(&mut self, status: Status) {
        self.sh.streams.add_status(self.stream, status);
    }

    /// Makes sure that the wheel fires no later than `at`. Moving a deadline later costs nothing:
    /// the wheel fires early and looks again.
    pub fn wake_at(&mut self, at: Instant) {
        if at < self.hot.wheel_at && !self.has(Flags::DETACHED) {
            self.hot.wheel_at = at;
            let id = self.timer_id();
            self.sh.wheel.schedule(id, at);
        }
    }

    /// The loss part, for one step.
    #[inline(always)]
    pub fn loss(&mut self) -> Loss<'_> {
        let (hot, cold, sh) = (&mut *self.hot, &mut *self.cold, &mut *self.sh);
        Loss {
            hot: &mut hot.loss,
            cold: &mut cold.loss,
            bits: Bits::new(&mut hot.flags),
            pools: &mut sh.loss,
            ranges: &mut sh.ranges,
            counters: &mut sh.counters,
            statistics: &mut cold.statistics,
            snd_una: hot.snd.una,
            snd_nxt: hot.snd.nxt,
            ts_offset: hot.ts_offset,
            actions: LossActions::empty(),
        }
    }

    /// The loss part, to be read.
    #[inline(always)]
    pub fn loss_view(&self) -> LossView<'_> {
        LossView {
            hot: &self.hot.loss,
            cold: &self.cold.loss,
            flags: LossFlags::of(self.hot.flags),
            pools: &self.sh.loss,
            ranges: &self.sh.ranges,
            snd_una: self.hot.snd.una,
            snd_nxt: self.hot.snd.nxt,
            ts_offset: self.hot.ts_offset,
        }
    }

    /// Does what a step of the loss part asks for.
    #[inline(always)]
    pub fn carry_out(&mut self, actions: LossActions) {
        if actions.contains(LossActions::TIMER) {
            self.wake_at(self.hot.loss.deadline());
        }
        if actions.intersects(LossActions::all() - LossActions::TIMER) {
            carry_out_rest(self, actions);
        }
    }

    /// The path part, for one step.
    #[inline(always)]
    pub fn path(&mut self) -> PathPart<'_> {
        let (hot, cold, sh) = (&mut *self.hot, &mut *self.cold, &mut *self.sh);
        PathPart {
            search: &mut cold.search,
            mtu: &mut cold.path.mtu,
            mss: &mut hot.loss.mss,
            paths: &mut sh.net.paths,
            counters: &mut sh.counters,
            view: PathView {
                flags: PathFlags::of(hot.flags),
                config: &sh.config,
                options: sh.options.at(cold.options),
                port: hot.port,
                dst: self.key.remote().ip(),
                snd_una: hot.snd.una,
                snd_nxt: hot.snd.nxt,
                cwnd: hot.loss.window.cwnd,
                peer_mss: cold.peer_mss,
                retries: hot.retries,
            },
        }
    }

    /// The ECN part, for one step.
    #[inline(always)]
    pub fn ecn(&mut self) -> EcnPart<'_> {
        let (hot, cold, sh) = (&mut *self.hot, &mut *self.cold, &mut *self.sh);
        EcnPart {
            state: &mut cold.ecn,
            predicted: &mut hot.predicted,
            counters: &mut sh.counters,
            flags: EcnFlags::of(hot.flags),
            snd_una: hot.snd.una,
            snd_nxt: hot.snd.nxt,
            mss: hot.loss.mss,
            is_wanted: cold.loss.congestion.wants_ecn(),
        }
    }

    /// The ECN part, to be read.
    #[inline(always)]
    pub fn ecn_view(&self) -> EcnView<'_> {
        EcnView {
            state: &self.cold.ecn,
            is_asking: self.hot.state == State::SynSent,
            is_wanted: self.cold.loss.congestion.wants_ecn(),
        }
    }

    /// The receive part, for one step.
    #[inline(always)]
    pub fn receive(&mut self) -> Receive<'_> {
        let (hot, cold, sh) = (&mut *self.hot, &mut *self.cold, &mut *self.sh);
        Receive {
            hot: &mut hot.rcv,
            cold: &mut cold.rcv,
            bits: Bits::new(&mut hot.flags),
            streams: &mut sh.streams,
            slot: self.stream,
            held: &mut sh.held,
            ranges: &mut sh.ranges,
            counters: &mut sh.counters,
            statistics: &mut cold.statistics,
            config: &sh.config,
            options: &sh.options,
            set: cold.options,
            scale: hot.rcv_wscale,
            mss: cold.local_mss,
            actions: ReceiveActions::empty(),
        }
    }

    /// The receive part, to be read.
    #[inline(always)]
    pub fn receive_view(&self) -> ReceiveView<'_> {
        ReceiveView {
            hot: &self.hot.rcv,
            cold: &self.cold.rcv,
            flags: ReceiveFlags::of(self.hot.flags),
            held: &self.sh.held,
            ranges: &self.sh.ranges,
            config: &self.sh.config,
        }
    }

    /// Does what a step of the receive part asks for.
    #[inline(always)]
    pub fn carry_out_received(&mut self, now: Instant, actions: ReceiveActions) {
        if actions.contains(ReceiveActions::READABLE) {
            self.notify(Ready::READABLE);
        }
        if actions.contains(ReceiveActions::UNMARK) {
            self.unmark_ack();
        }
        if actions.contains(ReceiveActions::ACK) {
            self.mark_ack();
        }
        if actions.contains(ReceiveActions::URGENT) {
            self.notify(Ready::URGENT);
        }
        if actions.contains(ReceiveActions::TIMER) {
            self.wake_at(near(now, self.hot.rcv.ack_at));
        }
    }

    /// The send part, for one step.
    #[inline(always)]
    pub fn send_part(&mut self) -> SendPart<'_> {
        let (hot, cold, sh) = (&mut *self.hot, &mut *self.cold, &mut *self.sh);
        SendPart {
            hot: &mut hot.snd,
            cold: &mut cold.snd,
            bits: Bits::new(&mut hot.flags),
            streams: &mut sh.streams,
            slot: self.stream,
            statistics: &mut cold.statistics,
            config: &sh.config,
            options: &sh.options,
            set: cold.options,
            state: hot.state,
            mss: hot.loss.mss,
            actions: SendActions::empty(),
        }
    }

    /// The send part, to be read.
    #[inline(always)]
    pub fn send_view(&self) -> SendView<'_> {
        SendView {
            hot: &self.hot.snd,
            cold: &self.cold.snd,
            flags: SendFlags::of(self.hot.flags),
            streams: &self.sh.streams,
            slot: self.stream,
            options: &self.sh.options,
            set: self.cold.options,
            state: self.hot.state,
        }
    }

    /// Does what a step of the send part asks for.
    #[inline(always)]
    pub fn carry_out_sent(&mut self, actions: SendActions) {
        if actions.contains(SendActions::WRITABLE) {
            self.notify(Ready::WRITABLE);
        }
        if actions.contains(SendActions::TIMER) {
            self.wake_at(self.cold.snd.held_until);
        }
    }

    /// The set-up part, for one step.
    #[inline(always)]
    pub fn open(&mut self) -> OpenPart<'_> {
        OpenPart {
            open: &mut self.cold.open,
            cache: &mut self.sh.server_cookies,
            counters: &mut self.sh.counters,
            remote: self.key.remote().ip(),
            retries: self.hot.retries,
            snd_nxt: self.hot.snd.nxt,
        }
    }

    /// The set-up part, to be read.
    #[inline(always)]
    pub fn open_view(&self) -> OpenView<'_> {
        OpenView {
            open: &self.cold.open,
            issuer: &self.sh.issuer,
            cache: &self.sh.server_cookies,
            remote: self.key.remote().ip(),
            state: self.hot.state,
            retries: self.hot.retries,
            iss: self.cold.iss,
            irs: self.cold.irs,
            snd_nxt: self.hot.snd.nxt,
        }
    }

    /// Starts (or restarts) the retransmission timer.
    pub fn start_rtx_timer(&mut self, now: Instant) {
        let mut loss = self.loss();
        loss.timers().start_rtx_timer(now);
        let actions = loss.actions;
        self.carry_out(actions);
    }

    /// Everything in flight counts as lost.
    pub fn go_back(&mut self, now: Instant) {
        let actions = self.loss().go_back(now);
        self.carry_out(actions);
    }

    /// What must hold of a connection after anything that happens to it. Tests and simulations run
    /// with these assertions; releases do not.
    pub fn check_invariants(&self) {
        if cfg!(debug_assertions) {
            // RFC 9293 MUST-45: segments come from where the connection is.
            assert_eq!(self.cold.path.src, self.key.local().ip(), "the source");
            self.loss_view().check(self.hot.state.is_synchronized());
            self.receive_view().check();
            self.send_view().check();
            let first = self.hot.loss.deadline();
            assert!(self.hot.wheel_at <= first, "a timer that the wheel forgot");
        }
    }

    /// A challenge ACK, unless there were too many, or none may be sent.
    /// RFC 5961 §7-1.
    pub fn challenge(&mut self, now: Instant) {
        if self.receive_view().has_withheld_ack() {
            return;
        }
        if self.sh.may_challenge_by(now, &mut self.cold.challenges) {
            self.sh.counters.challenge_acks += 1;
            self.mark_ack();
        } else {
            self.sh.counters.drop(DropReason::ReplyLimited);
        }
    }

    /// The answer to a segment that is not acceptable. Retransmitted data and keepalive probes
    /// always get one; anything else could be forged, or the peer answering our answer, and is
    /// limited.
    pub fn acknowledge_unacceptable(&mut self, now: Instant, seg: &Segment<'_>) {
        let is_keepalive = seg.seq + 1 == self.hot.rcv.nxt && !seg.has(TcpFlags::SYN);
        let challenges = &mut self.cold.challenges;
        if !seg.payload.is_empty() || is_keepalive || self.sh.may_challenge_by(now, challenges) {
            self.mark_ack();
        } else {
            self.sh.counters.drop(DropReason::ReplyLimited);
        }
    }

    /// Gives acknowledged bytes back to the application.
    #[inline]
    pub fn release(&mut self, bytes: u32) {
        let mut send = self.send_part();
        send.release(bytes);
        let actions = send.actions;
        self.carry_out_sent(actions);
    }

    /// What has been written goes now, whatever holds it back.
    pub fn push(&mut self) {
        self.send_part().pull_cork();
        self.mark_output();
    }

    /// The application may want its unsent bytes bounded.
    pub fn bound_unsent(&mut self) {
        let mut send = self.send_part();
        send.bound_unsent();
        let actions = send.actions;
        self.carry_out_sent(actions);
    }

    /// Whether the ACK that is due is for less than must be acknowledged at once (RFC 5681 §4.2),
    /// and the peer can go on without it.
    pub fn has_little_to_acknowledge(&self) -> bool {
        self.receive_view().owes_little()
            && !self.has(Flags::KEEPALIVE_DUE)
            && !self.cold.ecn.owes_pure_ack()
    }

    pub fn unpark(&mut self) {
        self.lists().leave(Output::Parked);
        self.mark_output();
        if self.has(Flags::ACK_NOW | Flags::KEEPALIVE_DUE) {
            self.queue_ack();
        }
    }

    /// Whether its process is gone: that may have sent more than it came to note.
    pub fn is_orphan(&self) -> bool {
        // No application ever had it here.
        self.cold.token == Token::NONE && self.has(Flags::FIN_QUEUED)
    }

    /// Whether TCP is done with it: `Tcp::settle` has to follow. Asked after everything that
    /// happens to it.
    pub fn is_over(&self) -> bool {
        let is_over = self.hot.state.is_over();
        if !is_over {
            self.check_invariants();
        }
        is_over
    }

    /// Has `transmit` look, if there is anything that an ACK may have let go.
    pub fn mark_if_more(&mut self) {
        if self.send_view().has_more() || self.loss_view().has_lost() {
            self.mark_output();
        }
    }
}

/// What few steps of the loss part ask for.
#[inline(never)]
fn carry_out_rest(conn: &mut Conn<'_>, actions: LossActions) {
    if actions.contains(LossActions::REDUCED) {
        conn.ecn().on_reduced();
    }
    if actions.contains(LossActions::RELEASE) {
        conn.wake_at(conn.cold.loss.pacing.release_at());
    }
    if actions.contains(LossActions::OUTPUT) {
        conn.mark_output();
    }
}
