//! The process: configuration, link, contexts.

use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mtcp::{Errno, Mtcp, Result};

use crate::handle::{self, Handle, Inner};
use crate::say::say;
use crate::settings::{self, MtcpConf};
use mtcp::posix::call::{answer, done};
use mtcp::posix::memory;

/// What the original API keeps for the whole process.
struct Process {
    /// What the program asked for before `mtcp_init`; 0: nothing.
    wishes: MtcpConf,
    /// Between `mtcp_init` and `mtcp_destroy`.
    mtcp: Option<Mtcp>,
}

static PROCESS: Mutex<Process> = Mutex::new(Process {
    wishes: MtcpConf::NONE,
    mtcp: None,
});

fn process() -> MutexGuard<'static, Process> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// Says `error`, unless the user wants it quiet, and keeps it for `mtcp_last_error`.
fn explain(error: impl ToString, errno: Errno) -> Errno {
    let text = error.to_string().replace('\0', " ");
    say(&text);
    // Neither fails: there is no NUL, and no destructor of this thread runs yet.
    let text = CString::new(text).unwrap_or_default();
    let _ = LAST_ERROR.try_with(|last| last.replace(text));
    errno
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_init(config_file: *const c_char) -> c_int {
    done(|| {
        // Without a choice of ours it never fails.
        let _ = logger::install(None);
        if config_file.is_null() {
            return Err(explain("mtcp_init: no configuration file", Errno::EFAULT));
        }
        // SAFETY: a string, says the header.
        let file = unsafe { CStr::from_ptr(config_file) };
        init(Path::new(OsStr::from_bytes(file.to_bytes())))
    })
}

fn init(file: &Path) -> Result<()> {
    let mut process = process();
    if process.mtcp.is_some() {
        return Err(explain(
            "mtcp_init was called before: call mtcp_destroy first",
            Errno::EALREADY,
        ));
    }
    let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    let config = settings::load(file, &text, &process.wishes);
    let config = config.map_err(|error| explain(error, Errno::EINVAL))?;
    config
        .check()
        .map_err(|error| explain(error, Errno::EINVAL))?;
    let mtcp = Mtcp::init(config).map_err(|error| explain(error, Errno(libc::ENODEV)))?;
    process.mtcp = Some(mtcp);
    Ok(())
}

fn unreadable(file: &Path, error: &io::Error) -> Errno {
    let text = format!(
        "cannot read {}: {error}: check path and permissions",
        file.display()
    );
    explain(text, Errno(error.raw_os_error().unwrap_or(libc::EINVAL)))
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_destroy() {
    let _ = done(|| {
        handle::remove_all();
        let mut process = process();
        process.mtcp = None;
        process.wishes = MtcpConf::NONE;
        Ok(())
    });
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_getconf(conf: *mut MtcpConf) -> c_int {
    done(|| {
        let process = process();
        let now = match &process.mtcp {
            None => settings::show_wishes(&process.wishes),
            Some(mtcp) => MtcpConf {
                num_cores: cores(mtcp),
                ..settings::show(mtcp.config())
            },
        };
        // SAFETY: room for a configuration, says the header.
        unsafe { memory::store(conf, now) }
    })
}

fn cores(mtcp: &Mtcp) -> c_int {
    c_int::try_from(mtcp.cores()).unwrap_or(c_int::MAX)
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mtcp_setconf(conf: *const MtcpConf) -> c_int {
    done(|| {
        // SAFETY: a configuration, says the header.
        let conf = unsafe { memory::load(conf) }?;
        let mut process = process();
        let Process { wishes, mtcp } = &mut *process;
        let Some(mtcp) = mtcp else {
            settings::wish(&conf, wishes);
            return Ok(());
        };
        let others = MtcpConf {
            num_cores: 0,
            ..conf
        };
        settings::apply(&others, mtcp.config_mut())
            .map_err(|error| explain(error, Errno::EINVAL))?;
        if conf.num_cores > cores(mtcp) {
            let text = format!(
                "num_cores stays {}, as the link is open: call mtcp_setconf before mtcp_init",
                cores(mtcp)
            );
            return Err(explain(text, Errno::EINVAL));
        }
        Ok(())
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_last_error() -> *const c_char {
    let text = LAST_ERROR.try_with(|last| last.borrow().as_ptr());
    text.unwrap_or(c"".as_ptr())
}

/// Processors of the machine. No header has it: programs for the original declare it themselves, or
/// have one of their own, before which this one steps back (weak in the static library, as any in
/// the shared one).
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn GetNumCPUs() -> c_int {
    // SAFETY: no conditions.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    c_int::try_from(online).unwrap_or(1)
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_core_affinitize(cpu: c_int) -> c_int {
    done(|| {
        let core = usize::try_from(cpu).map_err(|_| Errno::EINVAL)?;
        match &process().mtcp {
            Some(mtcp) => mtcp
                .pin(core)
                .map_err(|error| explain(error, Errno::EINVAL)),
            None => pin(core),
        }
    })
}

/// Without a configuration, logical cores are processors.
fn pin(cpu: usize) -> Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(Errno::EINVAL);
    }
    // SAFETY: a set of zeros is the empty set; `cpu` is inside; the kernel reads no more than the
    // set.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::EINVAL)
    }
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_create_context(cpu: c_int) -> *mut Handle {
    answer(|| {
        let process = process();
        let Some(mtcp) = &process.mtcp else {
            return Err(explain(
                "mtcp_create_context: call mtcp_init first",
                Errno::EPERM,
            ));
        };
        let core = usize::try_from(cpu)
            .ok()
            .filter(|&core| core < mtcp.cores());
        let Some(core) = core else {
            let text = format!("no core {cpu}: there are {}, see num_cores", mtcp.cores());
            return Err(explain(text, Errno::EINVAL));
        };
        if handle::is_taken(core) {
            let text = format!("core {cpu} has a context: destroy it first");
            return Err(explain(text, Errno::EEXIST));
        }
        let context = mtcp
            .context(core)
            .map_err(|error| explain(error, Errno::ENOMEM))?;
        handle::insert(Inner::new(context, mtcp.config()))
    })
}

/// See `mtcp_api.h`.
#[unsafe(no_mangle)]
pub extern "C" fn mtcp_destroy_context(mctx: *mut Handle) {
    let _ = done(|| handle::remove(mctx));
}
