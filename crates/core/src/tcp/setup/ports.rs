//! The local port of an active open (RFC 6056), if the application leaves it to us.

use crate::arrivals::Arrivals;
use crate::flow::{Digest, FlowKey};
use crate::ports::EphemeralPorts;

/// Free ports looked at for one whose answers come to this stack: the hash of ports that follow
/// each other goes through few values.
const TRIES: u32 = 256;

/// What is between two ends already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Between {
    pub digest: Digest,
    /// Its name in the flow table.
    pub taken: Option<u32>,
}

/// A local port that nothing uses between `ends`, if possible one whose answers come to this stack,
/// as `arrivals` say; if there is none, one whose TIME_WAIT may be cut short.
///
/// `candidate` says what is between two ends, if their local port is ours to choose; `may_reuse`
/// whether that is a TIME_WAIT which may be cut short.
pub(crate) fn pick_port(
    ports: &mut EphemeralPorts,
    ends: &FlowKey,
    arrivals: Option<&Arrivals>,
    candidate: impl Fn(&FlowKey) -> Option<Between>,
    may_reuse: impl Fn(u32) -> bool,
) -> Option<(u16, Between)> {
    let mut chosen = None;
    let mut pick = |suits: &mut dyn FnMut(&FlowKey, Option<u32>) -> bool| {
        let is_chosen = |port| {
            let ends = ends.with_local_port(port);
            let between = candidate(&ends);
            let between = between.filter(|between| suits(&ends, between.taken));
            chosen = between.map(|between| (port, between));
            chosen.is_some()
        };
        ports.pick(ends, is_chosen).is_some()
    };
    let mut tries = if arrivals.is_some() { TRIES } else { 0 };
    let mut comes_here = |key: &FlowKey| {
        let here = tries == 0 || arrivals.is_none_or(|arrivals| arrivals.has(key));
        tries -= u32::from(!here);
        here
    };
    let _ = pick(&mut |ends, taken| taken.is_none() && comes_here(ends))
        || (tries > 0 && pick(&mut |_, taken| taken.is_none()))
        || pick(&mut |_, taken| taken.is_some_and(&may_reuse));
    chosen
}
