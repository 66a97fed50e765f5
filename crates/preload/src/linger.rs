//! SO_LINGER: `close` waits until the peer has acknowledged everything, or the time is over, also
//! where other calls on the socket do not wait, as in Linux. The end of the process does not
//! linger.

use std::time::Duration;

use crate::engine::Engine;
use crate::lock::Guard;
use crate::socket::Body;
use crate::waiters::Want;
use crate::{kernel, wait};

/// How often to look while another thread runs the stack, which wakes nobody for this.
const LOOK: Duration = Duration::from_millis(10);

/// The last name of this socket is about to be closed. Without the lock meanwhile: what is behind
/// names may change.
pub(crate) fn wait(engine: &mut Guard<'_, Engine>, index: u32) {
    let Some((id, timeout)) = begin(engine, index) else {
        return;
    };
    engine.staged(true);
    let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let end = kernel::now().saturating_add(nanos);
    loop {
        let left = Duration::from_nanos(end.saturating_sub(kernel::now()));
        let lingered = |engine: &mut Engine| {
            let lingered = engine
                .context()
                .is_none_or(|context| context.has_lingered(id));
            lingered.then_some(Ok(()))
        };
        let waited = wait::wait_for(
            engine,
            Some(left.min(LOOK)),
            &mut [],
            |_| Want::Nothing,
            lingered,
        );
        // A handler of a signal ends it, too.
        if left.is_zero() || waited != Err(mtcp::Errno::EAGAIN) {
            return;
        }
    }
}

/// What to wait for, and how long.
fn begin(engine: &mut Guard<'_, Engine>, index: u32) -> Option<(mtcp::SocketId, Duration)> {
    if engine.is_borrowed() {
        return None;
    }
    let socket = engine
        .sockets
        .get(index)
        .filter(|socket| socket.refs == 1)?;
    let Body::Stream(id) = socket.body else {
        return None;
    };
    // A child has it, too: it is not closed.
    if engine.pumps.has(id) {
        return None;
    }
    let timeout = engine.context()?.begin_linger(id).ok().flatten()?;
    Some((id, timeout))
}
