//! What comes to a link that is open: an interface that was removed and is there again, queues,
//! peers. Opening it makes descriptors, which are the library's, and their numbers none of the
//! program's.

use mtcp::Context;

use crate::private;

/// Has the stack open what there is to open.
#[cold]
#[inline(never)]
pub(crate) fn open(context: &mut Context) {
    // What it has closed meanwhile may be the program's.
    private::sweep();
    // What was in the way of this one is in the way of the next, too, or is not.
    let _ = private::make(|| context.look_again());
}
