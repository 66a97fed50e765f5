//! What goes next: window probe, retransmission, new data, FIN. The parts say what they would have
//! sent, or allow; what comes before what is decided here.

use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::info::State;
use crate::tcp::conn::Conn;
use crate::tcp::flags::Flags;
use crate::tcp::loss::{FRTO_SEGMENTS, Frto};
use crate::tcp::send::{Kind, Plan, Unsent, at_a_time};

impl Conn<'_> {
    /// The next segment of the control and data lists.
    #[inline(always)]
    pub fn plan(&mut self, now: Instant) -> Option<Plan> {
        if self.has(Flags::SYN_DUE) {
            return Some(self.plan_syn(now));
        }
        if !self.hot.state.may_transmit() && !self.cold.open.may_send_early(self.hot.state) {
            return None;
        }
        if self.has(Flags::PROBE_DUE) {
            return self.plan_window_probe();
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

    #[cold]
    fn plan_window_probe(&mut self) -> Option<Plan> {
        let probe = self.send_view().window_probe(self.segment_room());
        if probe.is_none() {
            self.clear(Flags::PROBE_DUE);
        }
        probe
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
        let loss = self.loss_view();
        let room = self.segment_room();
        let plan = self.send_view().retransmission(loss.next_lost()?, room)?;
        loss.may_retransmit(plan.len).then_some(plan)
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
        let room = self.segment_room();
        let send = self.send_view();
        let plan = send.tail_probe_of_new(room).or_else(|| {
            let last = send.last_in_flight(room);
            let gap = self.loss_view().first_unsacked(last.start, last.end)?;
            send.tail_probe_again(gap, room)
        });
        if plan.is_none() {
            self.clear(Flags::TAIL_PROBE_DUE);
        }
        plan
    }

    /// NextSeg (2): data that was never sent, and the FIN behind the last of it.
    /// RFC 5681 §2-1; RFC 9937 §3-1.
    fn plan_new(&mut self, now: Instant) -> Option<Plan> {
        let send = self.send_view();
        let unsent = send.unsent()?;
        if send.was_idle(now, u64::from(self.hot.loss.rtt.rto_micros())) {
            self.loss().congestion().restart_after_idle();
        }
        if self.cold.search.is_open(self.cold.path.mtu)
            && let Some(len) = self.plan_path_probe(now, &unsent)
        {
            let may_go = self.loss_view().cwnd_allows(len);
            return may_go.then(|| self.send_view().segment(Kind::New, self.hot.snd.nxt, len));
        }
        let send = self.send_view();
        let len = send.new_len(&unsent, self.segment_room())?;
        if len > 0 && !self.loss_view().cwnd_allows(len) {
            return None;
        }
        let plan = send.new_segment(&unsent, len);
        Some(if len < unsent.sendable() {
            self.plan_gso(plan, &unsent)
        } else {
            plan
        })
    }

    /// The length of a segment of new data that probes the path, if one is to go next.
    #[inline(never)]
    fn plan_path_probe(&mut self, now: Instant, unsent: &Unsent) -> Option<u32> {
        let has_variable = self.segment_room() < u32::from(self.hot.loss.mss);
        let path = self.path();
        path.plan_probe(now, unsent.available, unsent.usable, has_variable)
    }

    /// As many segments like `plan`, a full one of new data, as may go together with it.
    fn plan_gso(&self, plan: Plan, unsent: &Unsent) -> Plan {
        let port = usize::from(self.hot.port.0);
        let interface = self.sh.config.interfaces.get(port);
        let most = interface.map_or(0, |interface| interface.capabilities.tx_gso);
        let most = at_a_time(most, self.cold.loss.pacing.rate());
        if most < 2 * plan.len {
            return plan;
        }
        let loss = self.loss_view();
        let room = loss.hot.window.cwnd.saturating_sub(loss.pipe());
        let together = self.send_view().gather(plan, unsent, most, room);
        // CWR is the first segment's alone (RFC 3168 §6.1.2), and one of the bits of a counter
        // (RFC 9768 §3.2.2): no link is trusted with it.
        if together.cut > 0 && self.ecn_bits(&plan).contains(TcpFlags::CWR) {
            return plan;
        }
        together
    }
}
