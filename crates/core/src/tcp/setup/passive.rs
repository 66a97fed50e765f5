//! LISTEN (RFC 9293 §3.10.7.2): what becomes of a segment for a listener.

use wire::seq::SeqNumber;
use wire::tcp::TcpFlags;
use wire::time::Instant;

use crate::config::SynCookies;
use crate::drops::DropReason;
use crate::flow::{self, FlowHash};
use crate::id::PortId;
use crate::ip::Path;
use crate::tcp::ecn::Answer;
use crate::tcp::options::{Agreed, window_scale_for};
use crate::tcp::segment::Segment;
use crate::tcp::setup::actions::{Admission, Admitted, Listened};
use crate::tcp::setup::cookie::{self, Taken, remind};
use crate::tcp::setup::fast_open::FastOpen;
use crate::tcp::setup::half_open::{Before, HalfOpen, Options, beyond};
use crate::tcp::setup::isn;
use crate::tcp::setup::part::SetupPart;
use crate::tcp::step::Stop;

impl SetupPart<'_> {
    /// LISTEN, or CLOSED if nobody listens.
    /// `answered`: by the link, if it is a SYN.
    pub fn on_listen(
        &mut self,
        now: Instant,
        seg: &Segment<'_>,
        answered: bool,
    ) -> Result<Listened, Stop> {
        let Some(listener) = self.state.listeners.find(seg.key.local(), seg.origin) else {
            return Err(Stop::UnknownFlow(DropReason::TcpNoConnection));
        };
        // First, check for a RST.
        if seg.has(TcpFlags::RST) {
            return Err(Stop::UnknownFlow(DropReason::TcpNoConnection));
        }
        // Second, check for an ACK: there is nothing it could acknowledge but a cookie.
        if seg.has(TcpFlags::ACK) {
            // Where another stack may know the connection, that one is asked before.
            if !self.sh.config.bequeaths()
                && let Some(record) = self.take_cookie(now, listener, seg)
            {
                return Ok(Listened::Complete(record));
            }
            return Err(Stop::UnknownFlow(DropReason::TcpNoConnection));
        }
        // Third, check for a SYN. Nobody honest ends a connection in the segment that opens it.
        if !seg.has(TcpFlags::SYN) || seg.has(TcpFlags::FIN) {
            return Err(DropReason::TcpState.into());
        }
        self.offer(listener, seg);
        if answered {
            self.open_answered(now, listener, seg)?;
            return Ok(Listened::Done);
        }
        Ok(Listened::Syn(listener))
    }

    /// An ACK for a listener: the record of the connection that it completes, if it brings a cookie
    /// back.
    pub fn take_cookie(
        &mut self,
        now: Instant,
        listener: u32,
        seg: &Segment<'_>,
    ) -> Option<HalfOpen> {
        match self.state.cookies.take(now, &self.sh.config, listener, seg) {
            Taken::Cookie(record) => Some(record),
            Taken::Forged => {
                self.sh.counters.syn_cookies_failed += 1;
                None
            }
            Taken::Nothing => None,
        }
    }

    /// A SYN for a listener. `before`: what had the same endpoints, if that is in TIME_WAIT.
    pub fn admit_syn(
        &mut self,
        now: Instant,
        listener: u32,
        seg: &Segment<'_>,
        before: Option<Before>,
    ) -> Result<Admitted, DropReason> {
        let admission = self.admit(listener, before.as_ref())?;
        // Replies leave where the route says, which need not be where the SYN came in.
        let path = self.sh.net.way_back(seg.key);
        let &Path { port, mtu, .. } = path.map_err(|_| DropReason::ReplyNoRoute)?;
        let iss = isn::start(now, seg.origin).iss;
        let iss = beyond(iss, before.map(|before| before.end));
        Ok(Admitted {
            record: self.half_open_record(listener, seg, iss, port),
            admission,
            mtu,
            // A cookie cannot promise to lie beyond what was sent before. It need not, where
            // timestamps tell that apart (RFC 6191 §3).
            is_free: before.is_none_or(|before| before.timestamps),
        })
    }

    /// What a SYN with a valid Fast Open cookie opens at once (RFC 7413 §4.2.2). `None`: there is
    /// nothing of the kind, or no room. RFC 7413 §2.1-1, §4.2.2-1, §4.2.2-2.
    pub fn opens_fast(
        &mut self,
        now: Instant,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Option<FastOpen> {
        let cookie = seg.options.fast_open?;
        if cookie.is_request() {
            return None;
        }
        let host = seg.key.remote().ip();
        let fast_open = self.sh.issuer.check(now, host, &cookie)?;
        let listener = self.state.listeners.at_mut(u32::from(record.listener))?;
        let limit = listener.options.fast_open.unwrap_or(0);
        listener.pending.has_room(now, limit).then_some(fast_open)
    }

    /// Answers the SYN: with a record of it, or a cookie.
    pub fn answer(
        &mut self,
        now: Instant,
        admitted: &mut Admitted,
        hash: FlowHash,
    ) -> Result<(), DropReason> {
        let record = &mut admitted.record;
        match admitted.admission {
            Admission::Record => {
                if admitted.is_free {
                    self.bequeath(now, record);
                }
                let slot = self.remember(now, record, hash)?;
                self.sh.queues.push_syn_ack(record.port, slot);
            }
            Admission::Cookie => self.answer_with_cookie(now, record, admitted.mtu),
        }
        Ok(())
    }

    /// Keeps a record of a SYN: in which slot.
    #[inline(always)]
    pub fn remember(
        &mut self,
        now: Instant,
        record: &HalfOpen,
        hash: FlowHash,
    ) -> Result<u32, DropReason> {
        if !self.flows.enter(&record.key) {
            return Err(DropReason::TcpUnsteered);
        }
        let listener = record.listener;
        let Some(slot) = self.state.half_open.insert(record) else {
            self.flows.leave(&record.key);
            return Err(DropReason::TcpHalfOpen);
        };
        if let Some(entry) = self.state.listeners.at_mut(u32::from(listener)) {
            entry.half_open += 1;
        }
        self.flows.insert(hash, flow::id(flow::HALF_OPEN, slot));
        self.sh.queues.grow_half_open(slot);
        self.schedule_half_open(now, slot, 0);
        Ok(slot)
    }

    /// How a SYN is answered, if it is. As long as connections wait to be accepted and there is no
    /// room for another, it is not: the peer will ask again. `before`: what had the same endpoints,
    /// if that is in TIME_WAIT.
    ///
    /// A cookie cannot promise to lie beyond the sequence numbers of a connection in TIME_WAIT. It
    /// need not where timestamps tell the two apart (RFC 6191 §3). Where they do not, the
    /// listener's limit does not count, as on Linux: who floods it has no connection in TIME_WAIT,
    /// and who has one must not be locked out by the flood.
    pub fn admit(&self, listener: u32, before: Option<&Before>) -> Result<Admission, DropReason> {
        let entry = self
            .state
            .listeners
            .at(listener)
            .ok_or(DropReason::TcpNoConnection)?;
        if !entry.has_room() {
            return Err(DropReason::TcpBacklog);
        }
        let cookies = self.sh.config.syn_cookies;
        let is_safe = before.is_none_or(|before| before.timestamps);
        let has_slot = self.state.half_open.slots.len() < self.state.half_open.slots.capacity();
        let has_room = has_slot && (entry.may_take_syn() || !is_safe);
        match cookies {
            SynCookies::Always if is_safe => Ok(Admission::Cookie),
            _ if has_room => Ok(Admission::Record),
            SynCookies::Auto if is_safe => Ok(Admission::Cookie),
            _ => Err(DropReason::TcpHalfOpen),
        }
    }

    pub fn half_open_record(
        &self,
        listener: u32,
        seg: &Segment<'_>,
        iss: SeqNumber,
        port: PortId,
    ) -> HalfOpen {
        let config = &self.sh.config;
        let key = *seg.key;
        let wscale = window_scale_for(config.max_buffer);
        let agreed = Agreed::new(config, wscale, seg.options, key.is_ipv4());
        let mut facts = Options::new(&agreed);
        let listens = self.state.listeners.at(listener);
        let gives = listens.is_some_and(|listener| listener.options.fast_open.is_some());
        facts.set(Options::FAST_OPEN, gives && seg.options.fast_open.is_some());
        HalfOpen {
            key,
            iss,
            irs: seg.seq,
            ts_recent: seg.options.timestamps.map_or(0, |stamps| stamps.tsval),
            sent_at: seg.origin,
            listener: listener as u16,
            peer_mss: agreed.peer_mss,
            window: seg.window,
            snd_wscale: agreed.snd_wscale,
            rcv_wscale: agreed.rcv_wscale,
            port,
            retries: 0,
            agreed: facts,
            ecn: Answer::to(config, seg),
        }
    }

    /// Answers a SYN without remembering it.
    /// RFC 4987 §3.6-1.
    fn answer_with_cookie(&mut self, now: Instant, record: &mut HalfOpen, mtu: u16) {
        record.ecn = record.ecn.classic();
        if !record.has(Options::TIMESTAMPS) {
            record.agreed.remove(Options::SACK | Options::SCALING);
            record.ecn = Answer::REFUSAL;
        }
        record.iss = self.state.cookies.make(now, record);
        if let Some(steering) = self.flows.steering() {
            steering.expect_cookies(now + cookie::LIFETIME);
        }
        let mut header = self.syn_ack(now, record, mtu);
        header.options.timestamps = header
            .options
            .timestamps
            .map(|stamps| remind(stamps, record));
        self.sh.counters.syn_cookies_sent += 1;
        self.sh.send_bare(&record.key, &header);
    }

    /// Has another stack know the connection by the ACK of its SYN-ACK, should this one end before
    /// an application has it.
    fn bequeath(&mut self, now: Instant, record: &mut HalfOpen) {
        if self.sh.config.bequeaths() && record.has(Options::TIMESTAMPS) {
            record.iss = self.state.cookies.make(now, record);
        }
    }
}
