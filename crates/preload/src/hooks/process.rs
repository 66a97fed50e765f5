//! The end of a process that does not go through `exit`.

use std::ffi::c_int;

use super::hooks;
use crate::{exit, real};

hooks! {
    /// _exit(2).
    fn _exit(status: c_int) -> () {
        exit::finish();
        real::exit_group(status)
    }

    /// _Exit(3).
    #[allow(non_snake_case)]
    fn _Exit(status: c_int) -> () {
        exit::finish();
        real::exit_group(status)
    }
}
