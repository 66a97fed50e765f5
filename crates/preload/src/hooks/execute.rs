//! Programs that the program executes.

use std::ffi::{c_char, c_int, c_void};

use libc::{FILE, pid_t};

use super::hooks;
use crate::children::{Parent, examine, hand_on_one};
use crate::real;
#[cfg(all(not(test), target_arch = "x86_64"))]
use crate::{
    engine,
    inside::{self, Side, keep_errno},
    rules::rules,
};

/// A list of texts that ends with NULL.
type Texts = *const *const c_char;

unsafe extern "C" {
    static environ: Texts;
}

/// The environment of this program.
fn own() -> Texts {
    // SAFETY: the C library's, which whoever changes it keeps whole.
    unsafe { environ }
}

hooks! {
    /// execve(2).
    fn execve(path: *const c_char, words: Texts, environment: Texts) -> c_int {
        // SAFETY: the caller's promises.
        unsafe {
            let environment = examine((path, false), environment, Parent::Ends);
            real::execve(path, words, environment.as_ptr())
        }
    }

    /// execv(3).
    fn execv(path: *const c_char, words: Texts) -> c_int {
        // SAFETY: the caller's promises.
        unsafe {
            let environment = examine((path, false), own(), Parent::Ends);
            real::execve(path, words, environment.as_ptr())
        }
    }

    /// execvp(3).
    fn execvp(file: *const c_char, words: Texts) -> c_int {
        // SAFETY: the caller's promises.
        unsafe {
            let environment = examine((file, true), own(), Parent::Ends);
            real::execvpe(file, words, environment.as_ptr())
        }
    }

    /// execvpe(3).
    fn execvpe(file: *const c_char, words: Texts, environment: Texts) -> c_int {
        // SAFETY: the caller's promises.
        unsafe {
            let environment = examine((file, true), environment, Parent::Ends);
            real::execvpe(file, words, environment.as_ptr())
        }
    }

    /// posix_spawn(3).
    fn posix_spawn(
        pid: *mut pid_t,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        words: Texts,
        environment: Texts,
    ) -> c_int {
        // SAFETY: the caller's promises.
        unsafe {
            let environment = examine((path, false), environment, Parent::Stays);
            real::posix_spawn(pid, path, actions, attributes, words, environment.as_ptr())
        }
    }

    /// posix_spawn_file_actions_adddup2(3): a descriptor for the program that is to be executed.
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, new: c_int) -> c_int {
        hand_on_one(fd);
        // SAFETY: the same arguments.
        unsafe { real::posix_spawn_file_actions_adddup2(actions, fd, new) }
    }

    /// posix_spawnp(3).
    fn posix_spawnp(
        pid: *mut pid_t,
        file: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        words: Texts,
        environment: Texts,
    ) -> c_int {
        // SAFETY: the caller's promises.
        unsafe {
            let environment = examine((file, true), environment, Parent::Stays);
            real::posix_spawnp(pid, file, actions, attributes, words, environment.as_ptr())
        }
    }

    /// fexecve(3).
    fn fexecve(fd: c_int, words: Texts, environment: Texts) -> c_int {
        let path = format!("/proc/self/fd/{fd}\0");
        // SAFETY: the caller's promises; the path ends with a NUL.
        unsafe {
            let environment = examine((path.as_ptr().cast(), false), environment, Parent::Ends);
            real::fexecve(fd, words, environment.as_ptr())
        }
    }

    /// system(3), which runs a shell with the environment of this program.
    fn system(command: *const c_char) -> c_int {
        // SAFETY: a text; the environment of this program.
        unsafe {
            examine((c"/bin/sh".as_ptr(), false), own(), Parent::Stays);
            real::system(command)
        }
    }

    /// popen(3).
    fn popen(command: *const c_char, kind: *const c_char) -> *mut FILE {
        // SAFETY: as above.
        unsafe {
            examine((c"/bin/sh".as_ptr(), false), own(), Parent::Stays);
            real::popen(command, kind)
        }
    }
}

/// vfork(2). A child that has this memory could not have the connections: where there are some, it
/// is one of fork(2).
///
/// # Safety
/// As for vfork(2).
#[cfg(all(not(test), target_arch = "x86_64"))]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn vfork() -> pid_t {
    std::arch::naked_asm!(
        // The stack is aligned for a call, and as it was for the jump.
        "sub rsp, 8",
        "call {which}",
        "add rsp, 8",
        "jmp rax",
        which = sym which_fork,
    )
}

/// The function that makes the child.
#[cfg(all(not(test), target_arch = "x86_64"))]
extern "C" fn which_fork() -> *mut c_void {
    let has_connection =
        || rules().is_some() && engine::lock().is_ok_and(|engine| engine.has_connection());
    if inside::side() != Side::Program {
        return real::vfork();
    }
    keep_errno(|| match inside::run(has_connection) {
        true => libc::fork as *mut c_void,
        false => real::vfork(),
    })
}

/// `va_list` (System V ABI, AMD64 supplement, §3.5.7).
#[cfg(all(not(test), target_arch = "x86_64"))]
#[repr(C)]
#[derive(Debug)]
pub struct Rest {
    integers: u32,
    numbers: u32,
    behind: *const *const c_char,
    registers: *const u8,
}

#[cfg(all(not(test), target_arch = "x86_64"))]
impl Rest {
    /// # Safety
    /// There is one more argument, and it is a pointer.
    unsafe fn next(&mut self) -> *const c_char {
        // SAFETY: the caller's promise: in the row of registers, or behind them on the stack.
        unsafe {
            if self.integers < 48 {
                let at = self.registers.add(self.integers as usize);
                self.integers += 8;
                return at.cast::<*const c_char>().read();
            }
            let text = self.behind.read();
            self.behind = self.behind.add(1);
            text
        }
    }

    /// The words up to NULL.
    ///
    /// # Safety
    /// They are there.
    unsafe fn words(&mut self) -> Vec<*const c_char> {
        let mut words = Vec::new();
        loop {
            // SAFETY: the caller's promise.
            let word = unsafe { self.next() };
            words.push(word);
            if word.is_null() {
                return words;
            }
        }
    }
}

#[cfg(all(not(test), target_arch = "x86_64"))]
mod variable {
    use super::{Rest, c_char, c_int, execv, execve, execvp};
    use crate::hooks::printed::variable;

    unsafe extern "C" fn by_path(path: *const c_char, rest: *mut Rest) -> c_int {
        // SAFETY: as for execl(3).
        unsafe { execv(path, (*rest).words().as_ptr()) }
    }

    unsafe extern "C" fn by_name(file: *const c_char, rest: *mut Rest) -> c_int {
        // SAFETY: as for execlp(3).
        unsafe { execvp(file, (*rest).words().as_ptr()) }
    }

    unsafe extern "C" fn with_environment(path: *const c_char, rest: *mut Rest) -> c_int {
        // SAFETY: as for execle(3): the environment comes behind the words.
        unsafe {
            let words = (*rest).words();
            execve(path, words.as_ptr(), (*rest).next().cast())
        }
    }

    variable!(execl, named: 1, rest in "rsi", by_path);
    variable!(execlp, named: 1, rest in "rsi", by_name);
    variable!(execle, named: 1, rest in "rsi", with_environment);
}
