//! The stack that scripts are played against: what users have, on virtual time, and a link whose
//! other end is ours.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use io::Port;
use io::sim::{SimConfig, SimPort, pair};
use mtcp::{Context, VirtualClock, Waiter};
use mtcp_core::Config;
use wire::frame::{FrameSink, TxMeta};
use wire::time::Instant;

/// Time before a program starts: addresses are checked and announced.
const PRELUDE: Duration = Duration::from_secs(10);
/// Frames on their way at most: more than any window has.
const SLOTS: usize = 1 << 20;

/// A frame that the stack sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// From the Ethernet header on.
    pub frame: Vec<u8>,
}

/// The other end of the link.
#[derive(Debug)]
pub struct FarEnd {
    port: SimPort,
    clock: VirtualClock,
    sent: VecDeque<Sent>,
}

impl FarEnd {
    /// A frame is on its way to the stack.
    pub fn send(&mut self, frame: &[u8]) {
        self.port.send(|into| {
            let room = into.get_mut(..frame.len());
            let fits = room.map(|room| room.copy_from_slice(frame)).is_some();
            TxMeta {
                len: if fits { frame.len() } else { 0 },
                ..TxMeta::default()
            }
        });
        // The stack is there as long as this is.
        let _ = self.port.flush();
    }

    /// The next frame that the stack sent. Time must not move on while there are any.
    pub fn take(&mut self) -> Option<Sent> {
        let at = self.clock.now();
        while self.port.receive(|frames| {
            let sent = frames.iter().map(|frame| Sent {
                at,
                frame: frame.bytes.to_vec(),
            });
            self.sent.extend(sent);
        }) > 0
        {}
        self.sent.pop_front()
    }
}

/// A context with a link at time zero. `config` has one interface. What the peer sends may be
/// longer than the MTU of the stack.
///
/// # Errors
/// The configuration contradicts itself, or memory could not be reserved.
pub fn boot(
    config: Config,
    clock: &VirtualClock,
    waiter: Arc<dyn Waiter>,
) -> std::io::Result<(Context, FarEnd)> {
    let (near, far) = pair(SimConfig {
        mtu: u16::MAX,
        slots: SLOTS,
        tx_checksum: false,
        blocking: false,
    })?;
    let mut context = mtcp::in_virtual_time(near, config, clock, waiter)?;
    let mut far = FarEnd {
        port: far,
        clock: clock.clone(),
        sent: VecDeque::new(),
    };
    settle_in(&mut context, clock);
    while far.take().is_some() {}
    Ok((context, far))
}

/// Lets the stack check and announce its addresses.
fn settle_in(context: &mut Context, clock: &VirtualClock) {
    let start = clock.now() + PRELUDE;
    while clock.now() < start {
        turn(context);
        let due = context.due().map(|due| clock.now() + due);
        let next = due.unwrap_or(start).max(clock.now() + TICK);
        clock.advance(next.min(start));
    }
    turn(context);
}

/// The least step of the clock.
const TICK: Duration = Duration::from_nanos(1);

/// Lets the stack do what is due. Its link is never down.
pub fn turn(context: &mut Context) {
    let _ = context.poll();
    if context.has_staged() {
        let _ = context.poll();
    }
}
