//! SYNs that the link answers where they arrive ([`wire::syn_offload`]): what it is told, and what
//! is done with a SYN that it has answered.

use std::net::SocketAddr;

use wire::seq::SeqNumber;
use wire::syn_offload::{SynOffload, SynRules};
use wire::time::Instant;

use crate::command::{Marking, Options};
use crate::config::{Config, SynCookies};
use crate::drops::DropReason;
use crate::flow::{Digest, Sip13};
use crate::ip::{HOP_LIMIT, Path};
use crate::secret;
use crate::tcp::Tcp;
use crate::tcp::buffers::initial_receive_window;
use crate::tcp::half_open::HalfOpen;
use crate::tcp::isn;
use crate::tcp::listen::Listener;
use crate::tcp::options::{advertised_mss, window_scale_for};
use crate::tcp::segment::Segment;

/// What SYN-ACKs of the link have in them.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    iss_key: Sip13,
    window: u16,
    mss: u16,
    mtu: u16,
}

impl Answers {
    /// `None`: with this configuration SYN-ACKs differ from each other, may leave by another link,
    /// or are made for somebody else to find.
    fn new(config: &Config) -> Option<Self> {
        let mut outside = config
            .interfaces
            .iter()
            .filter(|interface| !interface.capabilities.loops);
        let (interface, others) = (outside.next()?, outside.count());
        let differ = !config.timestamps
            || !config.window_scaling
            || config.syn_cookies == SynCookies::Always
            || config.bequeaths();
        if others > 0 || differ {
            return None;
        }
        let none = Options::default();
        let mtu = interface.capabilities.mtu;
        Some(Self {
            iss_key: Sip13::new(&secret::key(&config.secret, "answered syns")),
            window: initial_receive_window(config, &none),
            mss: advertised_mss(config, mtu, true, &none),
            mtu,
        })
    }

    /// The initial sequence number of the answer to a SYN. Not of the form of RFC 6528 §3: without
    /// a clock in it every copy of the SYN has the same answer. That connections between the same
    /// endpoints are told apart is left to timestamps, which all of these have (RFC 6191 §3,
    /// RFC 7323 §5).
    fn iss(&self, flow: Digest, irs: SeqNumber) -> SeqNumber {
        let h = u64::from(flow.origin) << 32 | u64::from(flow.hash.bits());
        SeqNumber(self.iss_key.hash([h], irs.0.to_le_bytes()) as u32)
    }

    /// Whether what the listener answers is what the link does.
    fn suits(&self, config: &Config, listener: &Listener) -> bool {
        let options = &listener.options;
        options.v4 == Marking::default()
            && options.fast_open.is_none()
            && options.defer_accept == 0
            && initial_receive_window(config, options) == self.window
            && advertised_mss(config, self.mtu, true, options) == self.mss
    }
}

impl Tcp {
    /// From now on `link` answers SYNs. False, and it does not: this stack cannot have that.
    pub fn offload_syns(&mut self, mut link: Box<dyn SynOffload>) -> bool {
        let config = &self.shared.config;
        let Some(answers) = Answers::new(config).filter(|_| self.flows.count() == 0) else {
            return false;
        };
        link.start(&SynRules {
            flow_key: self.flows.key_state(),
            iss_key: answers.iss_key.state(),
            stamps: isn::STAMPS,
            window: answers.window,
            mss: answers.mss,
            window_scale: window_scale_for(config.max_buffer),
            ttl: HOP_LIMIT,
        });
        self.flows.watch(link);
        self.answers = Some(answers);
        true
    }

    /// A SYN for a listener that the link has answered. Its ACK may be the next segment: there has
    /// to be a record of it, even where the backlog has no room now.
    pub fn open_answered(
        &mut self,
        now: Instant,
        listener: u32,
        seg: &Segment<'_>,
    ) -> Result<(), DropReason> {
        let answers = self.answers.as_ref().ok_or(DropReason::TcpState)?;
        let (hash, origin) = (seg.hash, seg.origin);
        let iss = answers.iss(Digest { hash, origin }, seg.seq);
        let path = self.shared.net.way_back(seg.key);
        let &Path { port, .. } = path.map_err(|_| DropReason::ReplyNoRoute)?;
        let record = self.half_open_record(listener, seg, iss, port);
        self.remember(now, record, seg.hash)?;
        self.shared.counters.syns_answered_by_link += 1;
        Ok(())
    }

    /// Whether it was the link that sent the first SYN-ACK.
    pub fn was_answered_by_link(&self, record: &HalfOpen) -> bool {
        let iss = |answers: &Answers| answers.iss(self.flows.digest(&record.key), record.irs);
        self.answers.as_ref().map(iss) == Some(record.iss)
    }

    /// Tells the link whether to answer SYNs to where this one went, as long as there is much room
    /// for those that it answers before we hear of it.
    pub fn offer(&mut self, listener: u32, syn: &Segment<'_>) {
        let (Some(answers), Some(entry)) = (&self.answers, self.listeners.at(listener)) else {
            return;
        };
        let slots = &self.half_open.slots;
        let has_room = entry.is_half_empty() && slots.len() < slots.capacity() / 2;
        // The link does not know for which of several a SYN is.
        let answered = has_room
            && self.listeners.is_alone(listener)
            && answers.suits(&self.shared.config, entry);
        if let (Some(link), SocketAddr::V4(local)) = (self.flows.watcher(), syn.key.local()) {
            link.offer(local, answered);
        }
    }

    /// Tells the link to leave SYNs to us that are for the port of a listener which is about to
    /// change or to go.
    pub fn withdraw(&mut self, listener: u32) {
        if let (Some(link), Some(entry)) = (self.flows.watcher(), self.listeners.at(listener)) {
            link.withdraw(entry.local.port());
        }
    }
}
