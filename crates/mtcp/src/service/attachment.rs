//! What a program attaches with, and how that travels.

use std::io;
use std::os::fd::OwnedFd;

use mtcp_core::AppStreams;
use ring::duplex::{Duplex, Shape};
use ring::stream::HomePlan;

use super::end::ProgramEnd;
use super::wake_socket::WakeSocket;

/// What a program gets to attach with: descriptors, which the kernel passes on, and plain words.
#[derive(Debug)]
pub struct Attachment {
    /// The rings.
    pub(super) queues: OwnedFd,
    /// The socket that wakes either side.
    pub(super) wake: OwnedFd,
    /// The streams ...
    pub(super) streams: OwnedFd,
    /// ... and how they are laid out.
    pub(super) plan: HomePlan,
    pub(super) shape: Shape,
}

/// Plain words that describe an [`Attachment`].
pub type Words = [u64; 7];

impl Attachment {
    /// As it travels.
    pub fn into_parts(self) -> ([OwnedFd; 3], Words) {
        let Self {
            queues,
            wake,
            streams,
            plan,
            shape,
        } = self;
        let words = [
            plan.layout,
            plan.recv_pool_bytes,
            plan.send_pool_bytes,
            plan.slots.into(),
            plan.max_buffer.into(),
            shape.to_daemon.into(),
            shape.to_program.into(),
        ];
        ([queues, wake, streams], words)
    }

    /// What has travelled. `None`: a word is too large.
    pub fn from_parts([queues, wake, streams]: [OwnedFd; 3], words: Words) -> Option<Self> {
        let [
            layout,
            recv_pool_bytes,
            send_pool_bytes,
            slots,
            max_buffer,
            to_daemon,
            to_program,
        ] = words;
        let small = |word: u64| u32::try_from(word).ok();
        Some(Self {
            queues,
            wake,
            streams,
            plan: HomePlan {
                layout,
                recv_pool_bytes,
                send_pool_bytes,
                slots: small(slots)?,
                max_buffer: small(max_buffer)?,
            },
            shape: Shape {
                to_daemon: small(to_daemon)?,
                to_program: small(to_program)?,
            },
        })
    }

    /// The program's side.
    ///
    /// # Errors
    /// It is not of a daemon of this build; no room.
    pub(crate) fn join(self) -> io::Result<(ProgramEnd, AppStreams)> {
        let rings = Duplex::join(self.queues, self.shape)?;
        let streams = AppStreams::attach(self.streams, &self.plan)?;
        Ok((
            ProgramEnd::new(rings, WakeSocket::from_fd(self.wake)),
            streams,
        ))
    }
}
