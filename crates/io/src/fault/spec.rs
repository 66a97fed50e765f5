//! Which impairments in which direction, and their text form.

use std::fmt;
use std::str::FromStr;

use wire::impair::{Impairments, SpecError};

/// What to do to the frames of a port, per direction.
///
/// As text: clauses separated by `;`, each a list as [`Impairments`] parses it, for frames we
/// receive (`rx:`), frames we send (`tx:`) or both (no prefix). `loss=1%,seed=7` ·
/// `tx:loss=5%;rx:dup=1%,delay=5ms`. A later clause replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FaultSpec {
    /// For frames we receive.
    pub rx: Impairments,
    /// For frames we send.
    pub tx: Impairments,
}

impl FromStr for FaultSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut spec = Self::default();
        for clause in text.split(';') {
            let clause = clause.trim();
            if let Some(list) = clause.strip_prefix("rx:") {
                spec.rx = list.parse()?;
            } else if let Some(list) = clause.strip_prefix("tx:") {
                spec.tx = list.parse()?;
            } else if !clause.is_empty() {
                spec.rx = clause.parse()?;
                spec.tx = spec.rx;
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for FaultSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rx == self.tx {
            return self.rx.fmt(f);
        }
        write!(f, "rx:{};tx:{}", self.rx, self.tx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_without_prefix_is_for_both_directions() {
        let spec: FaultSpec = "loss=1%,reorder=1%,seed=7".parse().unwrap();
        assert_eq!(spec.rx, spec.tx);
        assert_eq!(spec.rx.loss_ppm, 10_000);
        assert_eq!(spec.tx.seed, 7);
    }

    #[test]
    fn prefixes_choose_a_direction() {
        let spec: FaultSpec = "tx:loss=5%; rx:dup=1%".parse().unwrap();
        assert_eq!((spec.tx.loss_ppm, spec.tx.duplicate_ppm), (50_000, 0));
        assert_eq!((spec.rx.loss_ppm, spec.rx.duplicate_ppm), (0, 10_000));
        let one: FaultSpec = "rx:loss=5%".parse().unwrap();
        assert!(one.tx.is_none());
    }

    #[test]
    fn nothing_is_nothing() {
        let spec: FaultSpec = "".parse().unwrap();
        assert_eq!(spec, FaultSpec::default());
    }

    #[test]
    fn mistakes_are_quoted() {
        for bad in ["loss", "up:loss=1%", "rx:loss=200%", "tx:lost=1%"] {
            assert!(bad.parse::<FaultSpec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn text_survives_a_round_trip() {
        for text in [
            "loss=1%,seed=7",
            "tx:loss=5%,delay=3ms;rx:dup=1%,jitter=20us",
        ] {
            let spec: FaultSpec = text.parse().unwrap();
            assert_eq!(spec.to_string().parse::<FaultSpec>().unwrap(), spec);
        }
    }
}
