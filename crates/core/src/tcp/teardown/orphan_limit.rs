//! Connections that their application has closed and that are not over: what Linux calls orphans.
//! They have no socket that would count them, and their peers may never answer. So there is a
//! limit, below the number of control blocks, which leaves room for connections that somebody uses.

use crate::tcp::queues::Queues;

/// Orphans that are looked at to find one whose peer is silent.
const LOOKS: u32 = 8;

/// The one to be reset, if there are more than `most`: the first whose peer has not answered for a
/// time-out, if there is one among the first few; if no peer seems to be silent, the one that was
/// closed first.
pub(crate) fn one_too_many(
    queues: &mut Queues,
    most: u32,
    is_unanswered: impl Fn(u32) -> bool,
) -> Option<u32> {
    if queues.orphans() <= most {
        return None;
    }
    silent(queues, is_unanswered).or_else(|| queues.first_orphan())
}

/// Those that are passed over get behind the others.
#[cold]
fn silent(queues: &mut Queues, is_unanswered: impl Fn(u32) -> bool) -> Option<u32> {
    for _ in 0..LOOKS.min(queues.orphans()) {
        let place = queues.first_orphan()?;
        if is_unanswered(place) {
            return Some(place);
        }
        queues.remove_orphan(place);
        queues.push_orphan(place);
    }
    None
}
