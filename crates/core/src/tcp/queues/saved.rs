//! Who is on which list, on the way to another process.

use super::Queues;
use crate::list::{Link, List};

/// Slots in the order in which they are on lists; those of all ports one behind the other.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct SavedQueues {
    pub control: Vec<u32>,
    pub acks: Vec<u32>,
    pub data: Vec<u32>,
    pub parked: Vec<u32>,
    /// Half-open records whose SYN-ACK is due, or waits for a neighbour.
    pub syn_acks: Vec<u32>,
    pub news: Vec<u32>,
    pub orphans: Vec<u32>,
}

impl Queues {
    /// `slot_at` says which connection is at a place.
    pub fn save(&self, slot_at: impl Fn(u32) -> Option<u32>) -> SavedQueues {
        let slots = |links: &[Link], list: &List| -> Vec<u32> {
            list.iter(links).filter_map(&slot_at).collect()
        };
        let mut saved = SavedQueues {
            news: slots(&self.news_links, &self.news),
            orphans: slots(&self.backlog, &self.orphans),
            ..SavedQueues::default()
        };
        for port in &self.ports {
            saved.control.extend(slots(&self.output, &port.control));
            saved.acks.extend(slots(&self.acks, &port.acks));
            saved.data.extend(slots(&self.output, &port.data));
            saved.parked.extend(slots(&self.output, &port.parked));
            saved.syn_acks.extend(port.syn_acks.iter(&self.syn_acks));
        }
        for waiting in &self.waiting {
            saved.syn_acks.extend(waiting.iter(&self.syn_acks));
        }
        saved
    }
}
