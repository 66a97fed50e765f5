//! The frames that are going to arrive, in order of their time. Most leave a pipe as they came in:
//! only the first of each pipe has to be compared with those of others, however many are under way.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wire::time::Instant;

use crate::frame::Frame;

/// A frame that is going to arrive.
#[derive(Debug)]
pub(crate) struct Due {
    pub at: Instant,
    /// Breaks ties in the order of sending.
    pub order: u64,
    pub pipe: usize,
    pub frame: Frame,
}

/// One that others of its pipe may wait behind, or one that overtakes those.
#[derive(Debug)]
struct First {
    due: Due,
    overtakes: bool,
}

impl First {
    fn key(&self) -> (Instant, u64) {
        (self.due.at, self.due.order)
    }
}

impl PartialEq for First {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for First {}

impl PartialOrd for First {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for First {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// What of a pipe is under way and overtakes nothing.
#[derive(Debug, Default)]
struct InOrder {
    /// Its first is among the firsts.
    has_first: bool,
    /// When the last of it arrives.
    last: Instant,
    behind: VecDeque<Due>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Calendar {
    firsts: BinaryHeap<Reverse<First>>,
    in_order: Vec<InOrder>,
    sent: u64,
}

impl Calendar {
    /// When the next frame arrives.
    pub fn next(&self) -> Option<Instant> {
        self.firsts.peek().map(|Reverse(first)| first.due.at)
    }

    pub fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    pub fn push(&mut self, at: Instant, pipe: usize, frame: Frame) {
        if self.in_order.len() <= pipe {
            self.in_order.resize_with(pipe + 1, InOrder::default);
        }
        self.sent += 1;
        let due = Due {
            at,
            order: self.sent,
            pipe,
            frame,
        };
        let Some(in_order) = self.in_order.get_mut(pipe) else {
            return;
        };
        let overtakes = in_order.has_first && at < in_order.last;
        if in_order.has_first && !overtakes {
            in_order.last = at;
            in_order.behind.push_back(due);
            return;
        }
        if !overtakes {
            (in_order.has_first, in_order.last) = (true, at);
        }
        self.firsts.push(Reverse(First { due, overtakes }));
    }

    pub fn pop(&mut self) -> Option<Due> {
        let Reverse(First { due, overtakes }) = self.firsts.pop()?;
        if !overtakes && let Some(in_order) = self.in_order.get_mut(due.pipe) {
            let next = in_order.behind.pop_front();
            in_order.has_first = next.is_some();
            self.firsts.extend(next.map(|due| {
                Reverse(First {
                    due,
                    overtakes: false,
                })
            }));
        }
        Some(due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Some are taken out again between those that come: always the earliest, and of several
        /// the one sent first.
        #[test]
        fn they_come_in_order(steps in prop::collection::vec((0usize..3, 0u64..20, any::<bool>()), 0..200)) {
            let (mut calendar, mut all, mut now) = (Calendar::default(), Vec::new(), 0);
            for (order, (pipe, delay, takes)) in (1..).zip(steps) {
                calendar.push(Instant::from_millis(now + delay), pipe, Frame::from(Vec::new()));
                all.push((Instant::from_millis(now + delay), order, pipe));
                if takes {
                    all.sort();
                    let first = all.remove(0);
                    prop_assert_eq!(calendar.next(), Some(first.0));
                    let due = calendar.pop().unwrap();
                    prop_assert_eq!((due.at, due.order, due.pipe), first);
                    now = due.at.as_millis();
                }
            }
            all.sort();
            let rest = std::iter::from_fn(|| calendar.pop());
            let rest: Vec<_> = rest.map(|due| (due.at, due.order, due.pipe)).collect();
            prop_assert_eq!(rest, all);
        }
    }
}
