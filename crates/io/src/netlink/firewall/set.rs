//! Sets and maps that rules look things up in.

use std::collections::HashMap;
use std::io;

use super::message::{Message, attribute, dump, elements, number, text, value};
use super::verdict::{Verdict, data};

const NFT_MSG_NEWSET: u8 = 9;
const NFT_MSG_GETSET: u8 = 10;
const NFT_MSG_GETSETELEM: u8 = 13;

const NFTA_SET_TABLE: u16 = 1;
const NFTA_SET_NAME: u16 = 2;
const NFTA_SET_FLAGS: u16 = 3;
const NFTA_SET_KEY_TYPE: u16 = 4;
const NFTA_SET_KEY_LEN: u16 = 5;
const NFT_SET_INTERVAL: u32 = 4;
/// Numbers of nft(8) for the state of a connection and names of interfaces.
const TYPE_CT_STATE: u32 = 26;
const TYPE_IFNAME: u32 = 41;

const NFTA_SET_ELEM_LIST_TABLE: u16 = 1;
const NFTA_SET_ELEM_LIST_SET: u16 = 2;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;
const NFTA_SET_ELEM_KEY: u16 = 1;
const NFTA_SET_ELEM_DATA: u16 = 2;
const NFTA_SET_ELEM_FLAGS: u16 = 3;
const NFT_SET_ELEM_INTERVAL_END: u32 = 1;
const NFT_SET_ELEM_CATCHALL: u32 = 2;

/// Family and table, and the name of a set in it.
type Name = (u8, String, String);

/// Those whose keys a SYN has that is for us, whoever sends it: ports, protocols, states,
/// interfaces. Lists of strangers stay where they are.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets(HashMap<Name, Set>);

#[derive(Clone, Debug, Default)]
pub(super) struct Set {
    pub(super) intervals: bool,
    pub(super) elements: Vec<Element>,
}

#[derive(Clone, Debug)]
pub(super) struct Element {
    pub(super) key: Vec<u8>,
    /// What a map has for the key.
    pub(super) verdict: Option<Verdict>,
    /// The first value behind an interval.
    pub(super) ends: bool,
    /// For all other keys.
    pub(super) rest: bool,
}

impl Sets {
    pub(super) fn read() -> io::Result<Self> {
        let mut sets = HashMap::new();
        for answer in dump(Message::question(NFT_MSG_GETSET, 0, Vec::new()))? {
            let attributes = &answer.attributes;
            let (Some(table), Some(name)) = (
                text(attributes, NFTA_SET_TABLE),
                text(attributes, NFTA_SET_NAME),
            ) else {
                continue;
            };
            if !answer.is(NFT_MSG_NEWSET) || !is_ours(attributes) {
                continue;
            }
            let flags = number(attributes, NFTA_SET_FLAGS).unwrap_or_default();
            let set = Set {
                intervals: flags & NFT_SET_INTERVAL != 0,
                elements: read(answer.family, &table, &name)?,
            };
            sets.insert((answer.family, table, name), set);
        }
        Ok(Self(sets))
    }

    pub(super) fn of(&self, (family, table): (u8, &str), name: &str) -> Option<&Set> {
        self.0.get(&(family, table.to_owned(), name.to_owned()))
    }

    #[cfg(test)]
    pub(super) fn with(name: (u8, &str, &str), set: Set) -> Self {
        let (family, table, name) = name;
        Self(HashMap::from([((family, table.into(), name.into()), set)]))
    }
}

fn is_ours(attributes: &[u8]) -> bool {
    let length = number(attributes, NFTA_SET_KEY_LEN);
    let kind = number(attributes, NFTA_SET_KEY_TYPE);
    length.is_some_and(|length| length <= 2)
        || [Some(TYPE_CT_STATE), Some(TYPE_IFNAME)].contains(&kind)
}

fn read(family: u8, table: &str, name: &str) -> io::Result<Vec<Element>> {
    let word = |text: &str| [text.as_bytes(), b"\0"].concat();
    let question = [
        attribute(NFTA_SET_ELEM_LIST_TABLE, &word(table)),
        attribute(NFTA_SET_ELEM_LIST_SET, &word(name)),
    ];
    let answers = dump(Message::question(
        NFT_MSG_GETSETELEM,
        family,
        question.concat(),
    ))?;
    let all = answers
        .iter()
        .flat_map(|answer| elements(&answer.attributes, NFTA_SET_ELEM_LIST_ELEMENTS));
    Ok(all.map(|element| Element::new(&element)).collect())
}

impl Element {
    fn new(attributes: &[u8]) -> Self {
        let flags = number(attributes, NFTA_SET_ELEM_FLAGS).unwrap_or_default();
        let verdict = value(attributes, NFTA_SET_ELEM_DATA).and_then(|data| Verdict::of(&data));
        Self {
            key: data(attributes, NFTA_SET_ELEM_KEY).unwrap_or_default(),
            verdict,
            ends: flags & NFT_SET_ELEM_INTERVAL_END != 0,
            rest: flags & NFT_SET_ELEM_CATCHALL != 0,
        }
    }
}

impl Set {
    /// What is there for `key`.
    pub(super) fn find(&self, key: &[u8]) -> Option<&Element> {
        let named = || self.elements.iter().filter(|element| !element.rest);
        let found = if self.intervals {
            // An end and a start may be the same value: the start is what counts.
            named()
                .filter(|element| element.key.as_slice() <= key)
                .max_by(|a, b| a.key.cmp(&b.key).then(b.ends.cmp(&a.ends)))
                .filter(|element| !element.ends)
        } else {
            named().find(|element| element.key == key)
        };
        found.or_else(|| self.elements.iter().find(|element| element.rest))
    }
}
