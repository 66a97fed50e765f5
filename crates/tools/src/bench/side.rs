//! Whose sockets and whose stack a run uses.

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The kernel's sockets, used as ordinary servers do.
    Kernel,
    /// The kernel's sockets with TCP_DEFER_ACCEPT on the listener and MSG_MORE on the last message.
    KernelTuned,
    /// The kernel's sockets over interfaces whose segmentation and receive offloads are off.
    KernelPlain,
    /// mTCP.
    Mtcp,
    /// mTCP inline, beside another mode of it.
    MtcpInline,
}

impl Side {
    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::KernelTuned => "kernel_tuned",
            Self::KernelPlain => "kernel_no_offload",
            Self::Mtcp => "mtcp",
            Self::MtcpInline => "mtcp_inline",
        }
    }

    /// Its name in tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::KernelTuned => "kernel, tuned",
            Self::KernelPlain => "kernel, no offload",
            Self::Mtcp => "mTCP",
            Self::MtcpInline => "mTCP, inline",
        }
    }
}
