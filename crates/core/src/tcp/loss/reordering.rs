//! How much reordering the path shows, and how much of it RACK allows for (RFC 8985 §6.2 step 4).

use wire::seq::SeqNumber;

/// RFC 8985 §6.2 step 4: recoveries after which the window for reordering is small again.
const REO_WND_PERSIST: u8 = 16;

/// What RACK knows of reordering on the path (RFC 8985 §6.2 step 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Reordering {
    /// Segments were seen out of order (RACK.reordering_seen).
    pub(super) seen: bool,
    /// The peer reports duplicates (RFC 2883).
    pub(super) dsack_seen: bool,
    /// How much of it is allowed for, in quarters of the shortest round trip, and for how many more
    /// recoveries.
    pub(super) reo_wnd_mult: u8,
    reo_wnd_persist: u8,
    /// SND.NXT when that was last raised.
    dsack_round: SeqNumber,
}

/// What is left of it while nothing is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reordered {
    seen: bool,
    dsack_seen: bool,
    reo_wnd_mult: u8,
    reo_wnd_persist: u8,
}

impl Reordering {
    pub fn new(iss: SeqNumber) -> Self {
        Self {
            seen: false,
            dsack_seen: false,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: iss,
        }
    }

    /// A duplicate was reported; once per round trip, and a round that ends beyond SND.NXT is from
    /// before sequence numbers wrapped around.
    pub fn widen(&mut self, snd_una: SeqNumber, snd_nxt: SeqNumber) {
        if snd_una >= self.dsack_round || self.dsack_round > snd_nxt {
            self.dsack_round = snd_nxt;
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = REO_WND_PERSIST;
        }
    }

    /// With nothing in flight, `una` is no earlier than the end of any round.
    pub fn forget_round(&mut self, una: SeqNumber) {
        self.dsack_round = una;
    }

    /// All but the round, which is forgotten.
    pub fn packed(&self) -> Reordered {
        Reordered {
            seen: self.seen,
            dsack_seen: self.dsack_seen,
            reo_wnd_mult: self.reo_wnd_mult,
            reo_wnd_persist: self.reo_wnd_persist,
        }
    }

    pub fn unpacked(packed: Reordered, una: SeqNumber) -> Self {
        let Reordered {
            seen,
            dsack_seen,
            reo_wnd_mult,
            reo_wnd_persist,
        } = packed;
        Self {
            seen,
            dsack_seen,
            reo_wnd_mult,
            reo_wnd_persist,
            dsack_round: una,
        }
    }

    /// A recovery ended.
    pub fn relax(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.reo_wnd_mult = 1;
        }
    }
}
