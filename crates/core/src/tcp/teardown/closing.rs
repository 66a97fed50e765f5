//! CLOSE with unread data. What was written before it goes out as far as the windows let it, and
//! then the RST, which tells the peer of the loss (RFC 9293 §3.10.4, RFC 2525 §2.17): an answer to
//! a request that was not read to its end arrives.

use crate::id::ConnId;

/// Connections whose RST is due when they have had their turn to send.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct ClosingWithReset(Vec<ConnId>);

impl ClosingWithReset {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn push(&mut self, id: ConnId) {
        self.0.push(id);
    }

    /// Takes out the next, from `at` on, of those that are `ready`.
    pub fn take(
        &mut self,
        at: &mut usize,
        mut ready: impl FnMut(ConnId) -> bool,
    ) -> Option<ConnId> {
        *at += self.0.get(*at..)?.iter().position(|&id| ready(id))?;
        Some(self.0.swap_remove(*at))
    }
}
