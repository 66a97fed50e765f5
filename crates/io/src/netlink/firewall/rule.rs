//! One rule, and what it says of a SYN of which only some is known.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::message::{number, text, value};
use super::set::Sets;
use super::verdict::{NFTA_DATA_VALUE, Verdict, data};

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;

/// Attributes that several expressions have under the same number.
const FIRST: u16 = 1;
const SECOND: u16 = 2;
const THIRD: u16 = 3;
const FOURTH: u16 = 4;
const FIFTH: u16 = 5;
const SIXTH: u16 = 6;

const NFT_META_PROTOCOL: u32 = 1;
const NFT_META_IIF: u32 = 4;
const NFT_META_IIFNAME: u32 = 6;
const NFT_META_IIFTYPE: u32 = 8;
const NFT_META_NFPROTO: u32 = 15;
const NFT_META_L4PROTO: u32 = 16;
const NFT_CT_STATE: u32 = 0;
/// `NF_CT_STATE_BIT(IP_CT_NEW)`, and the same as xt_conntrack has it.
const CT_NEW: u32 = 8;
const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;

const TCP: u8 = 6;
const SYN: u8 = 2;
const ARPHRD_ETHER: u16 = 1;

/// A SYN as it would come, as far as that is known: not who sends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) local: SocketAddr,
    pub(super) interface: &'a str,
    pub(super) index: u32,
}

/// A part of a rule.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    pub(super) name: String,
    pub(super) data: Vec<u8>,
}

/// What an expression says.
enum Says {
    /// The rule goes on.
    Yes,
    /// It does not.
    No,
    /// It depends on what is not known.
    Perhaps,
    Verdict(Verdict),
    /// Somebody else decides.
    Either(Verdict),
}

impl From<bool> for Says {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

impl Expression {
    pub(super) fn new(attributes: &[u8]) -> Self {
        Self {
            name: text(attributes, NFTA_EXPR_NAME).unwrap_or_default(),
            data: value(attributes, NFTA_EXPR_DATA).unwrap_or_default(),
        }
    }
}

/// What `rule` of `table` says of `packet`, and whether it surely does.
pub(super) fn judge(
    rule: &[Expression],
    packet: &Packet<'_>,
    sets: &Sets,
    table: (u8, &str),
) -> (Verdict, bool) {
    let mut registers = Registers::default();
    let mut sure = true;
    for expression in rule {
        match registers.ask(expression, packet, sets, table) {
            Says::Yes => {}
            Says::No => return (Verdict::Continue, true),
            Says::Perhaps => sure = false,
            Says::Verdict(verdict) => return (verdict, sure),
            Says::Either(verdict) => return (verdict, false),
        }
    }
    (Verdict::Continue, true)
}

/// What is known of values, by the number of their first four bytes.
#[derive(Default)]
struct Registers(HashMap<u32, Vec<u8>>);

/// Registers of 16 bytes have other numbers than those of four.
fn slot(register: u32) -> u32 {
    match register {
        1..=4 => 4 + 4 * register,
        _ => register,
    }
}

impl Registers {
    fn load(&mut self, register: u32, value: Option<Vec<u8>>) -> Says {
        match value {
            Some(value) => self.0.insert(slot(register), value),
            None => self.0.remove(&slot(register)),
        };
        Says::Yes
    }

    /// The first `length` bytes.
    fn look(&self, register: u32, length: usize) -> Option<&[u8]> {
        self.0.get(&slot(register))?.get(..length)
    }

    fn ask(
        &mut self,
        expression: &Expression,
        packet: &Packet<'_>,
        sets: &Sets,
        table: (u8, &str),
    ) -> Says {
        let data = expression.data.as_slice();
        let said = match expression.name.as_str() {
            "counter" | "log" | "objref" | "last" | "notrack" => Some(Says::Yes),
            "reject" => Some(Says::Verdict(Verdict::Drop)),
            "queue" => Some(Says::Either(Verdict::Drop)),
            "meta" => self.meta(data, packet),
            "payload" => self.payload(data, packet),
            "ct" => self.connection(data),
            "immediate" => self.immediate(data),
            "cmp" => self.compare(data),
            "range" => self.range(data),
            "bitwise" => self.mask(data),
            "lookup" => self.look_up(data, sets, table),
            "match" => extension(data, packet),
            "target" => target(data),
            _ => None,
        };
        said.unwrap_or_else(|| {
            // Whatever it did to them.
            self.0.clear();
            Says::Perhaps
        })
    }

    fn meta(&mut self, data: &[u8], packet: &Packet<'_>) -> Option<Says> {
        let Some(to) = number(data, FIRST) else {
            // It sets something.
            return Some(Says::Yes);
        };
        let v4 = packet.local.is_ipv4();
        let value = match number(data, SECOND)? {
            NFT_META_PROTOCOL => Some(if v4 { [8, 0] } else { [0x86, 0xdd] }.to_vec()),
            NFT_META_IIF => Some(packet.index.to_ne_bytes().to_vec()),
            NFT_META_IIFNAME => {
                let mut name = packet.interface.as_bytes().to_vec();
                name.resize(16, 0);
                Some(name)
            }
            NFT_META_IIFTYPE => Some(ARPHRD_ETHER.to_ne_bytes().to_vec()),
            NFT_META_NFPROTO => Some(vec![if v4 { 2 } else { 10 }]),
            NFT_META_L4PROTO => Some(vec![TCP]),
            _ => None,
        };
        Some(self.load(to, value))
    }

    fn payload(&mut self, data: &[u8], packet: &Packet<'_>) -> Option<Says> {
        let Some(to) = number(data, FIRST) else {
            return Some(Says::Yes);
        };
        let (base, offset) = (number(data, SECOND)?, number(data, THIRD)?);
        let length = number(data, FOURTH)?;
        let value = match (base, packet.local.ip(), offset, length) {
            (NFT_PAYLOAD_TRANSPORT_HEADER, _, 2, 2) => {
                Some(packet.local.port().to_be_bytes().to_vec())
            }
            (NFT_PAYLOAD_TRANSPORT_HEADER, _, 13, 1) => Some(vec![SYN]),
            (NFT_PAYLOAD_NETWORK_HEADER, IpAddr::V4(_), 9, 1)
            | (NFT_PAYLOAD_NETWORK_HEADER, IpAddr::V6(_), 6, 1) => Some(vec![TCP]),
            (NFT_PAYLOAD_NETWORK_HEADER, IpAddr::V4(ip), 16, 1..=4) => {
                ip.octets().get(..length as usize).map(<[u8]>::to_vec)
            }
            (NFT_PAYLOAD_NETWORK_HEADER, IpAddr::V6(ip), 24, 1..=16) => {
                ip.octets().get(..length as usize).map(<[u8]>::to_vec)
            }
            _ => None,
        };
        Some(self.load(to, value))
    }

    fn connection(&mut self, data: &[u8]) -> Option<Says> {
        let Some(to) = number(data, FIRST) else {
            return Some(Says::Yes);
        };
        let is_state = number(data, SECOND)? == NFT_CT_STATE;
        let state = is_state.then(|| CT_NEW.to_ne_bytes().to_vec());
        Some(self.load(to, state))
    }

    fn immediate(&mut self, attributes: &[u8]) -> Option<Says> {
        let holder = value(attributes, SECOND)?;
        if let Some(verdict) = Verdict::of(&holder) {
            return Some(Says::Verdict(verdict));
        }
        let to = number(attributes, FIRST)?;
        Some(self.load(to, value(&holder, NFTA_DATA_VALUE)))
    }

    fn compare(&self, attributes: &[u8]) -> Option<Says> {
        let with = data(attributes, THIRD)?;
        let Some(known) = self.look(number(attributes, FIRST)?, with.len()) else {
            return Some(Says::Perhaps);
        };
        let order = known.cmp(with.as_slice());
        let holds = match number(attributes, SECOND)? {
            0 => order.is_eq(),
            1 => order.is_ne(),
            2 => order.is_lt(),
            3 => order.is_le(),
            4 => order.is_gt(),
            5 => order.is_ge(),
            _ => return None,
        };
        Some(holds.into())
    }

    fn range(&self, attributes: &[u8]) -> Option<Says> {
        let (from, to) = (data(attributes, THIRD)?, data(attributes, FOURTH)?);
        let Some(known) = self.look(number(attributes, FIRST)?, from.len()) else {
            return Some(Says::Perhaps);
        };
        let inside = known >= from.as_slice() && known <= to.as_slice();
        Some((inside == (number(attributes, SECOND)? == 0)).into())
    }

    fn mask(&mut self, attributes: &[u8]) -> Option<Says> {
        let (from, to) = (number(attributes, FIRST)?, number(attributes, SECOND)?);
        let shifts = number(attributes, SIXTH).unwrap_or_default() != 0;
        let masked = match (data(attributes, FOURTH), data(attributes, FIFTH)) {
            (Some(mask), Some(xor)) if !shifts => self.look(from, mask.len()).map(|known| {
                let bytes = known.iter().zip(&mask).zip(&xor);
                bytes.map(|((byte, mask), xor)| byte & mask ^ xor).collect()
            }),
            _ => None,
        };
        Some(self.load(to, masked))
    }

    fn look_up(&self, attributes: &[u8], sets: &Sets, table: (u8, &str)) -> Option<Says> {
        let set = sets.of(table, &text(attributes, FIRST)?);
        let maps = number(attributes, THIRD).is_some();
        let inverted = number(attributes, FIFTH).unwrap_or_default() & 1 != 0;
        let key = self.0.get(&slot(number(attributes, SECOND)?));
        let (Some(set), Some(key)) = (set, key) else {
            // A map of verdicts may have one that drops.
            return Some(if maps {
                Says::Either(Verdict::Drop)
            } else {
                Says::Perhaps
            });
        };
        let found = set.find(key);
        match found.and_then(|element| element.verdict.clone()) {
            Some(verdict) if maps => Some(Says::Verdict(verdict)),
            // A map of other values: what comes of it is not known.
            None if maps && found.is_some() => None,
            _ => Some((found.is_some() != inverted).into()),
        }
    }
}

/// A match of iptables that nftables has no words for.
fn extension(data: &[u8], packet: &Packet<'_>) -> Option<Says> {
    let info = value(data, THIRD)?;
    let half = |at: usize| {
        let bytes = info.get(at..at + 2)?.try_into().ok()?;
        Some(u16::from_ne_bytes(bytes))
    };
    let port = packet.local.port();
    match text(data, FIRST)?.as_str() {
        "comment" => Some(Says::Yes),
        // `struct xt_tcp`: source ports, destination ports, option, flags that count and are set,
        // what is inverted.
        "tcp" => {
            let of_all = half(0)? == 0 && half(2)? == u16::MAX && *info.get(8)? == 0;
            let flags = (SYN & info.get(9)? == *info.get(10)?) != (info.get(11)? & 4 != 0);
            let inside = (half(4)?..=half(6)?).contains(&port) != (info.get(11)? & 2 != 0);
            Some(match inside && flags {
                true if !of_all => Says::Perhaps,
                known => known.into(),
            })
        }
        "udp" | "icmp" | "icmp6" => Some(Says::No),
        // `struct xt_multiport_v1`: which ports, how many, the ports, which of them begin a range,
        // inverted.
        "multiport" if *info.first()? == 1 => {
            let mut inside = false;
            let mut at = 0;
            while at < usize::from(*info.get(1)?) {
                let first = half(2 + 2 * at)?;
                let ranges = *info.get(32 + at)? != 0;
                at += usize::from(ranges);
                inside |= (first..=half(2 + 2 * at)?).contains(&port);
                at += 1;
            }
            Some((inside != (*info.get(47)? != 0)).into())
        }
        // `struct xt_conntrack_mtinfo3`, where it asks for states only.
        "conntrack" if half(146)? == 1 => {
            let new = u32::from(half(150)?) & CT_NEW != 0;
            Some((new != (half(148)? & 1 != 0)).into())
        }
        _ => None,
    }
}

/// A target of iptables that nftables has no words for.
fn target(data: &[u8]) -> Option<Says> {
    match text(data, FIRST)?.as_str() {
        "REJECT" | "DROP" | "TARPIT" | "STEAL" => Some(Says::Verdict(Verdict::Drop)),
        "NFQUEUE" => Some(Says::Either(Verdict::Drop)),
        "LOG" | "NFLOG" | "MARK" | "CONNMARK" | "TCPMSS" | "CT" | "SET" => Some(Says::Yes),
        _ => None,
    }
}
