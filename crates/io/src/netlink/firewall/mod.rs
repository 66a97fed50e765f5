//! Whether the firewall of the kernel would let somebody in (`linux/netfilter/nf_tables.h`). A link
//! that takes frames before the kernel's IP layer goes past its rules; who listens there asks them.
//!
//! A SYN is thought through the chains: what it is for is known, who sends it is not. A port is
//! open if no SYN for it can be dropped.

mod message;
mod rule;
mod set;
mod verdict;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;

use self::message::{Message, dump, elements, number, text, value};
use self::rule::{Expression, Packet};
use self::set::Sets;
use self::verdict::Verdict;
use super::Link;

const NFT_MSG_NEWCHAIN: u8 = 3;
const NFT_MSG_GETCHAIN: u8 = 4;
const NFT_MSG_NEWRULE: u8 = 6;
const NFT_MSG_GETRULE: u8 = 7;

const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;

const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
const NF_INET_LOCAL_IN: u32 = 1;
const NF_DROP: u32 = 0;

/// `NFT_JUMP_STACK_SIZE`.
const DEPTH: usize = 16;
/// Rules that are looked at for one SYN; whoever has more is taken for closed.
const RULES_MAX: u32 = 200_000;
/// Tables of iptables from before nftables.
const LEGACY: [&str; 2] = [
    "/proc/thread-self/net/ip_tables_names",
    "/proc/thread-self/net/ip6_tables_names",
];

/// Family, table and chain, as `nft list chain` takes them.
type Chain = (u8, String, String);

/// The rules that packets for this host pass, as they were when they were read.
#[derive(Clone, Debug, Default)]
pub struct Firewall {
    interface: String,
    index: u32,
    /// Where packets for this host come in, and whether what no rule accepts is dropped.
    entrances: Vec<(Chain, bool)>,
    chains: HashMap<Chain, Vec<Vec<Expression>>>,
    sets: Sets,
    /// There are tables that are not read here.
    legacy: bool,
}

/// What can become of a SYN in a chain.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    dropped: bool,
    /// It comes back to who jumped, or to the policy.
    returns: bool,
}

impl Firewall {
    /// Reads the rules of the filter chains for packets to this host: of nftables, and of iptables
    /// through it. None where the kernel has no nftables.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN in the user namespace of this network namespace.
    pub fn read(link: &Link) -> io::Result<Self> {
        let mut firewall = Self {
            interface: link.name.clone(),
            index: link.index,
            legacy: has_legacy_filter(),
            ..Self::default()
        };
        let chains = match dump(Message::question(NFT_MSG_GETCHAIN, 0, Vec::new())) {
            // Without the module nobody answers.
            Err(error) if has_no_tables(&error) => return Ok(firewall),
            answers => answers?,
        };
        firewall.entrances = chains.iter().filter_map(entrance).collect();
        if firewall.entrances.is_empty() {
            return Ok(firewall);
        }
        for answer in dump(Message::question(NFT_MSG_GETRULE, 0, Vec::new()))? {
            if let Some((chain, rule)) = rule_of(&answer) {
                firewall.chains.entry(chain).or_default().push(rule);
            }
        }
        firewall.sets = Sets::read()?;
        Ok(firewall)
    }

    /// What keeps some peers from connecting to `local`: the chain, as `nft list chain` takes it.
    /// `None`: everybody comes in.
    pub fn closes(&self, local: SocketAddr) -> Option<String> {
        if self.legacy {
            return Some("iptables-legacy, whose rules are not read".to_owned());
        }
        let packet = Packet {
            local,
            interface: &self.interface,
            index: self.index,
        };
        let own = if local.is_ipv4() {
            NFPROTO_IPV4
        } else {
            NFPROTO_IPV6
        };
        let mut rules_left = RULES_MAX;
        let passes = |(family, ..): &Chain| *family == NFPROTO_INET || *family == own;
        let closing = self.entrances.iter().find(|(chain, drops)| {
            let ends = |rules_left| self.ends(&packet, chain, DEPTH, rules_left);
            passes(chain) && {
                let ends = ends(&mut rules_left);
                ends.dropped || ends.returns && *drops
            }
        });
        closing.map(|(chain, _)| name(chain))
    }

    /// Goes through a chain, wherever the SYN can.
    fn ends(&self, packet: &Packet<'_>, chain: &Chain, depth: usize, rules_left: &mut u32) -> Ends {
        let mut ends = Ends::default();
        let unclear = Ends {
            dropped: true,
            returns: true,
        };
        for rule in self.chains.get(chain).into_iter().flatten() {
            let Some(left) = rules_left.checked_sub(1).filter(|_| depth > 0) else {
                return unclear;
            };
            *rules_left = left;
            let table = (chain.0, chain.1.as_str());
            let (verdict, sure) = rule::judge(rule, packet, &self.sets, table);
            let within = |to: String| (chain.0, chain.1.clone(), to);
            let goes_on = match verdict {
                Verdict::Continue => true,
                Verdict::Accept => !sure,
                Verdict::Drop => {
                    ends.dropped = true;
                    !sure
                }
                Verdict::Return => {
                    ends.returns = true;
                    !sure
                }
                Verdict::Jump(to) => {
                    let there = self.ends(packet, &within(to), depth - 1, rules_left);
                    ends.dropped |= there.dropped;
                    there.returns || !sure
                }
                Verdict::Goto(to) => {
                    let there = self.ends(packet, &within(to), depth - 1, rules_left);
                    ends.dropped |= there.dropped;
                    ends.returns |= there.returns;
                    !sure
                }
            };
            if !goes_on {
                return ends;
            }
        }
        ends.returns = true;
        ends
    }
}

fn name((family, table, chain): &Chain) -> String {
    let family = match *family {
        NFPROTO_IPV4 => "ip",
        NFPROTO_IPV6 => "ip6",
        _ => "inet",
    };
    format!("{family} {table} {chain}")
}

fn has_no_tables(error: &io::Error) -> bool {
    let absent = [
        rustix::io::Errno::INVAL,
        rustix::io::Errno::PROTONOSUPPORT,
        rustix::io::Errno::OPNOTSUPP,
    ];
    absent
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn has_legacy_filter() -> bool {
    LEGACY.iter().any(|file| {
        let names = std::fs::read_to_string(file).unwrap_or_default();
        names.lines().any(|name| name == "filter")
    })
}

/// The chain that `answer` is about, if packets for this host come in there, and whether it drops
/// what no rule accepts.
fn entrance(answer: &Message) -> Option<(Chain, bool)> {
    let attributes = &answer.attributes;
    let hook = value(attributes, NFTA_CHAIN_HOOK)?;
    let at_input = number(&hook, NFTA_HOOK_HOOKNUM) == Some(NF_INET_LOCAL_IN);
    let filters = text(attributes, NFTA_CHAIN_TYPE).as_deref() == Some("filter");
    let of_ip = [NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6].contains(&answer.family);
    if !answer.is(NFT_MSG_NEWCHAIN) || !at_input || !filters || !of_ip {
        return None;
    }
    let table = text(attributes, NFTA_CHAIN_TABLE)?;
    let chain = text(attributes, NFTA_CHAIN_NAME)?;
    let drops = number(attributes, NFTA_CHAIN_POLICY) == Some(NF_DROP);
    Some(((answer.family, table, chain), drops))
}

fn rule_of(answer: &Message) -> Option<(Chain, Vec<Expression>)> {
    if !answer.is(NFT_MSG_NEWRULE) {
        return None;
    }
    let table = text(&answer.attributes, NFTA_RULE_TABLE)?;
    let chain = text(&answer.attributes, NFTA_RULE_CHAIN)?;
    let all = elements(&answer.attributes, NFTA_RULE_EXPRESSIONS);
    let expressions = all.iter().map(|one| Expression::new(one)).collect();
    Some(((answer.family, table, chain), expressions))
}

#[cfg(test)]
mod tests;
