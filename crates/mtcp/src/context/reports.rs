//! What `epoll_wait` reports, and when it takes a turn first.

use std::time::Duration;

use mtcp_core::Acks;

use super::Context;
use super::wait::Wait;
use crate::{EpollEvent, Errno, Result, SocketId};

pub(super) fn epoll_wait(
    context: &mut Context,
    ep: SocketId,
    events: &mut [EpollEvent],
    timeout: Option<Duration>,
) -> Result<usize> {
    let instance = context.sockets.table.instance(ep)?;
    if events.is_empty() {
        return Err(Errno::EINVAL);
    }
    context.sockets.table.rest();
    let mut n = report_rest(context, instance, events);
    if n == 0 {
        let wait = Wait {
            timeout,
            wakes: true,
            acks: acks_of(context, instance),
        };
        let harvested = wait.until(context, |sockets| {
            Some(sockets.harvest(instance, events)).filter(|&n| n > 0)
        })?;
        n = harvested.unwrap_or(0);
    }
    context.waits.reported(n);
    Ok(n)
}

/// Who has been told of all that came, and asks for more, has answered what it answers at once.
fn acks_of(context: &Context, instance: u32) -> Acks {
    if context.sockets.watch.has_news(instance) {
        Acks::Due
    } else {
        Acks::All
    }
}

/// What the last turn brought is reported before more is taken from the link, for a moment: what
/// has arrived is best worked on while it is in the cache, and what waits on the link takes no
/// memory.
fn report_rest(context: &mut Context, instance: u32, events: &mut [EpollEvent]) -> usize {
    let sockets = &mut context.sockets;
    if !sockets.watch.has_news(instance) || !sockets.transport.driver.is_fresh() {
        return 0;
    }
    // The next turn says what became of the link.
    let _ = sockets.transport.driver.begin_turn(Acks::Due);
    sockets.harvest(instance, events)
}

/// What `epoll_wait` would report now. Runs nothing.
pub(super) fn epoll_take(
    context: &mut Context,
    ep: SocketId,
    events: &mut [EpollEvent],
) -> Result<usize> {
    let instance = context.sockets.table.instance(ep)?;
    context.sockets.table.rest();
    let n = context.sockets.harvest(instance, events);
    if n > 0 {
        context.waits.reported(n);
    }
    Ok(n)
}
