//! What happens when the library is loaded.

use crate::rules::rules;
use crate::{diagnostics, door, inside, passed, told};

/// The environment is read when the library is loaded: programs may empty it before their first
/// socket.
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

extern "C" fn load() {
    inside::run(|| {
        if rules().is_some() {
            diagnostics::take_over();
            door::take_over();
            told::prepare();
            passed::take_inherited();
        }
    });
}
