//! SYNs that the link answers where they arrive ([`wire::syn_offload`]): what it answers.

use wire::seq::SeqNumber;
use wire::syn_offload::SynRules;

use crate::command::{Marking, Options};
use crate::config::{Config, SynCookies};
use crate::flow::{Digest, Sip13};
use crate::ip::HOP_LIMIT;
use crate::secret;
use crate::tcp::buffers::initial_receive_window;
use crate::tcp::options::{advertised_mss, window_scale_for};
use crate::tcp::setup::isn;
use crate::tcp::setup::listen::Listener;

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
    pub fn new(config: &Config) -> Option<Self> {
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

    /// What the link is told, whose flow table has the key `flow_key`.
    pub fn rules(&self, config: &Config, flow_key: [u64; 4]) -> SynRules {
        SynRules {
            flow_key,
            iss_key: self.iss_key.state(),
            stamps: isn::STAMPS,
            window: self.window,
            mss: self.mss,
            window_scale: window_scale_for(config.max_buffer),
            ttl: HOP_LIMIT,
        }
    }

    /// The initial sequence number of the answer to a SYN. Not of the form of RFC 6528 §3: without
    /// a clock in it every copy of the SYN has the same answer. That connections between the same
    /// endpoints are told apart is left to timestamps, which all of these have (RFC 6191 §3,
    /// RFC 7323 §5).
    pub fn iss(&self, flow: Digest, irs: SeqNumber) -> SeqNumber {
        let h = u64::from(flow.origin) << 32 | u64::from(flow.hash.bits());
        SeqNumber(self.iss_key.hash([h], irs.0.to_le_bytes()) as u32)
    }

    /// Whether what the listener answers is what the link does.
    pub fn suits(&self, config: &Config, listener: &Listener) -> bool {
        let options = &listener.options;
        options.v4 == Marking::default()
            && options.fast_open.is_none()
            && options.defer_accept == 0
            && initial_receive_window(config, options) == self.window
            && advertised_mss(config, self.mtu, true, options) == self.mss
    }
}
