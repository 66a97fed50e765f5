//! Virtual machines that run the drivers of network cards, for tests on the kernels of a
//! distribution: QEMU without KVM, which needs no rights and no hardware.
//!
//! The emulator, the kernels and a shell for the guest are packages of the distribution, downloaded
//! and unpacked below `target/guests`; nothing is installed. Where they cannot be had a test says
//! so and passes.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a library of tests

pub mod card;
pub mod guest;
pub mod initramfs;
pub mod modules;
pub mod packages;

pub use card::Card;
pub use guest::Guest;
pub use packages::{Packages, Release};
