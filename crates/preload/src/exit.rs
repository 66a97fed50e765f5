//! The end of the process: what was written still goes out, as it would from the kernel.

use std::time::Duration;

use mtcp::Undelivered;

use crate::log;

/// How long to wait for peers that take nothing of what was written.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Tells what the end of the program leaves undone.
pub(crate) fn tell(Undelivered { connections, bytes }: Undelivered) {
    if connections > 0 {
        log::line(format_args!(
            "the program ends, and {connections} of its connections with it: their peers have not acknowledged {bytes} bytes and the end \
             within {} s",
            ANSWER_TIMEOUT.as_secs()
        ));
    }
}
