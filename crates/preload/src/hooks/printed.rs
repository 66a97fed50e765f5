//! `dprintf`: the C library writes to the descriptor by itself, so for ours it formats and we
//! write.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use mtcp::Result;
use mtcp::posix::call::answer;

use super::stream::write;
use super::{hooks, last};
use crate::{real, slots};

/// What follows the format: `va_list` of the C library, which is a pointer where it is an argument.
type Rest = *mut c_void;

unsafe extern "C" {
    fn __vasprintf_chk(
        text: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        rest: Rest,
    ) -> c_int;
}

hooks! {
    /// vdprintf(3).
    fn vdprintf(fd: c_int, format: *const c_char, rest: Rest) -> c_int {
        if slots::is_socket(fd) {
            // SAFETY: the caller's promises.
            return answer(|| unsafe { print(fd, 0, format, rest) });
        }
        // SAFETY: the same arguments.
        unsafe { real::vdprintf(fd, format, rest) }
    }

    /// `vdprintf` as `_FORTIFY_SOURCE` calls it.
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, rest: Rest) -> c_int {
        if slots::is_socket(fd) {
            // SAFETY: the caller's promises.
            return answer(|| unsafe { print(fd, flag, format, rest) });
        }
        // SAFETY: the same arguments.
        unsafe { real::__vdprintf_chk(fd, flag, format, rest) }
    }
}

/// # Safety
/// As for vdprintf(3).
unsafe fn print(fd: c_int, flag: c_int, format: *const c_char, rest: Rest) -> Result<c_int> {
    let mut text = ptr::null_mut();
    // SAFETY: room for a pointer; the caller's promises.
    let len = unsafe { __vasprintf_chk(&raw mut text, flag, format, rest) };
    let Ok(wanted) = usize::try_from(len) else {
        return Err(last());
    };
    // SAFETY: the C library made a text of that length.
    let written = unsafe { write_all(fd, text, wanted) };
    // SAFETY: as it asks for.
    unsafe { libc::free(text.cast()) };
    written.map(|()| len)
}

/// # Safety
/// `text` points to `len` bytes.
unsafe fn write_all(fd: c_int, text: *const c_char, len: usize) -> Result<()> {
    let mut done = 0;
    while done < len {
        // SAFETY: the caller's promise.
        let n = unsafe { write(fd, text.add(done).cast(), len - done) };
        match usize::try_from(n) {
            Ok(n) => done += n,
            Err(_) => return Err(last()),
        }
    }
    Ok(())
}

/// A function with variable arguments that passes them on as a `va_list`: the six registers of
/// integers and the eight of numbers with a point are stored in a row, `$named` of the former being
/// named arguments (System V ABI, AMD64 supplement, §3.5.7).
#[cfg(all(not(test), target_arch = "x86_64"))]
macro_rules! variable {
    ($name:ident, named: $named:literal, rest in $rest:literal, $to:path) => {
        #[doc = concat!("`", stringify!($name), "`: [`", stringify!($to), "`] with what comes after its last argument.")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() -> c_int {
            std::arch::naked_asm!(
                // 24 bytes of va_list, filled up to 32, and 176 of registers; 8 more align the
                // stack.
                "sub rsp, 216",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                // Bytes of the row that are taken, of either kind; what was passed on the stack;
                // the row.
                concat!("mov dword ptr [rsp], 8 * ", $named),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $rest, ", rsp"),
                "call {to}",
                "add rsp, 216",
                "ret",
                to = sym $to,
            )
        }
    };
}
#[cfg(all(not(test), target_arch = "x86_64"))]
pub(super) use variable;

#[cfg(all(not(test), target_arch = "x86_64"))]
variable!(dprintf, named: 2, rest in "rdx", vdprintf);
#[cfg(all(not(test), target_arch = "x86_64"))]
variable!(__dprintf_chk, named: 3, rest in "rcx", __vdprintf_chk);
