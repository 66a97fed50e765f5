//! How many segments go together in one frame (GSO).

use std::time::Duration;

use crate::tcp::flags::SendFlags;
use crate::tcp::send::next::Unsent;
use crate::tcp::send::plan::{Kind, Plan};
use crate::tcp::send::view::SendView;

/// What makes each segment matter by itself.
const UNFIT: SendFlags = SendFlags::SACKED
    .union(SendFlags::RECOVERY)
    .union(SendFlags::LOSS)
    .union(SendFlags::HOLES)
    .union(SendFlags::DUPLICATE);
/// Of a paced connection, a GSO frame holds what may leave in this time, as on Linux: more at once
/// would be the burst that pacing prevents.
const PACED: Duration = Duration::from_millis(1);

/// Bytes that a link takes at a time which takes frames of `tx_gso` bytes, and that pacing with
/// `rate` bytes per second lets go.
pub(crate) fn at_a_time(tx_gso: u32, rate: Option<u64>) -> u32 {
    match rate {
        Some(rate) => {
            tx_gso.min((rate / (1000 / PACED.as_millis() as u64)).min(u32::MAX.into()) as u32)
        }
        None => tx_gso,
    }
}

impl SendView<'_> {
    /// As many segments like `plan`, a full one of new data, as may go together with it: `most`
    /// bytes at a time, for which the congestion window has `room`.
    #[inline(always)]
    pub fn gather(self, plan: Plan, unsent: &Unsent, most: u32, room: u32) -> Plan {
        let cut = plan.len;
        if most < 2 * cut || self.has(UNFIT) || self.has_urgent() {
            return plan;
        }
        let limit = unsent.available.min(unsent.usable).min(most).min(room);
        // Behind the last full segment nothing goes that would not go by itself.
        let len = if limit == unsent.available && self.may_send_small() {
            limit
        } else {
            limit - limit % cut
        };
        if len <= cut {
            return plan;
        }
        Plan {
            cut: cut as u16,
            ..self.segment(Kind::New, plan.seq, len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paced_connection_sends_what_leaves_in_a_millisecond() {
        assert_eq!(at_a_time(65_536, Some(10_000_000)), 10_000);
        assert_eq!(at_a_time(65_536, Some(u64::MAX)), 65_536);
        assert_eq!(at_a_time(65_536, None), 65_536);
    }
}
