//! Connections between the script's numbers and those on the wire.

use std::collections::HashMap;

/// Our port and the peer's.
pub(super) type Ports = (u16, u16);

/// Initial sequence number of the peer on the wire where the script says 0: soon wraps.
const PEER_ISS: u32 = u32::MAX - 2_999;
/// The peer's first port.
const FIRST_PORT: u16 = 40_001;

/// One connection, by what the two sides call its numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// Our SYN, once it was seen: what the script calls it, and its number on the wire.
    local: Option<(u32, u32)>,
    /// What the script calls the peer's first SYN. Once there was a SYN of ours too, its numbers
    /// count from there, but not in SYNs.
    remote: Option<u32>,
    /// A SYN of ours may have another number from now on.
    reopened: bool,
    /// TS val of ours: script and wire.
    stamps: HashMap<u32, u32>,
    first_stamp: Option<(u32, u32)>,
}

/// Fast Open cookies: script and wire. They outlive connections.
pub(super) type Cookies = HashMap<Vec<u8>, Vec<u8>>;

impl Flow {
    /// What the wire says for a number of ours, in a segment with or without SYN.
    pub fn local_to_wire(&self, seq: u32, syn: bool) -> u32 {
        seq.wrapping_add(self.local_zero(syn))
    }

    pub fn local_to_script(&self, seq: u32, syn: bool) -> u32 {
        seq.wrapping_sub(self.local_zero(syn))
    }

    fn local_zero(&self, syn: bool) -> u32 {
        let (script, wire) = self.local.unwrap_or_default();
        wire.wrapping_sub(if syn { script } else { 0 })
    }

    /// A SYN of ours with this number, where the script says `script`.
    pub fn see_syn(&mut self, script: u32, wire: u32) {
        if self.local.is_none() || self.reopened {
            self.local = Some((script, wire));
            self.reopened = false;
        }
    }

    /// A SYN of the peer with this number.
    pub fn see_peer_syn(&mut self, script: u32) {
        self.remote.get_or_insert(script);
    }

    /// What the wire says for a number of the peer, in a segment with or without SYN.
    pub fn peer_to_wire(&self, seq: u32, syn: bool) -> u32 {
        seq.wrapping_add(self.peer_zero(syn))
    }

    pub fn peer_to_script(&self, seq: u32, syn: bool) -> u32 {
        seq.wrapping_sub(self.peer_zero(syn))
    }

    fn peer_zero(&self, syn: bool) -> u32 {
        let open = self.local.is_some();
        let isn = self.remote.filter(|_| open && !syn).unwrap_or(0);
        PEER_ISS.wrapping_add(isn)
    }

    /// A new connection may begin.
    pub fn reopen(&mut self) {
        self.reopened = true;
    }

    /// Takes note of a TS val of ours; false if it is not the one that the script's value stood for
    /// before. `tick`: microseconds that a step of the script's stands for, and the tolerance.
    pub fn see_stamp(&mut self, script: u32, wire: u32, tick: Option<(u32, i64)>) -> bool {
        if let Some(known) = self.stamps.get(&script) {
            return *known == wire;
        }
        let (first_script, first_wire) = *self.first_stamp.get_or_insert((script, wire));
        self.stamps.insert(script, wire);
        let Some((tick, tolerance_us)) = tick else {
            return true;
        };
        let expected = i64::from(script.wrapping_sub(first_script)) * i64::from(tick);
        let actual = i64::from(wire.wrapping_sub(first_wire)) * 1000;
        (expected - actual).abs() <= tolerance_us + 1000
    }

    /// What the peer echoes.
    pub fn stamp_to_wire(&self, script: u32) -> u32 {
        match (self.stamps.get(&script), self.first_stamp) {
            (Some(wire), _) => *wire,
            (None, Some((first_script, first_wire))) if script != 0 => {
                first_wire.wrapping_add(script.wrapping_sub(first_script))
            }
            _ => script,
        }
    }

    /// The script's name for a TS val of ours, or a guess.
    pub fn stamp_to_script(&self, wire: u32) -> u32 {
        let known = self.stamps.iter().find(|(_, known)| **known == wire);
        match (known, self.first_stamp) {
            (Some((script, _)), _) => *script,
            (None, Some((first_script, first_wire))) => {
                first_script.wrapping_add(wire.wrapping_sub(first_wire))
            }
            _ => wire,
        }
    }
}

/// Who is to be named next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Known,
    /// The next packet of the peer opens a connection.
    Listening,
    /// The next packet of ours does.
    Connecting,
}

/// All connections of a script.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: HashMap<Ports, Flow>,
    current: Option<Ports>,
    next: Next,
    opened: u16,
    pub cookies: Cookies,
}

impl Flows {
    pub fn on_listen(&mut self) {
        self.next = Next::Listening;
    }

    pub fn on_connect(&mut self) {
        self.next = Next::Connecting;
    }

    /// The connection of a packet from the peer; `ports` are its source and destination.
    pub fn inbound(&mut self, ports: Option<(u16, u16)>, listening: u16, syn: bool) -> Ports {
        let key = match (ports, self.current) {
            (Some((remote, local)), _) => (local, remote),
            (None, Some(current)) if self.next != Next::Listening => current,
            _ => {
                self.opened += 1;
                (listening, FIRST_PORT - 1 + self.opened)
            }
        };
        if ports.is_none() {
            self.current = Some(key);
            self.next = Next::Known;
        }
        let flow = self.flows.entry(key).or_default();
        if syn {
            flow.reopen();
        }
        key
    }

    /// The connection that a packet of ours should belong to; `ports` are its source and
    /// destination, `actual` those on the wire.
    pub fn outbound(&mut self, ports: Option<(u16, u16)>, actual: Ports, syn: bool) -> Ports {
        if let Some(ports) = ports {
            return ports;
        }
        match self.current {
            Some(current) if self.next != Next::Connecting || !syn => current,
            _ => {
                self.current = Some(actual);
                self.next = Next::Known;
                self.flow(actual).reopen();
                actual
            }
        }
    }

    pub fn flow(&mut self, ports: Ports) -> &mut Flow {
        self.flows.entry(ports).or_default()
    }

    /// The connection, and the cookies.
    pub fn with_cookies(&mut self, ports: Ports) -> (&mut Flow, &mut Cookies) {
        (self.flows.entry(ports).or_default(), &mut self.cookies)
    }

    /// The connection that packets without ports belong to.
    pub fn current(&self) -> Option<Ports> {
        self.current
    }
}
