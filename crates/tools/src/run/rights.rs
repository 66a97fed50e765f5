//! Capabilities that `mtcp` has by its file, which the program is to have too.

use mtcp::privileges;
use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities,
};

/// Makes those that this process is permitted ambient: who is not root loses all others by exec(2).
/// What this process may not pass on, opening the link says.
pub(super) fn pass_on() {
    if geteuid().is_root() {
        return;
    }
    let Ok(mut sets) = capabilities(None) else {
        return;
    };
    let passed = privileges::USEFUL
        .iter()
        .filter(|one| sets.permitted.contains(*one));
    let passed: Vec<CapabilitySet> = passed.collect();
    sets.inheritable |= passed.iter().copied().collect();
    if set_capabilities(None, sets).is_ok() {
        for one in passed {
            let _ = configure_capability_in_ambient_set(one, true);
        }
    }
}
