//! The functions of liburing that make a ring or end one: they are where the library hears of
//! io_uring before the kernel does. liburing's system calls pass no other function.

use std::ffi::{c_int, c_uint, c_void};

use crate::uring::armed;
use crate::{cancel, inside, real, uring};

/// Exports functions of liburing of this name, which do something before (`arm`) or after (`sweep`)
/// the real one.
macro_rules! around {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty { $before:expr, $after:expr })*) => {
        $(
            $(#[$doc])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                inside::keep_errno($before);
                // SAFETY: the same arguments.
                let result = unsafe { real::$name($($argument),*) };
                inside::keep_errno($after);
                cancel::end(false);
                result
            }
        )*
    };
}

fn nothing() {}

around! {
    /// io_uring_setup(2), as liburing has it.
    fn io_uring_setup(entries: c_uint, params: *mut c_void) -> c_int { uring::arm, nothing }

    /// io_uring_queue_init(3).
    fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int { uring::arm, nothing }

    /// io_uring_queue_init_params(3).
    fn io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, params: *mut c_void) -> c_int {
        uring::arm, nothing
    }

    /// io_uring_queue_init_mem(3).
    fn io_uring_queue_init_mem(
        entries: c_uint,
        ring: *mut c_void,
        params: *mut c_void,
        memory: *mut c_void,
        size: usize
    ) -> c_int { uring::arm, nothing }

    /// A form of `io_uring_queue_init_mem`.
    fn io_uring_queue_init_try_nosqarr(
        entries: c_uint,
        ring: *mut c_void,
        params: *mut c_void,
        memory: *mut c_void,
        size: usize
    ) -> c_int { uring::arm, nothing }

    /// io_uring_queue_exit(3).
    fn io_uring_queue_exit(ring: *mut c_void) -> () { nothing, armed::sweep }

    /// io_uring_get_probe(3): makes a ring for the moment.
    fn io_uring_get_probe() -> *mut c_void { uring::arm, armed::sweep }

    /// Makes a ring for the moment.
    fn io_uring_mlock_size(entries: c_uint, flags: c_uint) -> isize { uring::arm, armed::sweep }

    /// Makes a ring for the moment.
    fn io_uring_mlock_size_params(entries: c_uint, params: *mut c_void) -> isize { uring::arm, armed::sweep }
}
