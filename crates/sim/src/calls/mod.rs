//! The socket calls of POSIX over one stack, in virtual time: numbers, structures and errors are those of Linux.
//!
//! A [`Process`] is a stack with one interface and the descriptors of one program. Whoever drives it moves its time on, hands it frames
//! and takes those it sent. A [`Call`] that has to wait is a value: [`Call::poll`] it whenever something happened; time is moved by
//! someone else.
mod call;
pub mod constants;
mod descriptors;
mod epoll;
mod info;
mod lifetime;
mod names;
mod options;
mod pipe;
mod poll;
mod process;
mod splice;
mod stream;

pub use call::{Call, Kind, Reply};
pub use constants::Errno;
pub use epoll::Watch;
pub use info::{InfoField, info_fields};
pub use poll::Polled;
pub use process::{Process, Sent};

/// What a call returns.
pub type Outcome = Result<Reply, Errno>;

/// The arguments are wrong in a way that has only one name.
const fn fail<T>(number: i32) -> Result<T, Errno> {
    Err(Errno(number))
}
