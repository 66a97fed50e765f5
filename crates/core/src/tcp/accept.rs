//! Passive opens: from SYN to half-open record ([`setup`](super::setup)), and from there to
//! connection.

use ring::stream::StreamError;
use wire::time::Instant;

use crate::drops::DropReason;
use crate::flow::{self, FlowHash};
use crate::id::Token;
use crate::info::State;
use crate::ip::Path;
use crate::tcp::Tcp;
use crate::tcp::buffers::limits;
use crate::tcp::check::on_segment;
use crate::tcp::connect::{begin_fast, enter_backlog, time_handshake};
use crate::tcp::establish::establish;
use crate::tcp::flags::Flags;
use crate::tcp::open::{self, Opening, synchronize};
use crate::tcp::option_sets::SetId;
use crate::tcp::segment::Segment;
use crate::tcp::setup::isn::{self, Start};
use crate::tcp::setup::{Before, FastOpen, HalfOpen, Listened, Options};
use crate::tcp::step::{Step, Stop};

impl Tcp {
    /// LISTEN, or CLOSED if nobody listens.
    /// `answered`: by the link, if it is a SYN.
    // Not inlined: what it lies on would else be taken by segments of connections, too.
    #[inline(never)]
    pub fn on_listen(&mut self, now: Instant, seg: &Segment<'_>, answered: bool) -> Step {
        match self.setup().on_listen(now, seg, answered)? {
            Listened::Done => Ok(()),
            Listened::Complete(record) => self.promote_cookie(now, &record, seg),
            Listened::Syn(listener) => self.open_half(now, listener, seg, None).map_err(Stop::Drop),
        }
    }

    /// A SYN for a listener. `before`: what had the same endpoints, if that is in TIME_WAIT. Data
    /// and FIN in the SYN come again, but for Fast Open.
    pub fn open_half(
        &mut self,
        now: Instant,
        listener: u32,
        seg: &Segment<'_>,
        before: Option<Before>,
    ) -> Result<(), DropReason> {
        let mut admitted = self.setup().admit_syn(now, listener, seg, before)?;
        let record = &admitted.record;
        if let Some(fast_open) = self.setup().opens_fast(now, record, seg)
            && opens_at_once(self, now, record, fast_open, seg)
        {
            return Ok(());
        }
        self.setup().answer(now, &mut admitted, seg.hash)
    }

    /// SYN_RECEIVED of a passive open (RFC 9293 §3.10.7.4).
    // As above.
    #[inline(never)]
    pub fn on_half_open(&mut self, now: Instant, slot: u32, seg: &Segment<'_>) -> Step {
        let Some(&record) = self.setup.half_open.at(slot) else {
            return Err(DropReason::TcpNoConnection.into());
        };
        self.setup().on_half_open(now, slot, &record, seg)?;
        self.promote(now, slot, &record, seg)
    }

    /// The handshake is complete: "enter ESTABLISHED state and continue processing".
    pub fn promote(
        &mut self,
        now: Instant,
        record_slot: u32,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Step {
        let slot = match self.take_control_block(now, record, seg) {
            Ok(slot) => slot,
            Err(DropReason::TcpBacklog) if self.shared.config.abort_on_overflow => {
                self.setup().drop_half_open(record_slot);
                return Err(DropReason::TcpBacklog.into());
            }
            Err(reason) => return Err(reason.into()),
        };
        let old = flow::id(flow::HALF_OPEN, record_slot);
        self.flows
            .replace(seg.hash, old, flow::id(flow::CONNECTION, slot));
        self.setup().free_half_open(record_slot);
        self.complete_passive_open(now, slot, Some(record), seg)
    }

    /// The same, of a handshake of which a SYN cookie was all that was left.
    pub fn promote_cookie(&mut self, now: Instant, record: &HalfOpen, seg: &Segment<'_>) -> Step {
        if !self.flows.enter(seg.key) {
            return Err(DropReason::TcpUnsteered.into());
        }
        let taken = self.take_control_block(now, record, seg);
        if taken.is_err() {
            self.flows.leave(seg.key);
        }
        let slot = taken?;
        self.flows
            .insert(seg.hash, flow::id(flow::CONNECTION, slot));
        self.shared.counters.syn_cookies_accepted += 1;
        self.complete_passive_open(now, slot, None, seg)
    }

    /// ESTABLISHED, and on with the segment. How long the handshake took says the record, if there
    /// was one.
    pub fn complete_passive_open(
        &mut self,
        now: Instant,
        slot: u32,
        record: Option<&HalfOpen>,
        seg: &Segment<'_>,
    ) -> Step {
        let Some(mut conn) = self.conns.view(slot, &mut self.shared) else {
            return Err(DropReason::TcpConnections.into());
        };
        enter_backlog(&mut conn, &mut self.setup.listeners);
        if let Some(record) = record {
            time_handshake(&mut conn, now, record, seg);
        }
        establish(&mut conn, now);
        let seg = conn.ecn().take_handshake_report(seg);
        let step = on_segment(&mut conn, now, &seg);
        if conn.is_over() {
            self.settle(now, slot);
        }
        step
    }

    fn begin_fast(
        &mut self,
        now: Instant,
        slot: u32,
        record: &HalfOpen,
        fast_open: FastOpen,
        seg: &Segment<'_>,
    ) {
        self.flows
            .insert(seg.hash, flow::id(flow::CONNECTION, slot));
        self.shared.counters.fast_opens_in += 1;
        if let Some(mut conn) = self.conns.view(slot, &mut self.shared) {
            let listener = self.setup.listeners.at_mut(conn.cold.listener);
            if let Some(listener) = listener {
                listener.pending.enter();
            }
            enter_backlog(&mut conn, &mut self.setup.listeners);
            conn.cold.open.fast_open = fast_open;
            conn.cold.ecn.accept(record.ecn.classic());
            begin_fast(&mut conn, now, record.iss, seg);
        }
    }

    /// A control block with streams, if the backlog has room. If not, the ACK is dropped: a
    /// half-open record stays, and the SYN-ACK that its timer sends asks for the ACK again; after a
    /// cookie the peer's data brings it again.
    // What it lies on is not under what follows on an ACK: calls may come on small stacks.
    #[inline(never)]
    pub fn take_control_block(
        &mut self,
        now: Instant,
        record: &HalfOpen,
        seg: &Segment<'_>,
    ) -> Result<u32, DropReason> {
        let taker = self.setup.listeners.taker(u32::from(record.listener));
        let listener = self.setup.listeners.at(taker);
        let listener = listener.ok_or(DropReason::TcpNoConnection)?;
        let options = listener.set;
        if !listener.has_room() {
            if self.shared.config.abort_on_overflow {
                self.shared.answer_with_reset(now, seg);
            }
            return Err(DropReason::TcpBacklog);
        }
        let path = self.shared.net.way_back(&record.key);
        let path = *path.map_err(|_| DropReason::ReplyNoRoute)?;
        let limits = limits(&self.shared.config, self.shared.options.at(options));
        let slot = self.conns.slots.alloc().ok_or(DropReason::TcpConnections)?;
        let home = listener.home;
        let stream = match self.shared.reserve(home, slot, limits) {
            Ok(stream) => stream,
            Err(error) => {
                self.conns.free(slot);
                return Err(drop_for(error));
            }
        };
        self.shared.options.share(options);
        let opening = opening(record, &path, options, seg.origin);
        self.init_accepted(now, slot, (record, taker), &opening, seg.hash);
        if stream != slot {
            self.conns.set_stream(slot, stream);
        }
        Ok(slot)
    }

    fn init_accepted(
        &mut self,
        now: Instant,
        slot: u32,
        (record, listener): (&HalfOpen, u32),
        opening: &Opening<'_>,
        hash: FlowHash,
    ) {
        let Some((hot, cold)) = self
            .conns
            .place(slot, &record.key, hash, &mut self.shared.queues)
        else {
            return;
        };
        let options = self.shared.options.at(opening.options);
        let (config, models) = (&self.shared.config, &mut self.shared.loss.models);
        *hot = open::hot(config, self.shared.loss.rto_bounds, opening, options, now);
        open::renew(cold, config, opening, options, now, models);
        let (irs, agreed) = (record.irs, record.agreed());
        let is_ipv4 = opening.path.src.is_ipv4();
        synchronize(config, hot, cold, options, irs, &agreed, is_ipv4);
        hot.state = State::SynReceived;
        hot.snd.una = record.iss + 1;
        hot.snd.nxt = hot.snd.una;
        // The window of the SYN; WL1 is its sequence number, so that any later segment is newer.
        hot.snd.wnd = u32::from(record.window);
        hot.snd.max_wnd = hot.snd.wnd;
        hot.snd.wl1 = record.irs;
        hot.snd.wl2 = hot.snd.una;
        hot.ts_recent = record.ts_recent;
        // The SYN-ACK acknowledged the SYN.
        hot.rcv.last_ack_sent = hot.rcv.nxt;
        hot.insert(Flags::BACKLOG | Flags::UNANNOUNCED);
        let timed_out = record.retries > 0 && record.has(Options::SENT_AGAIN);
        hot.set(Flags::SYN_RETRANSMITTED, timed_out);
        // The SYN.
        cold.statistics.segments_in = 1;
        cold.listener = listener;
        cold.ecn.accept(record.ecn);
        if record.has(Options::UNASKED) || record.hides_ecn() {
            cold.ecn.mark_nothing();
        }
        let returns = self.shared.config.bequeaths();
        if !returns || !record.has(Options::TIMESTAMPS) {
            // No other stack could take it up (`cookie`).
            self.survivors
                .bequeath(slot, &mut self.conns, &mut self.shared);
        }
    }
}

fn opening<'a>(record: &'a HalfOpen, path: &'a Path, options: SetId, origin: u32) -> Opening<'a> {
    Opening {
        key: &record.key,
        path,
        options,
        start: Start {
            iss: record.iss,
            ts_offset: isn::ts_offset(origin),
        },
        token: Token::NONE,
    }
}

fn drop_for(error: StreamError) -> DropReason {
    match error {
        StreamError::NoMemory => DropReason::TcpMemory,
        _ => DropReason::TcpConnections,
    }
}

/// Opens a connection with what its SYN brings (RFC 7413 §4.2.2). False: there is no room.
// Not inlined: every SYN would lie on what few bring.
#[inline(never)]
fn opens_at_once(
    tcp: &mut Tcp,
    now: Instant,
    record: &HalfOpen,
    fast_open: FastOpen,
    seg: &Segment<'_>,
) -> bool {
    if !tcp.flows.enter(seg.key) {
        return false;
    }
    let taken = tcp.take_control_block(now, record, seg);
    match taken {
        Ok(slot) => tcp.begin_fast(now, slot, record, fast_open, seg),
        Err(_) => tcp.flows.leave(seg.key),
    }
    taken.is_ok()
}
