//! What a rule says in the end, and the values that rules and sets hold.

use super::message::{number, text, value};

/// The attribute of a value.
pub(super) const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_VERDICT_CHAIN: u16 = 2;

/// What a rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Drop,
    /// To the next rule.
    Continue,
    Jump(String),
    Goto(String),
    Return,
}

impl Verdict {
    /// Of `NFTA_IMMEDIATE_DATA` and its like.
    pub(super) fn of(data: &[u8]) -> Option<Self> {
        let verdict = value(data, NFTA_DATA_VERDICT)?;
        let chain = || text(&verdict, NFTA_VERDICT_CHAIN);
        let code = number(&verdict, NFTA_VERDICT_CODE)?.cast_signed();
        Some(match code {
            1 => Self::Accept,
            -1 | -2 => Self::Continue,
            -3 => Self::Jump(chain()?),
            -4 => Self::Goto(chain()?),
            -5 => Self::Return,
            // Dropped, stolen, or queued for a program that may do so.
            _ => Self::Drop,
        })
    }
}

/// The value in an attribute that has one.
pub(super) fn data(attributes: &[u8], kind: u16) -> Option<Vec<u8>> {
    value(&value(attributes, kind)?, NFTA_DATA_VALUE)
}
