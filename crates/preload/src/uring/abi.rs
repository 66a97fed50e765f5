//! io_uring as the kernel has it (linux/io_uring.h, io_uring_enter(2)).

/// `struct io_uring_sqe`: one entry of the submission queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sqe {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) ioprio: u16,
    pub(super) fd: i32,
    pub(super) off: u64,
    pub(super) addr: u64,
    pub(super) len: u32,
    pub(super) op_flags: u32,
    pub(super) user_data: u64,
    pub(super) buf: u16,
    pub(super) personality: u16,
    pub(super) file_index: u32,
    pub(super) addr3: u64,
    pub(super) pad: u64,
}

/// `struct io_uring_cqe`: one entry of the completion queue.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cqe {
    pub(super) user_data: u64,
    pub(super) res: i32,
    pub(super) flags: u32,
}

/// `struct io_sqring_offsets`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SqOffsets {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) ring_mask: u32,
    pub(super) ring_entries: u32,
    pub(super) flags: u32,
    pub(super) dropped: u32,
    pub(super) array: u32,
    pub(super) resv1: u32,
    pub(super) user_addr: u64,
}

/// `struct io_cqring_offsets`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CqOffsets {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) ring_mask: u32,
    pub(super) ring_entries: u32,
    pub(super) overflow: u32,
    pub(super) cqes: u32,
    pub(super) flags: u32,
    pub(super) resv1: u32,
    pub(super) user_addr: u64,
}

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Params {
    pub(super) sq_entries: u32,
    pub(super) cq_entries: u32,
    pub(super) flags: u32,
    pub(super) sq_thread_cpu: u32,
    pub(super) sq_thread_idle: u32,
    pub(super) features: u32,
    pub(super) wq_fd: u32,
    pub(super) resv: [u32; 3],
    pub(super) sq_off: SqOffsets,
    pub(super) cq_off: CqOffsets,
}

/// Where mmap(2) finds the two queues and the entries of the first.
pub(super) const OFF_RINGS: i64 = 0;
pub(super) const OFF_SQES: i64 = 0x1000_0000;

/// `IORING_SETUP_*`.
pub(super) mod setup {
    pub(in super::super) const IOPOLL: u32 = 1 << 0;
    pub(in super::super) const CQSIZE: u32 = 1 << 3;
    pub(in super::super) const CLAMP: u32 = 1 << 4;
    pub(in super::super) const ATTACH_WQ: u32 = 1 << 5;
    pub(in super::super) const R_DISABLED: u32 = 1 << 6;
    pub(in super::super) const SUBMIT_ALL: u32 = 1 << 7;
    pub(in super::super) const COOP_TASKRUN: u32 = 1 << 8;
    pub(in super::super) const TASKRUN_FLAG: u32 = 1 << 9;
    pub(in super::super) const SQE128: u32 = 1 << 10;
    pub(in super::super) const CQE32: u32 = 1 << 11;
    pub(in super::super) const SINGLE_ISSUER: u32 = 1 << 12;
    pub(in super::super) const DEFER_TASKRUN: u32 = 1 << 13;
    pub(in super::super) const NO_SQARRAY: u32 = 1 << 16;
}

/// `IORING_OP_*`.
pub(super) mod op {
    pub(in super::super) const NOP: u8 = 0;
    pub(in super::super) const READV: u8 = 1;
    pub(in super::super) const WRITEV: u8 = 2;
    pub(in super::super) const FSYNC: u8 = 3;
    pub(in super::super) const READ_FIXED: u8 = 4;
    pub(in super::super) const WRITE_FIXED: u8 = 5;
    pub(in super::super) const POLL_ADD: u8 = 6;
    pub(in super::super) const POLL_REMOVE: u8 = 7;
    pub(in super::super) const SENDMSG: u8 = 9;
    pub(in super::super) const RECVMSG: u8 = 10;
    pub(in super::super) const TIMEOUT: u8 = 11;
    pub(in super::super) const ACCEPT: u8 = 13;
    pub(in super::super) const ASYNC_CANCEL: u8 = 14;
    pub(in super::super) const LINK_TIMEOUT: u8 = 15;
    pub(in super::super) const CONNECT: u8 = 16;
    pub(in super::super) const CLOSE: u8 = 19;
    pub(in super::super) const FILES_UPDATE: u8 = 20;
    pub(in super::super) const READ: u8 = 22;
    pub(in super::super) const WRITE: u8 = 23;
    pub(in super::super) const SEND: u8 = 26;
    pub(in super::super) const RECV: u8 = 27;
    pub(in super::super) const EPOLL_CTL: u8 = 29;
    pub(in super::super) const SPLICE: u8 = 30;
    pub(in super::super) const TEE: u8 = 33;
    pub(in super::super) const PROVIDE_BUFFERS: u8 = 31;
    pub(in super::super) const REMOVE_BUFFERS: u8 = 32;
    pub(in super::super) const SHUTDOWN: u8 = 34;
    pub(in super::super) const MSG_RING: u8 = 40;
    pub(in super::super) const SOCKET: u8 = 45;
    pub(in super::super) const URING_CMD: u8 = 46;
    pub(in super::super) const SEND_ZC: u8 = 47;
    pub(in super::super) const SENDMSG_ZC: u8 = 48;
    pub(in super::super) const READ_MULTISHOT: u8 = 49;
    pub(in super::super) const BIND: u8 = 56;
    pub(in super::super) const LISTEN: u8 = 57;
    pub(in super::super) const RECV_ZC: u8 = 58;
    pub(in super::super) const EPOLL_WAIT: u8 = 59;
    pub(in super::super) const READV_FIXED: u8 = 60;
    pub(in super::super) const WRITEV_FIXED: u8 = 61;
}

/// `IOSQE_*`.
pub(super) mod sqe {
    pub(in super::super) const FIXED_FILE: u8 = 1 << 0;
    pub(in super::super) const IO_DRAIN: u8 = 1 << 1;
    pub(in super::super) const IO_LINK: u8 = 1 << 2;
    pub(in super::super) const IO_HARDLINK: u8 = 1 << 3;
    pub(in super::super) const ASYNC: u8 = 1 << 4;
    pub(in super::super) const BUFFER_SELECT: u8 = 1 << 5;
    pub(in super::super) const CQE_SKIP_SUCCESS: u8 = 1 << 6;
}

/// `IORING_CQE_F_*`.
pub(super) const F_BUFFER: u32 = 1 << 0;
pub(super) const F_MORE: u32 = 1 << 1;
pub(super) const F_NOTIF: u32 = 1 << 3;
/// IORING_CQE_BUFFER_SHIFT: where the flags have the buffer's number.
pub(super) const BUFFER_SHIFT: u32 = 16;
/// `IORING_SQ_CQ_OVERFLOW`.
pub(super) const CQ_OVERFLOW: u32 = 1 << 1;
/// `IORING_ENTER_*`.
pub(super) const ENTER_GETEVENTS: u32 = 1 << 0;
pub(super) const ENTER_REGISTERED_RING: u32 = 1 << 4;
/// `IORING_MSG_RING_FLAGS_PASS`: the flags of the completion are passed, too.
pub(super) const MSG_FLAGS_PASS: u32 = 1 << 1;
/// `IORING_ACCEPT_MULTISHOT` and `IORING_RECV_MULTISHOT`, of `ioprio`.
pub(super) const ACCEPT_MULTISHOT: u16 = 1 << 0;
pub(super) const RECV_MULTISHOT: u16 = 1 << 1;
/// `IORING_RECVSEND_BUNDLE`, of `ioprio`.
pub(super) const BUNDLE: u16 = 1 << 4;
/// `IORING_POLL_*`, of `len`.
pub(super) const POLL_MULTI: u32 = 1 << 0;
pub(super) const POLL_UPDATE_EVENTS: u32 = 1 << 1;
pub(super) const POLL_UPDATE_USER_DATA: u32 = 1 << 2;
/// `IORING_TIMEOUT_ETIME_SUCCESS`.
pub(super) const TIMEOUT_ETIME_SUCCESS: u32 = 1 << 5;
/// `IORING_ASYNC_CANCEL_*`.
pub(super) const CANCEL_ALL: u32 = 1 << 0;
pub(super) const CANCEL_FD: u32 = 1 << 1;
pub(super) const CANCEL_ANY: u32 = 1 << 2;
pub(super) const CANCEL_FD_FIXED: u32 = 1 << 3;
pub(super) const CANCEL_OP: u32 = 1 << 5;

/// `IORING_REGISTER_*`.
pub(super) mod register {
    pub(in super::super) const FILES: u32 = 2;
    pub(in super::super) const FILES_UPDATE: u32 = 6;
    pub(in super::super) const RESTRICTIONS: u32 = 11;
    pub(in super::super) const FILES2: u32 = 13;
    pub(in super::super) const FILES_UPDATE2: u32 = 14;
    pub(in super::super) const RING_FDS: u32 = 20;
    pub(in super::super) const PBUF_RING: u32 = 22;
    pub(in super::super) const UNREGISTER_PBUF_RING: u32 = 23;
    pub(in super::super) const SYNC_CANCEL: u32 = 24;
    pub(in super::super) const PBUF_STATUS: u32 = 26;
    pub(in super::super) const RESIZE_RINGS: u32 = 33;
    pub(in super::super) const USE_REGISTERED_RING: u32 = 1 << 31;
}
