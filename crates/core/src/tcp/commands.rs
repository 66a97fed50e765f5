//! The user calls (RFC 9293 §3.9.1).

use std::net::{IpAddr, SocketAddr};

use wire::ip::is_valid_source;
use wire::time::Instant;

use crate::command::{Command, Options, Reply};
use crate::error::Error;
use crate::event::Ready;
use crate::flow::{self, Digest, FlowHash, FlowKey};
use crate::id::{ConnId, ListenerId, Token};
use crate::info::State;
use crate::tcp::Tcp;
use crate::tcp::conn::Conn;
use crate::tcp::fast_open::FastOpen;
use crate::tcp::half_open::beyond;
use crate::tcp::isn;
use crate::tcp::listen::Listener;
use crate::tcp::open::{self, Opening, limits, marked};
use crate::tcp::pacing::Pacing;
use crate::tcp::tcb::Flags;

impl Tcp {
    pub fn execute(&mut self, now: Instant, command: Command) -> Result<Reply, Error> {
        match command {
            Command::Listen {
                token,
                local,
                only_v6,
                backlog,
                options,
            } => self.listen(Listener::new(
                token,
                canonical(local),
                only_v6,
                backlog,
                options,
            )),
            Command::Unlisten(listener) => self.unlisten(now, listener),
            Command::Connect {
                token,
                local,
                remote,
                options,
            } => self.connect(now, token, local.map(canonical), canonical(remote), options),
            Command::Accept { conn, token } => self.accept(conn, token),
            Command::SetListenerOptions { listener, options } => {
                let slot = self.listeners.resolve(listener)?;
                self.set_listener_options(slot, &options);
                Ok(Reply::Done)
            }
            Command::Info(id) => Ok(Reply::Info(self.live(id)?.info(now))),
            Command::Send(id) => self.done(now, id, |conn| conn.on_send(false)),
            Command::SendMore(id) => self.done(now, id, |conn| conn.on_send(true)),
            Command::QuickAck(id) => self.done(now, id, |conn| {
                conn.acknowledge_quickly();
                Ok(())
            }),
            Command::Received(id) => self.done(now, id, |conn| {
                conn.on_received(now);
                Ok(())
            }),
            Command::Shutdown(id) => self.done(now, id, |conn| conn.shutdown()),
            Command::ShutdownRead(id) => self.done(now, id, |conn| {
                conn.cold.read_shut = true;
                Ok(())
            }),
            Command::Close(id) => self.done(now, id, |conn| {
                conn.close(now);
                Ok(())
            }),
            Command::Abort(id) => self.done(now, id, |conn| {
                conn.abort_by_user(now);
                Ok(())
            }),
            Command::SetOptions { conn, options } => self.done(now, conn, |conn| {
                conn.set_options(now, options);
                Ok(())
            }),
        }
    }

    fn live(&mut self, id: ConnId) -> Result<Conn<'_>, Error> {
        if !self.conns.slots.is_live(id.slot, id.generation) {
            return Err(Error::BadId);
        }
        self.conns
            .view(id.slot, &mut self.shared)
            .ok_or(Error::BadId)
    }

    fn done(
        &mut self,
        now: Instant,
        id: ConnId,
        call: impl FnOnce(&mut Conn<'_>) -> Result<(), Error>,
    ) -> Result<Reply, Error> {
        call(&mut self.live(id)?)?;
        self.settle(now, id.slot);
        Ok(Reply::Done)
    }

    /// The id of a live slot.
    pub fn id_of(&self, slot: u32) -> ConnId {
        ConnId {
            slot,
            generation: self.conns.slots.generation(slot),
        }
    }

    fn listen(&mut self, mut listener: Listener) -> Result<Reply, Error> {
        let ip = listener.local.ip();
        if !(ip.is_unspecified() || self.shared.net.is_local(ip)) {
            return Err(Error::AddressNotAvailable);
        }
        if listener.local.port() == 0 {
            let port = self.free_listen_port(listener).ok_or(Error::AddressInUse)?;
            listener.local.set_port(port);
        }
        let id = self.listeners.insert(listener)?;
        self.set_listener_options(id.slot, &listener.options);
        Ok(Reply::Listening(id, listener.local))
    }

    fn set_listener_options(&mut self, slot: u32, options: &Options) {
        if let Some(entry) = self.listeners.at_mut(slot) {
            let set = self.shared.options.take(options);
            let before = entry.set_options(*options, set);
            self.shared.options.release(before);
        }
    }

    fn free_listen_port(&self, mut listener: Listener) -> Option<u16> {
        let (first, last) = self.shared.config.ephemeral;
        (first.max(1)..=last).find(|&port| {
            listener.local.set_port(port);
            self.listeners.is_free(&listener)
        })
    }

    /// Connections that nobody took are reset. Those that were announced stay, closed, until the application gives them back.
    fn unlisten(&mut self, now: Instant, id: ListenerId) -> Result<Reply, Error> {
        let listener = self.listeners.resolve(id)?;
        while let Some(slot) = self
            .listeners
            .at(listener)
            .and_then(|entry| entry.waiting.front())
        {
            if let Some(mut conn) = self.conns.view(slot, &mut self.shared) {
                if !conn.hot.state.is_over() {
                    conn.send_reset(now);
                    conn.fail(Error::Aborted);
                }
                conn.hot.state = State::Closed;
                conn.clear(Flags::BACKLOG);
            }
            self.listeners
                .leave_backlog(listener, slot, &mut self.shared.queues);
            self.settle(now, slot);
        }
        self.drop_half_open_of(listener);
        if let Some(entry) = self.listeners.at(listener) {
            self.shared.options.release(entry.set);
        }
        self.listeners.remove(listener);
        Ok(Reply::Done)
    }

    fn drop_half_open_of(&mut self, listener: u32) {
        for slot in 0..self.half_open.slots.high_water() {
            let generation = self.half_open.slots.generation(slot);
            let record = self
                .half_open
                .at(slot)
                .filter(|_| self.half_open.slots.is_live(slot, generation));
            if record.is_some_and(|record| u32::from(record.listener) == listener) {
                self.drop_half_open(slot);
            }
        }
    }

    fn accept(&mut self, id: ConnId, token: Token) -> Result<Reply, Error> {
        let mut conn = self.live(id)?;
        if !conn.has(Flags::BACKLOG) || conn.has(Flags::UNANNOUNCED) {
            return Err(Error::Invalid);
        }
        conn.clear(Flags::BACKLOG);
        conn.cold.token = token;
        if !conn.hot.ready.is_empty() {
            conn.sh.queues.push_news(id.slot);
        }
        let listener = conn.cold.listener;
        self.listeners
            .leave_backlog(listener, id.slot, &mut self.shared.queues);
        Ok(Reply::Done)
    }

    /// OPEN, active.
    /// RFC 9293 MUST-43, MUST-44.
    fn connect(
        &mut self,
        now: Instant,
        token: Token,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        options: Options,
    ) -> Result<Reply, Error> {
        let local_ip = local
            .map(|local| local.ip())
            .filter(|ip| !ip.is_unspecified());
        check_destination(local_ip, remote)?;
        let path = self.shared.net.path(remote.ip(), local_ip)?;
        let port = local.map_or(0, |local| local.port());
        let (key, after) = self.choose_endpoints(now, path.src, port, remote)?;
        let Digest { hash, origin } = self.flows.digest(&key);
        let mut start = isn::start(now, origin);
        start.iss = beyond(start.iss, after);
        let opening = Opening {
            key,
            path,
            options,
            set: self.shared.options.take(&options),
            start,
            token,
        };
        let slot = self.open_active(now, &opening, hash).inspect_err(|_| {
            self.shared.options.release(opening.set);
        })?;
        self.shared.counters.connects += 1;
        let (id, local) = (self.id_of(slot), key.local());
        Ok(if self.live(id)?.cold.fast_open == FastOpen::Waiting {
            Reply::Deferred(id, local)
        } else {
            Reply::Connecting(id, local)
        })
    }

    /// The local port, and where sequence numbers between the endpoints ended if a TIME_WAIT record had to go for it.
    fn choose_endpoints(
        &mut self,
        now: Instant,
        local: IpAddr,
        port: u16,
        remote: SocketAddr,
    ) -> Result<(FlowKey, Option<wire::seq::SeqNumber>), Error> {
        let port = match port {
            0 => self
                .pick_port(now, local, remote)
                .ok_or(Error::AddressNotAvailable)?,
            port => port,
        };
        let key = FlowKey::new(SocketAddr::new(local, port), remote);
        let hash = self.flows.hash(&key);
        let Some(id) = self.lookup(hash, &key) else {
            return Ok((key, None));
        };
        let slot = flow::index(id) as u32;
        if flow::tag(id) != flow::TIME_WAIT as usize || !self.time_wait.may_reuse(now, slot) {
            // As on Linux: the port is bound, it is the pair that is taken.
            return Err(Error::AddressNotAvailable);
        }
        let after = self.time_wait.at(slot).map(|record| record.snd_nxt);
        self.end_time_wait(slot);
        Ok((key, after))
    }

    /// A port that nothing uses towards `remote`; if there is none, one whose TIME_WAIT may be cut short.
    fn pick_port(&mut self, now: Instant, local: IpAddr, remote: SocketAddr) -> Option<u16> {
        // Taken out so that the closures can look at the rest.
        let mut ports = self.ports.take()?;
        let state = |port| {
            let here = SocketAddr::new(local, port);
            let key = FlowKey::new(here, remote);
            (
                self.listeners.find(here),
                self.lookup(self.flows.hash(&key), &key),
            )
        };
        let is_ours = |port| {
            self.handover
                .as_ref()
                .is_none_or(|handover| handover.owns(port))
        };
        let unused = |port| is_ours(port) && matches!(state(port), (None, None));
        let reusable = |port| match state(port) {
            (None, Some(id)) if is_ours(port) => {
                flow::tag(id) == flow::TIME_WAIT as usize
                    && self.time_wait.may_reuse(now, flow::index(id) as u32)
            }
            _ => false,
        };
        let port = ports
            .pick(local, remote, unused)
            .or_else(|| ports.pick(local, remote, reusable));
        self.ports = Some(ports);
        port
    }

    fn open_active(
        &mut self,
        now: Instant,
        opening: &Opening,
        hash: FlowHash,
    ) -> Result<u32, Error> {
        let slot = self.conns.slots.alloc().ok_or(Error::NoMemory)?;
        let limits = limits(&self.shared.config, &opening.options);
        if self.shared.streams.open(slot, limits).is_err() {
            self.conns.slots.free(slot);
            return Err(Error::NoMemory);
        }
        let mut hot = open::hot(&self.shared.config, opening, now);
        let models = &mut self.shared.models;
        let mut cold = open::cold(&self.shared.config, opening, now, models);
        cold.tally.active = true;
        hot.state = State::SynSent;
        self.conns.init(slot, &hot, &cold, opening.key, hash);
        self.shared.queues.grow_connections(slot);
        self.flows.insert(hash, flow::id(flow::CONNECTION, slot));
        if let Some(mut conn) = self.conns.view(slot, &mut self.shared) {
            conn.start_cold_timers(now);
            conn.begin_active(now);
        }
        Ok(slot)
    }
}

impl Conn<'_> {
    /// SEND: the bytes are in the stream already.
    fn on_send(&mut self, more: bool) -> Result<(), Error> {
        match self.hot.state {
            State::Closed | State::Listen | State::TimeWait => Err(Error::NotConnected),
            _ if self.has(Flags::FIN_QUEUED) => Err(Error::BrokenPipe),
            _ => {
                self.release_syn();
                self.expect_more(more);
                self.mark_output();
                Ok(())
            }
        }
    }

    fn acknowledge_quickly(&mut self) {
        self.hot.quick_acks = self.sh.config.quick_acks;
        if self.has(Flags::ACK_DELAYED) {
            self.mark_ack();
        }
    }

    fn abort_by_user(&mut self, now: Instant) {
        self.set(Flags::APP_CLOSED);
        if !self.hot.state.is_over() {
            self.abort(now);
        }
    }

    /// RFC 9293 MUST-24, MUST-17, SHLD-21.
    fn set_options(&mut self, now: Instant, options: Options) {
        let before = *self.options();
        let set = self.sh.options.take(&options);
        let set = std::mem::replace(&mut self.cold.options, set);
        self.sh.options.release(set);
        if options.nodelay && !before.nodelay {
            // As on Linux, it lets go what is corked.
            self.pull_cork();
        }
        self.cold.path = marked(self.cold.path, &options);
        self.hot.flags.set(Flags::NODELAY, options.nodelay);
        self.cold.pacing = Pacing::default();
        self.pace();
        self.fit_buffers(&before);
        self.bound_unsent();
        if self.sh.streams.app_wants_space(self.slot) {
            self.notify(Ready::WRITABLE);
        }
        if self.hot.state.is_synchronized() {
            self.fit_segments();
        }
        if !self.hot.state.is_over() {
            self.start_cold_timers(now);
            // Nagle may have held something back.
            self.mark_output();
        }
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
