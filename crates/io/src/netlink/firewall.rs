//! Which firewall rules the kernel applies to packets for this host (`linux/netfilter/nf_tables.h`). A link that takes frames before the
//! kernel's IP layer goes past them.

use std::io;

use netlink_packet_core::{
    DecodeError, NetlinkDeserializable, NetlinkHeader, NetlinkSerializable, NlasIterator,
};
use netlink_sys::protocols::NETLINK_NETFILTER;

use super::request;

/// `NFNL_SUBSYS_NFTABLES`, the upper byte of a message type.
const NFTABLES: u16 = 10 << 8;
const NFT_MSG_NEWCHAIN: u16 = NFTABLES | 3;
const NFT_MSG_GETCHAIN: u16 = NFTABLES | 4;
/// `struct nfgenmsg`: family, version, resource.
const HEADER_LEN: usize = 4;

const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_POLICY: u16 = 5;
const NFTA_CHAIN_USE: u16 = 6;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;

const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
const NF_INET_LOCAL_IN: u32 = 1;
const NF_DROP: u32 = 0;

/// A chain of rules that every packet for this host passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputChain {
    /// Family, table and chain, as `nft list chain` takes them: `inet filter input`.
    pub name: String,
    /// Rules in it.
    pub rules: u32,
    /// What no rule accepts is dropped.
    pub drops: bool,
}

/// The filter chains for packets to this host that have a rule, or drop what has none: of nftables, and of iptables through it. None where
/// the kernel has no nftables.
///
/// # Errors
/// `EPERM` without CAP_NET_ADMIN in the user namespace of this network namespace.
pub fn input_chains() -> io::Result<Vec<InputChain>> {
    let question = Chain {
        family: 0,
        attributes: Vec::new(),
        kind: NFT_MSG_GETCHAIN,
    };
    let answers = match request::dump(NETLINK_NETFILTER, question) {
        // Without the module nobody answers.
        Err(error) if has_no_tables(&error) => return Ok(Vec::new()),
        answers => answers?,
    };
    let chains = answers.iter().filter_map(Chain::input);
    Ok(chains
        .filter(|chain| chain.rules > 0 || chain.drops)
        .collect())
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

/// One message about chains: `nfgenmsg` and its attributes.
#[derive(Clone, Debug)]
struct Chain {
    family: u8,
    attributes: Vec<u8>,
    kind: u16,
}

impl Chain {
    /// What it says of a filter chain of the input hook; `None` of any other.
    fn input(&self) -> Option<InputChain> {
        let family = match self.family {
            NFPROTO_INET => "inet",
            NFPROTO_IPV4 => "ip",
            NFPROTO_IPV6 => "ip6",
            _ => return None,
        };
        let hook = value(&self.attributes, NFTA_CHAIN_HOOK)?;
        let at_input = number(&hook, NFTA_HOOK_HOOKNUM) == Some(NF_INET_LOCAL_IN);
        let filters = text(&self.attributes, NFTA_CHAIN_TYPE).as_deref() == Some("filter");
        if self.kind != NFT_MSG_NEWCHAIN || !at_input || !filters {
            return None;
        }
        let table = text(&self.attributes, NFTA_CHAIN_TABLE)?;
        let chain = text(&self.attributes, NFTA_CHAIN_NAME)?;
        Some(InputChain {
            name: format!("{family} {table} {chain}"),
            rules: number(&self.attributes, NFTA_CHAIN_USE).unwrap_or_default(),
            drops: number(&self.attributes, NFTA_CHAIN_POLICY) == Some(NF_DROP),
        })
    }
}

impl NetlinkSerializable for Chain {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        HEADER_LEN + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let bytes = [self.family, 0, 0, 0]
            .into_iter()
            .chain(self.attributes.iter().copied());
        for (to, byte) in buffer.iter_mut().zip(bytes) {
            *to = byte;
        }
    }
}

impl NetlinkDeserializable for Chain {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        let too_short = || DecodeError::from("nfgenmsg is too short");
        Ok(Self {
            family: *payload.first().ok_or_else(too_short)?,
            attributes: payload.get(HEADER_LEN..).ok_or_else(too_short)?.to_vec(),
            kind: header.message_type,
        })
    }
}

/// The bytes of the first attribute of this kind.
fn value(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    let found = NlasIterator::new(attributes)
        .map_while(Result::ok)
        .find(|attribute| attribute.kind() == kind)?;
    Some(found.value().to_vec())
}

fn number(attributes: &[u8], kind: u16) -> Option<u32> {
    let bytes = value(attributes, kind)?.try_into().ok()?;
    Some(u32::from_be_bytes(bytes))
}

fn text(attributes: &[u8], kind: u16) -> Option<String> {
    let mut bytes = value(attributes, kind)?;
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.truncate(end.unwrap_or(bytes.len()));
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = (4 + value.len()) as u16;
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// A chain of the table `t`, with one rule.
    fn chain(family: u8, hook: u32, kind: &[u8], policy: u32) -> Chain {
        let hook = attribute(NFTA_HOOK_HOOKNUM, &hook.to_be_bytes());
        Chain {
            family,
            attributes: [
                attribute(NFTA_CHAIN_TABLE, b"t\0"),
                attribute(NFTA_CHAIN_NAME, b"in\0"),
                attribute(NFTA_CHAIN_HOOK | 1 << 15, &hook),
                attribute(NFTA_CHAIN_POLICY, &policy.to_be_bytes()),
                attribute(NFTA_CHAIN_USE, &1_u32.to_be_bytes()),
                attribute(NFTA_CHAIN_TYPE, kind),
            ]
            .concat(),
            kind: NFT_MSG_NEWCHAIN,
        }
    }

    #[test]
    fn filters_of_the_input_hook_are_named_as_nft_names_them() {
        let found = chain(NFPROTO_INET, NF_INET_LOCAL_IN, b"filter\0", NF_DROP).input();
        let expected = InputChain {
            name: "inet t in".to_owned(),
            rules: 1,
            drops: true,
        };
        assert_eq!(found, Some(expected));
        let accepts = chain(NFPROTO_IPV6, NF_INET_LOCAL_IN, b"filter\0", 1).input();
        assert!(accepts.is_some_and(|chain| !chain.drops && chain.name == "ip6 t in"));
    }

    #[test]
    fn other_chains_filter_nothing_for_this_host() {
        let forward = 2;
        let arp = 3;
        for other in [
            chain(NFPROTO_INET, forward, b"filter\0", NF_DROP),
            chain(NFPROTO_INET, NF_INET_LOCAL_IN, b"nat\0", NF_DROP),
            chain(arp, NF_INET_LOCAL_IN, b"filter\0", NF_DROP),
            Chain {
                attributes: attribute(NFTA_CHAIN_NAME, b"jumped_to\0"),
                ..chain(1, 1, b"", 0)
            },
        ] {
            assert_eq!(other.input(), None, "{other:?}");
        }
    }

    #[test]
    fn attributes_that_are_cut_short_are_none() {
        let whole = chain(NFPROTO_INET, NF_INET_LOCAL_IN, b"filter\0", NF_DROP);
        for length in 0..whole.attributes.len() {
            let mut cut = whole.clone();
            cut.attributes.truncate(length);
            // It may miss the type, and never reads past the end.
            let _ = cut.input();
        }
    }
}
