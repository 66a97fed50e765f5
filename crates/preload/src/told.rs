//! Lines that are told once, to whoever runs the program, by it and the children that share its
//! memory: without a lock that another thread may have had when a child was made.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use ::log::LevelFilter;

use crate::diagnostics;
use crate::rules::{Rules, rules};

/// What has been told, by hash: a page that the children of this process share.
const TOLD: usize = 4096 / size_of::<u64>();
static SHARED: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The library is loaded.
#[cfg(not(test))]
pub(crate) fn prepare() {
    let (protection, flags) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
    );
    let bytes = TOLD * size_of::<u64>();
    // SAFETY: new memory.
    let page = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if page != libc::MAP_FAILED {
        SHARED.store(page.cast(), Ordering::Release);
    }
}

/// Whether this is to be told, which nobody has yet. Of too many different texts the last are not.
fn is_new(text: &str) -> bool {
    let page = SHARED.load(Ordering::Acquire);
    if page.is_null() {
        return true;
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let hash = hasher.finish().max(1);
    // SAFETY: mapped for as long as the process lives; zeros at first, and only accessed
    // atomically.
    let told = unsafe { std::slice::from_raw_parts(page, TOLD) };
    for word in told {
        match word.compare_exchange(0, hash, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(seen) if seen == hash => return false,
            Err(_) => {}
        }
    }
    false
}

/// Tells what `--fallback kernel` allows.
pub(crate) fn tell(rules: &Rules, text: &str) {
    if rules.falls_back {
        say((LevelFilter::Info, "info"), text, text);
    } else {
        warn(text, text);
    }
}

/// Warns, once of each `what` for this process and its children.
pub(crate) fn warn(what: &str, text: &str) {
    say((LevelFilter::Warn, "warning"), what, text);
}

/// Without the logger: a thread of the parent may have had its lock when this child was made.
fn say((level, word): (LevelFilter, &str), what: &str, text: &str) {
    if ::log::max_level() < level || diagnostics::place().is_none() || !is_new(what) {
        return;
    }
    let mut line = String::new();
    let _ = writeln!(line, "mtcp: {word}: {text}");
    diagnostics::write(line.as_bytes());
}

/// Tells what a child has to tell, whatever the parent's threads were at.
pub(crate) fn tell_always(text: &str) {
    if let Some(rules) = rules() {
        tell(rules, text);
    }
}
