//! The user calls (RFC 9293 §3.9.1).

use std::net::{IpAddr, SocketAddr};
use wire::ip::is_valid_source;
use wire::seq::SeqNumber;
use wire::time::Instant;

use crate::command::{Command, Connect, Opened, Options, Reply};
use crate::error::Error;
use crate::event::Ready;
use crate::flow::{self, Digest, FlowHash, FlowKey};
use crate::id::{ConnId, ListenerId, OptionsId, Token};
use crate::info::State;
use crate::tcp::Tcp;
use crate::tcp::buffers::limits;
use crate::tcp::close::{leave_backlog, shutdown};
use crate::tcp::conn::Conn;
use crate::tcp::connect::{begin_active, release_syn};
use crate::tcp::data::{on_read, release_withheld_ack};
use crate::tcp::flags::Flags;
use crate::tcp::heirs::{begin_accepting, leave_to_heirs, resume, suspend};
use crate::tcp::info::tcp_info;
use crate::tcp::lookup::Lookup;
use crate::tcp::open::{self, Opening};
use crate::tcp::setup::isn;
use crate::tcp::setup::{FastOpen, Listener, beyond, pick_port};
use crate::tcp::target::marked;
use crate::tcp::timers::{choose_cold_timers, start_cold_timers};

impl Tcp {
    pub fn execute(&mut self, now: Instant, command: Command) -> Result<Reply, Error> {
        match command {
            Command::Listen {
                token,
                local,
                only_v6,
                backlog,
                options,
            } => {
                let local = canonical(local);
                let mut listener = Listener::new(token, local, only_v6, backlog, options);
                listener.home = self.home;
                listen(self, listener)
            }
            Command::Unlisten(listener) => self.unlisten(now, listener, false),
            Command::Leave(listener) => self.unlisten(now, listener, true),
            Command::Suspend(listener) => suspend(self, listener),
            Command::Resume { listener, token } => resume(self, listener, token),
            Command::Connect {
                token,
                local,
                remote,
                ref options,
            } => {
                let request = Connect {
                    token,
                    local,
                    remote,
                    options,
                    known: OptionsId::NONE,
                };
                self.connect(now, &request).map(Reply::from)
            }
            Command::Accept { conn, token } => self.accept(now, conn, token),
            Command::SetListenerOptions { listener, options } => {
                let slot = self.setup.listeners.resolve(listener)?;
                self.setup().set_options(slot, &options);
                Ok(Reply::Done)
            }
            Command::Info(id) => Ok(Reply::Info(tcp_info(&self.live(id)?, now))),
            Command::Send(id) => self.done(now, id, |conn| on_send(conn, false)),
            Command::SendMore(id) => self.done(now, id, |conn| on_send(conn, true)),
            Command::SendUrgent(id, end) => self.done(now, id, |conn| {
                on_send(conn, false)?;
                conn.send_part().mark_urgent(end);
                Ok(())
            }),
            Command::QuickAck(id) => self.tell(now, id, acknowledge_quickly),
            Command::Push(id) => self.tell(now, id, |conn| conn.push()),
            Command::Received(id) => self.tell(now, id, |conn| on_read(conn, now)),
            Command::Shutdown(id) => self.done(now, id, shutdown),
            Command::ShutdownRead(id) => self.tell(now, id, |conn| conn.cold.read_shut = true),
            Command::Close(id) => self.close(now, id),
            Command::Abort(id) => self.tell(now, id, |conn| abort_by_user(conn, now)),
            Command::AbortAll => Ok(self.abort_all(now)),
            Command::SetOptions { conn, options } => {
                self.tell(now, conn, |conn| set_options(conn, now, options))
            }
        }
    }

    pub fn live(&mut self, id: ConnId) -> Result<Conn<'_>, Error> {
        let conn = self.conns.live(id, &mut self.shared);
        conn.ok_or(Error::BadId)
    }

    fn done(
        &mut self,
        now: Instant,
        id: ConnId,
        call: impl FnOnce(&mut Conn<'_>) -> Result<(), Error>,
    ) -> Result<Reply, Error> {
        let mut conn = self.live(id)?;
        call(&mut conn)?;
        if conn.is_over() {
            self.settle(now, id.slot);
        }
        Ok(Reply::Done)
    }

    /// A call that a live connection cannot refuse.
    fn tell(
        &mut self,
        now: Instant,
        id: ConnId,
        call: impl FnOnce(&mut Conn<'_>),
    ) -> Result<Reply, Error> {
        self.done(now, id, |conn| {
            call(conn);
            Ok(())
        })
    }

    fn abort_all(&mut self, now: Instant) -> Reply {
        let slots: Vec<u32> = self.conns.slots.iter().collect();
        for slot in slots {
            // Those that are over stay so.
            let _ = self.tell(now, self.conns.id_of(slot), |conn| abort_by_user(conn, now));
        }
        Reply::Done
    }

    pub(super) fn unlisten(
        &mut self,
        now: Instant,
        id: ListenerId,
        leaves: bool,
    ) -> Result<Reply, Error> {
        let slot = self.setup.listeners.resolve(id)?;
        self.setup().withdraw(slot);
        // Without other stacks there is nobody to leave it to but the other listeners.
        let leaves = leaves && self.shared.config.seat.is_some();
        leave_to_heirs(self, slot);
        self.setup().steer_listener(slot, false);
        self.empty(now, slot, !leaves);
        if leaves {
            self.setup.listeners.leave(slot);
        } else {
            self.setup.listeners.remove(slot);
        }
        Ok(Reply::Done)
    }

    /// Connections that nobody took are reset, or left to others without a word. Those that were
    /// announced stay, closed, until the application gives them back.
    fn empty(&mut self, now: Instant, listener: u32, resets: bool) {
        while let Some(mut conn) = self
            .setup
            .listeners
            .at(listener)
            .and_then(|entry| entry.waiting.front())
            .and_then(|place| self.conns.at(place, &mut self.shared))
        {
            if !conn.hot.state.is_over() {
                if resets {
                    conn.send_reset(now);
                }
                conn.fail(Error::Aborted);
            }
            conn.hot.state = State::Closed;
            conn.clear(Flags::BACKLOG);
            leave_backlog(&mut conn, &mut self.setup.listeners);
            let slot = conn.slot();
            self.settle(now, slot);
        }
        self.setup().drop_half_open_of(now, listener, resets);
        if let Some(entry) = self.setup.listeners.at(listener) {
            self.shared.options.release(entry.set);
        }
    }

    fn accept(&mut self, now: Instant, id: ConnId, token: Token) -> Result<Reply, Error> {
        let conn = self.conns.live(id, &mut self.shared);
        let mut conn = conn.ok_or(Error::BadId)?;
        if !conn.has(Flags::BACKLOG) || conn.has(Flags::UNANNOUNCED) {
            return Err(Error::Invalid);
        }
        release_withheld_ack(&mut conn, now);
        conn.clear(Flags::BACKLOG);
        conn.cold.token = token;
        if !conn.hot.ready.is_empty() {
            conn.sh.queues.push_news(conn.place);
        }
        if let Some(listener) = self.setup.listeners.at_mut(conn.cold.listener) {
            listener.pace.accept();
        }
        leave_backlog(&mut conn, &mut self.setup.listeners);
        self.survivors
            .bequeath(id.slot, &mut self.conns, &mut self.shared);
        Ok(Reply::Done)
    }

    /// OPEN, active.
    /// RFC 9293 MUST-43, MUST-44.
    pub fn connect(&mut self, now: Instant, request: &Connect<'_>) -> Result<Opened, Error> {
        let (local, remote) = (request.local.map(canonical), canonical(request.remote));
        let local_ip = local
            .map(|local| local.ip())
            .filter(|ip| !ip.is_unspecified());
        check_destination(local_ip, remote)?;
        let path = *self.shared.net.way_out(remote.ip(), local_ip)?;
        let port = local.map_or(0, |local| local.port());
        let ends = FlowKey::between(path.src, port, remote.ip(), remote.port());
        let (port, digest, after) = self.choose_port(now, &ends)?;
        let key = ends.with_local_port(port);
        let Digest { hash, origin } = digest;
        let mut start = isn::start(now, origin);
        start.iss = beyond(start.iss, after);
        if !self.flows.enter(&key) {
            return Err(Error::NoBuffers);
        }
        let opening = Opening {
            key: &key,
            path: &path,
            options: self
                .shared
                .options
                .take_known(request.known, request.options),
            start,
            token: request.token,
        };
        let opened = self.open_active(now, &opening, hash).inspect_err(|_| {
            self.shared.options.release(opening.options);
            self.flows.leave(&key);
        })?;
        self.shared.counters.connects += 1;
        Ok(opened)
    }

    /// The local port of `ends`, a free one if that is 0, and where sequence numbers ended if a
    /// TIME_WAIT record had to go for it.
    fn choose_port(
        &mut self,
        now: Instant,
        ends: &FlowKey,
    ) -> Result<(u16, Digest, Option<SeqNumber>), Error> {
        let lookup = Lookup::new(&self.flows, &self.conns, &self.setup, &self.time_wait);
        let (handover, listeners) = (self.handover.as_ref(), &self.setup.listeners);
        let candidate = |ends: &FlowKey| {
            let local = ends.local();
            let is_ours = handover.is_none_or(|handover| handover.owns(local.port()));
            let is_free = is_ours && !listeners.listens(local);
            is_free.then(|| lookup.between(ends))
        };
        let may_reuse = |id| self.time_wait.may_reuse(now, id);
        let (port, between) = match ends.local().port() {
            0 => {
                let arrivals = self.shared.config.arrivals.as_ref();
                pick_port(&mut self.ports, ends, arrivals, candidate, may_reuse)
                    .ok_or(Error::AddressNotAvailable)?
            }
            port => (port, lookup.between(ends)),
        };
        let Some(id) = between.taken else {
            return Ok((port, between.digest, None));
        };
        if !may_reuse(id) {
            // As on Linux: the port is bound, it is the pair that is taken.
            return Err(Error::AddressNotAvailable);
        }
        let slot = flow::index(id) as u32;
        let after = self.time_wait.at(slot).map(|record| record.snd_nxt);
        self.time_waits().end(slot);
        Ok((port, between.digest, after))
    }

    fn open_active(
        &mut self,
        now: Instant,
        opening: &Opening<'_>,
        hash: FlowHash,
    ) -> Result<Opened, Error> {
        let slot = self.conns.slots.alloc().ok_or(Error::NoMemory)?;
        let limits = {
            let options = self.shared.options.at(opening.options);
            limits(&self.shared.config, options)
        };
        let stream = match self.shared.reserve(self.home, slot, limits) {
            Ok(stream) if self.shared.streams.grant(stream).is_ok() => stream,
            _ => {
                self.conns.free(slot);
                return Err(Error::NoMemory);
            }
        };
        let placed = self
            .conns
            .place(slot, opening.key, hash, &mut self.shared.queues);
        let (hot, cold) = placed.ok_or(Error::NoMemory)?;
        let options = self.shared.options.at(opening.options);
        let (config, loss) = (&self.shared.config, &mut self.shared.loss);
        *hot = open::hot(config, loss.rto_bounds, opening, options, now);
        hot.loss.mss = open::unheard_mss(config, opening.path, options);
        open::renew(cold, config, opening, options, now, &mut loss.models);
        cold.statistics.active = true;
        hot.state = State::SynSent;
        if stream != slot {
            self.conns.set_stream(slot, stream);
        }
        self.flows.insert(hash, flow::id(flow::CONNECTION, slot));
        self.survivors
            .bequeath(slot, &mut self.conns, &mut self.shared);
        let conn = self.conns.view(slot, &mut self.shared);
        let is_deferred = conn.is_some_and(|mut conn| {
            start_cold_timers(&mut conn, now);
            begin_active(&mut conn, now);
            conn.cold.open.fast_open == FastOpen::Waiting
        });
        Ok(Opened {
            conn: self.conns.id_of(slot),
            local: opening.key.local(),
            is_deferred,
            options: self.shared.options.name(opening.options),
        })
    }
}

/// OPEN, passive.
fn listen(tcp: &mut Tcp, listener: Listener) -> Result<Reply, Error> {
    let reply = tcp.setup().listen(listener)?;
    if let Reply::Listening(id, _) = reply {
        begin_accepting(tcp, id.slot);
    }
    Ok(reply)
}

/// SEND: the bytes are in the stream already.
fn on_send(conn: &mut Conn<'_>, more: bool) -> Result<(), Error> {
    match conn.hot.state {
        State::Closed | State::Listen | State::TimeWait => Err(Error::NotConnected),
        _ if conn.has(Flags::FIN_QUEUED) => Err(Error::BrokenPipe),
        _ => {
            release_syn(conn);
            conn.cold.snd.more_follows = more;
            conn.mark_output();
            Ok(())
        }
    }
}

fn acknowledge_quickly(conn: &mut Conn<'_>) {
    conn.hot.rcv.quick_acks = conn.sh.config.quick_acks;
    if conn.has(Flags::ACK_DELAYED) {
        conn.mark_ack();
    }
}

fn abort_by_user(conn: &mut Conn<'_>, now: Instant) {
    conn.set(Flags::APP_CLOSED);
    if !conn.hot.state.is_over() {
        conn.abort(now);
    }
}

/// The options were `before`: another algorithm may take over.
fn fit_congestion(conn: &mut Conn<'_>, now: Instant, before: &Options) {
    let default = conn.sh.config.congestion;
    let kind = conn.options().congestion.unwrap_or(default);
    if kind == before.congestion.unwrap_or(default) || conn.hot.state.is_over() {
        return;
    }
    let (seed, is_open) = (conn.cold.iss.0, conn.hot.state.is_synchronized());
    conn.loss().congestion().change(now, kind, seed, is_open);
}

/// The options were `before`: the limits that the application chose apply; one that it leaves
/// to us stays as it is.
fn fit_buffers(conn: &mut Conn<'_>, before: &Options) {
    let options = *conn.options();
    let limits = limits(&conn.sh.config, &options);
    if options.recv_buffer != before.recv_buffer {
        conn.receive().set_limit(limits.recv);
    }
    if options.send_buffer != before.send_buffer {
        conn.send_part().fit_limit();
    }
}

/// RFC 9293 MUST-24, MUST-17, SHLD-21.
fn set_options(conn: &mut Conn<'_>, now: Instant, options: Options) {
    let before = *conn.options();
    let set = conn.sh.options.take(&options);
    let set = std::mem::replace(&mut conn.cold.options, set);
    conn.sh.options.release(set);
    if options.nodelay && !before.nodelay {
        // As on Linux, it lets go what is corked.
        conn.send_part().pull_cork();
    }
    fit_congestion(conn, now, &before);
    conn.cold.path = marked(&conn.cold.path, &options);
    conn.hot.set(Flags::NODELAY, options.nodelay);
    conn.loss().congestion().limit_rate(options.max_pacing_rate);
    fit_buffers(conn, &before);
    conn.bound_unsent();
    if conn.sh.streams.app_wants_space(conn.stream) {
        conn.notify(Ready::WRITABLE);
    }
    if conn.hot.state.is_synchronized() {
        conn.path().fit_segments();
    }
    if !conn.hot.state.is_over() {
        choose_cold_timers(conn);
        start_cold_timers(conn, now);
        // Nagle may have held something back.
        conn.mark_output();
    }
}

fn canonical(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip().to_canonical(), addr.port())
}

/// RFC 9293 MUST-46.
fn check_destination(local: Option<IpAddr>, remote: SocketAddr) -> Result<(), Error> {
    let mixed = local.is_some_and(|local| local.is_ipv4() != remote.is_ipv4());
    if mixed || remote.port() == 0 || !is_valid_source(remote.ip()) {
        return Err(Error::Invalid);
    }
    Ok(())
}
