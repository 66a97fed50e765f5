//! The stack as its drivers see it.

use std::io;
use std::time::Duration;

use wire::frame::{FrameSink, MacAddr, RxFrame};
use wire::steering::Steering;
use wire::syn_offload::SynOffload;
use wire::time::Instant;

use crate::config::Network;
use crate::tcp::listing::list;
use crate::tcp::{Acks, Tcp};
use crate::{
    AppStreams, Command, Config, ConnId, Connect, Counters, Error, Event, ListLimits, ListedSocket,
    Opened, PortId, Reply, Testament, Told, Undelivered, Usage,
};

/// One TCP/IP stack: one core's share of the connections, driven by one thread, deterministic.
///
/// Feed it with [`receive`](Self::receive) (frames from a port), [`execute`](Self::execute) (calls
/// of the application) and [`advance`](Self::advance) (time), in any order; then drain it, in this
/// order: [`transmit`](Self::transmit) for each port, [`poll_event`](Self::poll_event) until
/// `None`, [`next_deadline`](Self::next_deadline). `now` never decreases. Nothing here blocks,
/// reads a clock, takes a lock, allocates per packet or panics on input. What is due but not
/// transmitted stays due: a driver that lets the application react to events *before* it calls
/// `transmit` gets ACKs that ride on data.
///
/// Bytes do not pass through here: they are in the streams ([`AppStreams`]) that [`Stack::new`]
/// returns, and which another thread may own.
#[derive(Debug)]
pub struct Stack {
    pub(crate) tcp: Tcp,
}

impl Stack {
    /// A stack and the application's end of its byte streams.
    ///
    /// # Errors
    /// `config` contradicts itself (says what), or memory could not be reserved.
    pub fn new(config: Config) -> io::Result<(Self, AppStreams)> {
        config.check()?;
        let (tcp, streams) = Tcp::new(config, None)?;
        Ok((Self { tcp }, streams))
    }

    /// The same, and what this stack knows outlives it: it notes in `testament` which connections
    /// there are, so that the stack that takes its place can go on with them, or tell their peers,
    /// as this one does for those that it finds there, and in the testaments of `others` that are
    /// gone, if it takes their places too.
    ///
    /// # Errors
    /// As [`Stack::new`].
    pub fn heir(
        config: Config,
        now: Instant,
        mut testament: Testament,
        others: Vec<Testament>,
    ) -> io::Result<(Self, AppStreams)> {
        config.check()?;
        let mut left = testament.inherit();
        for other in others {
            left.extend(testament.inherit_too(other, &config));
        }
        let plot = testament.take_plot(&config);
        let (mut tcp, mut streams) = Tcp::new(config, plot)?;
        tcp.inherit(now, testament, left, &mut streams);
        Ok((Self { tcp }, streams))
    }

    /// From now on `link`, of the only port that leads to others, answers SYNs in our name. False,
    /// and it does not: this stack answers them in ways that the link cannot, or has flows already.
    pub fn offload_syns(&mut self, link: Box<dyn SynOffload>) -> bool {
        self.tcp.setup().offload_syns(link)
    }

    /// To be called before anything else, where the kernel has the addresses of the stack, too: its
    /// segments come to it once `steering` is told of them.
    pub fn steer(&mut self, steering: Box<dyn Steering>) {
        self.tcp.setup().flows.steer(steering);
    }

    /// Takes a burst of frames (at most [`wire::frame::BURST`] are processed in one pass) that
    /// arrived on `port`.
    pub fn receive(&mut self, now: Instant, port: PortId, frames: &[RxFrame<'_>]) {
        self.tcp.receive(now, port, frames);
    }

    /// Carries out one call of the application.
    ///
    /// # Errors
    /// The call was refused; nothing changed.
    #[inline]
    pub fn execute(&mut self, now: Instant, command: Command) -> Result<Reply, Error> {
        self.tcp.execute(now, command)
    }

    /// [`Command::Connect`].
    ///
    /// # Errors
    /// The call was refused; nothing changed.
    #[inline]
    pub fn connect(&mut self, now: Instant, request: &Connect<'_>) -> Result<Opened, Error> {
        self.tcp.connect(now, request)
    }

    /// Fires the timers that are due, a bounded number; [`next_deadline`](Self::next_deadline) says
    /// if more are.
    pub fn advance(&mut self, now: Instant) {
        self.tcp.advance(now);
    }

    /// Writes what is due on `port` into frames of `sink`: control segments, then ACKs, then data,
    /// until nothing is due or the sink is full.
    pub fn transmit(&mut self, now: Instant, port: PortId, sink: &mut impl FrameSink) {
        self.transmit_with(now, port, Acks::All, sink);
    }

    /// The same, with all ACKs or those that cannot wait.
    pub fn transmit_with(
        &mut self,
        now: Instant,
        port: PortId,
        acks: Acks,
        sink: &mut impl FrameSink,
    ) {
        self.tcp.transmit(now, port, acks, sink);
    }

    /// Whether something of TCP is still due on `port`: after [`transmit`](Self::transmit), because
    /// the sink was full; or because ACKs wait.
    pub fn has_output(&self, port: PortId) -> bool {
        self.tcp.shared.has_output(port)
    }

    /// Whether [`transmit`](Self::transmit) has something for `port`: what the sink did not take,
    /// or what sending gave rise to (a question for the address of a neighbour).
    pub fn has_more_output(&self, port: PortId) -> bool {
        self.has_packets(port) || self.has_output(port)
    }

    /// Whether one of the stack's own packets is due on `port`: an answer of ARP, NDP or ICMP, or a
    /// question for the address of a neighbour. After [`transmit`](Self::transmit): because the
    /// sink was full, or because sending gave rise to it.
    pub fn has_packets(&self, port: PortId) -> bool {
        self.tcp.shared.net.links.has_output(port)
    }

    /// The next thing that the application should know.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.tcp.poll_event()
    }

    /// Whether [`poll_event`](Self::poll_event) may have something.
    pub fn has_events(&self) -> bool {
        self.tcp.shared.queues.news_len() > 0
    }

    /// When [`advance`](Self::advance) wants to be called next; past values mean now; `None`: no
    /// timer runs.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.tcp.next_deadline()
    }

    /// What eight of nine round trips measured lately took longer than, over all connections; zero:
    /// none was measured.
    pub fn near_rtt(&self) -> Duration {
        self.tcp.shared.loss.near_rtt.get()
    }

    /// An address of ours that another host on the link has, too, and who that is; each once a
    /// minute at most.
    #[inline]
    pub fn take_contested(&mut self, now: Instant) -> Option<(std::net::IpAddr, MacAddr)> {
        self.tcp.shared.net.links.claims.take_contested(now)
    }

    /// A neighbour that the kernel of this host is to be asked for, if it asks
    /// ([`NeighbourSource::Kernel`](crate::config::NeighbourSource::Kernel)).
    #[inline]
    pub fn poll_question(&mut self) -> Option<(PortId, std::net::IpAddr)> {
        self.tcp.shared.net.links.poll_question()
    }

    /// The kernel of this host said something of a neighbour.
    pub fn hear_of(&mut self, now: Instant, port: PortId, addr: std::net::IpAddr, told: Told) {
        let shared = &mut self.tcp.shared;
        let links = &mut shared.net.links;
        links.hear(now, (port, addr), told, &mut shared.counters);
    }

    /// Takes the links, addresses and routes that there are now. Connections go on by the way that
    /// there is for them; those without one, or whose address is gone, wait until there is one, or
    /// time out.
    ///
    /// # Errors
    /// It makes no sense (the text says what and why); what was before holds.
    pub fn set_network(&mut self, network: Network) -> io::Result<()> {
        let tcp = &mut self.tcp;
        let slots = tcp.conns.at_hand().map(|(slot, _)| slot);
        tcp.rerouting.change(network, &mut tcp.shared, slots)
    }

    /// What was counted since the stack was made.
    pub fn counters(&self) -> &Counters {
        &self.tcp.shared.counters
    }

    /// Places for connections at hand that have memory.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        self.tcp.places()
    }

    /// What peers have still to acknowledge of what the application has closed. Looks at each
    /// connection.
    pub fn undelivered(&self) -> Undelivered {
        self.tcp.undelivered(None)
    }

    /// The same of one connection: nothing if it is not closed, or gone.
    pub fn undelivered_of(&self, conn: ConnId) -> Undelivered {
        self.tcp.undelivered(Some(conn))
    }

    /// Appends sockets to `sockets` whose owner `is_wanted`: from the place `from` on, which is 0
    /// or what this returned before. `None`: those were the last. One that is there all the time is
    /// listed exactly once; one that comes or goes meanwhile may be.
    pub fn list_sockets(
        &mut self,
        from: u64,
        limits: ListLimits,
        is_wanted: impl Fn(u32) -> bool,
        sockets: &mut Vec<ListedSocket>,
    ) -> Option<u64> {
        let next = list(&mut self.tcp, from, limits, &is_wanted, sockets);
        self.show();
        next
    }

    /// What the stack holds now.
    pub fn usage(&self) -> Usage {
        self.tcp.usage()
    }
}
