//! What the library says on stderr.

use std::env;
use std::io::{self, Write as _};

/// One line for the user, who most likely runs a program that asks for no reason.
pub(crate) fn say(text: &str) {
    if env::var_os("MTCP_QUIET").is_none_or(|value| value != "1") {
        // Nobody to tell where there is no stderr.
        let _ = writeln!(io::stderr(), "mtcp: {text}");
    }
}
