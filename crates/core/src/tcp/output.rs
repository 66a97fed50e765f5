//! What goes next: window probe, retransmission, new data, FIN.

use wire::seq::SeqNumber;
use wire::tcp::{TcpFlags, TcpOptions};
use wire::time::Instant;

use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::loss::{FRTO_SEGMENTS, Frto};
use crate::tcp::plan::{Kind, Plan};
use crate::tcp::ranges::Range;

impl Conn<'_> {
    /// The next segment of the control and data lists.
    #[inline(always)]
    pub fn plan(&mut self, now: Instant) -> Option<Plan> {
        if self.has(Flags::SYN_DUE) {
            return Some(self.plan_syn(now));
        }
        if !self.hot.state.may_transmit() && !self.may_send_early() {
            return None;
        }
        if self.has(Flags::PROBE_DUE) {
            return self.plan_probe();
        }
        if self.has(Flags::TAIL_PROBE_DUE)
            && let Some(probe) = self.plan_tail_probe()
        {
            return Some(probe);
        }
        let plan = if self.loss_view().is_held_by_frto() {
            self.plan_frto(now)
        } else {
            self.plan_lost().or_else(|| self.plan_new(now))
        };
        let plan = plan?;
        self.may_depart(now).then_some(plan)
    }

    /// F-RTO (RFC 5682): nothing before the ACK of the first retransmission; then new data, if
    /// there is some that may go. RFC 5682 §2.1-7.
    #[cold]
    fn plan_frto(&mut self, now: Instant) -> Option<Plan> {
        let Frto::Second(left) = self.loss_view().frto() else {
            return None;
        };
        let plan = if left > 0 { self.plan_new(now) } else { None };
        if plan.is_none() && left == FRTO_SEGMENTS {
            let mut loss = self.loss();
            loss.leave_frto();
            let actions = loss.actions;
            self.carry_out(actions);
            return self.plan_lost();
        }
        plan
    }

    fn plan_syn(&self, now: Instant) -> Plan {
        let flags = if self.hot.state == State::SynReceived {
            TcpFlags::SYN | TcpFlags::ACK
        } else {
            TcpFlags::SYN
        };
        Plan {
            kind: Kind::Syn,
            seq: self.cold.iss,
            len: self.syn_data_len(now),
            flags,
            cut: 0,
        }
    }

    /// The sequence number behind the last byte that is to be sent (the FIN's, if there is one).
    pub fn stream_end(&self) -> SeqNumber {
        if self.has(Flags::FIN_QUEUED) {
            self.hot.snd.fin_seq
        } else {
            self.hot.stream_start() + self.sh.streams.send_len(self.slot)
        }
    }

    /// Most payload that the next segment can carry: SACK blocks and counters take room (RFC 6691:
    /// variable options come off at send time).
    #[inline]
    pub fn segment_room(&self) -> u32 {
        let mss = u32::from(self.hot.loss.mss);
        if self.has(Flags::HOLES | Flags::DUPLICATE) || self.cold.ecn.option().is_some() {
            self.room_beside_options(mss)
        } else {
            mss
        }
    }

    #[cold]
    fn room_beside_options(&self, mss: u32) -> u32 {
        // The time makes no difference to the length.
        let mut options = TcpOptions::default();
        self.add_options(Instant::ZERO, &mut options);
        options.timestamps = None;
        mss.saturating_sub(options.emitted_len() as u32).max(1)
    }

    /// RFC 2018 §3: with timestamps three blocks fit.
    pub fn max_sack_blocks(&self) -> usize {
        if self.has(Flags::TIMESTAMPS) { 3 } else { 4 }
    }

    /// RFC 9293 §3.8.6.1: at least one octet of new data, or a retransmission, whatever the window
    /// says; all that fits if the window is merely too small to be worth it (§3.8.6.2.1 (4), the
    /// override time-out).
    #[cold]
    fn plan_probe(&mut self) -> Option<Plan> {
        let start = self.hot.snd.una;
        let end = self.stream_end();
        let available = if end > start { end - start } else { 0 };
        let len = self
            .hot
            .snd
            .wnd
            .max(1)
            .min(available)
            .min(self.segment_room());
        let fin = len == 0 && self.has(Flags::FIN_QUEUED) && start == self.hot.snd.fin_seq;
        if len == 0 && !fin {
            self.clear(Flags::PROBE_DUE);
            return None;
        }
        Some(self.segment(Kind::Probe, start, len))
    }

    /// What is taken for lost, and was not sent again since.
    /// RFC 6675 §5-12, §5-13.
    #[inline]
    fn plan_lost(&self) -> Option<Plan> {
        if self.has(Flags::RECOVERY | Flags::LOSS) {
            self.plan_first_lost()
        } else {
            None
        }
    }

    #[cold]
    fn plan_first_lost(&self) -> Option<Plan> {
        let lost = self.loss_view().next_lost()?;
        // RFC 9293 §3.8.6: the peer may have taken back a part of its window. What lies beyond can
        // only be thrown away.
        let edge = self.hot.snd.una + self.hot.snd.wnd;
        if lost.start >= edge {
            return None;
        }
        let lost = Range::new(lost.start, lost.end.min(edge.max(lost.start + 1)));
        let plan = self.plan_again(Kind::Retransmission, lost)?;
        self.may_retransmit(&plan).then_some(plan)
    }

    /// RFC 9293 SHLD-16, SHLD-17, MUST-35; RFC 7323 §2.4-5.
    fn may_retransmit(&self, plan: &Plan) -> bool {
        // A closed window is the persist timer's business.
        if self.hot.snd.wnd == 0 {
            return false;
        }
        self.loss_view().may_retransmit(plan.len)
    }

    /// The first segment of `range`, none of which is SACKed.
    pub fn plan_again(&self, kind: Kind, range: Range) -> Option<Plan> {
        let Range { start, end } = range;
        // What reaches SND.NXT takes unsent data along: a probe's single byte would go alone
        // otherwise.
        let end = if end == self.hot.snd.nxt {
            end.max(self.sendable_end())
        } else {
            end
        };
        let len = (end.min(self.stream_end()) - start).min(self.segment_room());
        let len = if start >= self.stream_end() { 0 } else { len };
        let plan = self.segment(kind, start, len);
        (plan.end() > start).then_some(plan)
    }

    /// Whether a data segment may leave now, or waits for its time.
    #[inline]
    fn may_depart(&mut self, now: Instant) -> bool {
        let mut loss = self.loss();
        let may = loss.may_depart(now);
        let actions = loss.actions;
        self.carry_out(actions);
        may
    }

    /// TLP_send_probe (RFC 8985 §7.3): new data if there is some, whatever the congestion window
    /// says; else the last segment again.
    /// RFC 8985 §7.3-4, §7.3-5.
    #[cold]
    fn plan_tail_probe(&mut self) -> Option<Plan> {
        let plan = self.plan_new_probe().or_else(|| self.plan_last_again());
        if plan.is_none() {
            self.clear(Flags::TAIL_PROBE_DUE);
        }
        plan
    }

    fn plan_new_probe(&self) -> Option<Plan> {
        let nxt = self.hot.snd.nxt;
        let end = self.sendable_end();
        let len = if end > nxt { end - nxt } else { 0 };
        (len > 0).then(|| self.segment(Kind::TailProbe, nxt, len.min(self.segment_room())))
    }

    fn plan_last_again(&self) -> Option<Plan> {
        let (una, nxt) = (self.hot.snd.una, self.hot.snd.nxt);
        let last = self.segment_room() + u32::from(self.hot.fin_sent());
        let start = if nxt - una > last { nxt - last } else { una };
        let gap = self.loss_view().first_unsacked(start, nxt)?;
        self.plan_again(Kind::TailProbe, gap)
    }

    /// How far data and window reach.
    pub fn sendable_end(&self) -> SeqNumber {
        self.stream_end().min(self.hot.snd.una + self.hot.snd.wnd)
    }

    /// NextSeg (2): data that was never sent, and the FIN behind the last of it.
    /// RFC 9293 MUST-34, SHLD-15, SHLD-28, MUST-60; RFC 7323 §2.4-3, §2.4-4; RFC 5681 §2-1;
    /// RFC 9937 §3-1.
    fn plan_new(&mut self, now: Instant) -> Option<Plan> {
        let nxt = self.hot.snd.nxt;
        let end = self.stream_end();
        let available = if end > nxt { end - nxt } else { 0 };
        let fin = self.has(Flags::FIN_QUEUED) && nxt <= self.hot.snd.fin_seq;
        if available == 0 && !fin {
            return None;
        }
        self.restart_if_idle(now);
        let edge = self.hot.snd.una + self.hot.snd.wnd;
        let usable = if edge > nxt { edge - nxt } else { 0 };
        if self.cold.search.is_open(self.cold.path.mtu)
            && let Some(len) = self.plan_path_probe(now, available, usable)
        {
            let may_go = self.loss_view().cwnd_allows(len);
            return may_go.then(|| self.segment(Kind::New, nxt, len));
        }
        let len = available.min(usable).min(self.segment_room());
        let sendable = if available == 0 {
            usable > 0
        } else {
            len > 0
                && self.is_worth_sending(len, available, usable)
                && self.loss_view().cwnd_allows(len)
        };
        if !sendable {
            return None;
        }
        let plan = self.segment_of(end, Kind::New, nxt, len);
        Some(if len < available.min(usable) {
            self.plan_gso(plan, available, usable)
        } else {
            plan
        })
    }

    /// The length of a segment of new data that probes the path, if one is to go next.
    #[inline(never)]
    fn plan_path_probe(&mut self, now: Instant, available: u32, usable: u32) -> Option<u32> {
        let has_variable = self.segment_room() < u32::from(self.hot.loss.mss);
        let path = self.path();
        path.plan_probe(now, available, usable, has_variable)
    }

    /// Sender's silly window avoidance with Nagle's algorithm (RFC 9293 §3.8.6.2.1, §3.7.4). `len`
    /// is min(D, U, Eff.snd.MSS). RFC 9293 SHLD-7, MUST-17, MUST-38.
    fn is_worth_sending(&self, len: u32, available: u32, usable: u32) -> bool {
        // (1) a full segment.
        if len == self.segment_room() {
            return true;
        }
        // (2) all there is; (3) a good part of the largest window the peer ever offered.
        let is_enough = available <= usable || len >= self.hot.snd.max_wnd / 2;
        is_enough && self.may_send_small()
    }

    /// Nagle's algorithm in Minshall's variant, as Linux has it: a small segment waits only for the
    /// ACK of another small one. The end of a message that is longer than a segment goes at once:
    /// the peer delays the ACK that it would wait for.
    pub fn may_send_small(&self) -> bool {
        // Nothing will follow a FIN that the bytes before it could join.
        let no_delay = self.has(Flags::NODELAY | Flags::FIN_QUEUED);
        let waits = self.is_corked() || (!no_delay && self.has_small_in_flight());
        // As on Linux, urgent data never does.
        !waits || self.has_urgent()
    }

    fn has_small_in_flight(&self) -> bool {
        let small = self.cold.snd.small_end;
        small > self.hot.snd.una && small <= self.hot.snd.nxt
    }

    /// Notes a small segment at the end of what was written. What the window cuts short waits for
    /// the window.
    #[inline]
    pub fn note_small(&mut self, plan: &Plan) {
        let last = match u32::from(plan.cut) {
            0 => plan.len,
            cut => plan.len % cut,
        };
        let is_small = last > 0 && last < u32::from(self.hot.loss.mss);
        if is_small && plan.flags.contains(TcpFlags::PSH) {
            self.cold.snd.small_end = plan.end();
        }
    }

    /// New data goes after a silence of an RTO.
    fn restart_if_idle(&mut self, now: Instant) {
        let rto = u64::from(self.hot.loss.rtt.rto_micros());
        if self.hot.flight() > 0 || now <= self.cold.snd.last_sent.after_micros(rto) {
            return;
        }
        self.loss().congestion().restart_after_idle();
    }

    /// PSH on the last segment of what the application wrote (RFC 9293 §3.9.1.2), FIN behind the
    /// last byte. RFC 9293 MUST-61, SHLD-27.
    pub fn segment(&self, kind: Kind, seq: SeqNumber, len: u32) -> Plan {
        self.segment_of(self.stream_end(), kind, seq, len)
    }

    /// The same of what ends at `end`.
    #[inline]
    fn segment_of(&self, end: SeqNumber, kind: Kind, seq: SeqNumber, len: u32) -> Plan {
        let mut flags = TcpFlags::ACK;
        if seq + len == end {
            if len > 0 {
                flags |= TcpFlags::PSH;
            }
            // The FIN of a probe with data would lie beyond the window: it goes when that opens.
            if self.has(Flags::FIN_QUEUED) && (kind != Kind::Probe || len == 0) {
                flags |= TcpFlags::FIN;
            }
        }
        let mut plan = Plan {
            kind,
            seq,
            len,
            flags,
            cut: 0,
        };
        let is_new = kind == Kind::New || kind == Kind::TailProbe;
        let has_fin = flags.contains(TcpFlags::FIN);
        if has_fin && is_new && plan.end() > self.hot.snd.una + self.hot.snd.wnd {
            // The FIN does not fit the window behind the data.
            plan.flags.remove(TcpFlags::FIN);
        }
        plan
    }

    /// Whether something waits for the window with nothing in flight: then only a probe can find
    /// out that it has opened.
    pub fn is_blocked_by_window(&self) -> bool {
        let fin_due = self.has(Flags::FIN_QUEUED) && !self.hot.fin_sent();
        self.hot.state.may_transmit()
            && self.hot.flight() == 0
            && (fin_due || self.stream_end() > self.hot.snd.nxt)
    }

    /// The ACK that the ACK list sends.
    pub fn plan_ack(&self) -> Plan {
        Plan {
            kind: Kind::Ack,
            seq: self.hot.snd.nxt,
            len: 0,
            flags: TcpFlags::ACK,
            cut: 0,
        }
    }

    /// RFC 9293 §3.8.4: SEG.SEQ = SND.NXT - 1.
    /// RFC 9293 SHLD-12.
    pub fn plan_keepalive(&self) -> Plan {
        Plan {
            kind: Kind::Keepalive,
            seq: self.hot.snd.nxt - 1,
            len: 0,
            flags: TcpFlags::ACK,
            cut: 0,
        }
    }
}
