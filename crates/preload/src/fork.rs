//! `fork`: the child inherits listeners and epoll instances; connections stay with the parent.

use crate::engine;

/// The id of this process.
pub(crate) fn pid() -> libc::pid_t {
    // SAFETY: no conditions.
    unsafe { libc::getpid() }
}

/// Has `fork` find the engine in order. Once per process image; children inherit it.
pub(crate) fn register() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    // Fails without memory only.
    // SAFETY: the three functions may run before, in the parent after, and in the child after any fork.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(parent), Some(child));
    });
}

extern "C" fn before() {
    if let Ok(engine) = engine::lock() {
        // Given back by `parent`, made anew by `child`.
        let _ = std::mem::ManuallyDrop::new(engine);
    }
}

extern "C" fn parent() {
    // SAFETY: `before` took it in this thread.
    unsafe { engine::raw().unlock() };
}

extern "C" fn child() {
    // SAFETY: a child has one thread, this one.
    unsafe { engine::raw().renew() };
    if let Ok(mut engine) = engine::lock() {
        engine.orphan();
    }
}
