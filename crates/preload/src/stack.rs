//! The stack of the process: what it takes to open it, and how far it is.

use std::ffi::c_int;
use std::net::SocketAddr;

use mtcp::{Context, Errno, Mtcp, Prepared, Result, SetupError};

use crate::rules::rules;
use crate::{address_space, executor, marks, private, real};

/// How far it is.
#[derive(Debug)]
enum Stage {
    /// Nothing has needed it yet.
    Idle,
    Running {
        context: Box<Context>,
        /// The interface stays open as long as the process.
        _mtcp: Box<Mtcp>,
    },
    /// It could not be started.
    Failed,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Stack {
    stage: Stage,
    /// What children may open too.
    prepared: Option<Box<Prepared>>,
    /// Its descriptors.
    inherited: Vec<c_int>,
    /// A socket without a connection, of which accepted ones have a copy for their number.
    blank: c_int,
}

/// Why the library's descriptors could not be made.
fn apart(error: &std::io::Error) -> String {
    format!("cannot make descriptors beside those of the program: {error}")
}

impl Stack {
    pub(crate) const fn new() -> Self {
        Self {
            stage: Stage::Idle,
            prepared: None,
            inherited: Vec::new(),
            blank: -1,
        }
    }

    /// One that runs already.
    #[cfg(test)]
    pub(crate) fn running(mtcp: Mtcp, context: Context) -> Self {
        Self {
            stage: Stage::Running {
                context: Box::new(context),
                _mtcp: Box::new(mtcp),
            },
            ..Self::new()
        }
    }

    /// Its context, if it runs.
    #[inline]
    pub(crate) fn context(&mut self) -> Option<&mut Context> {
        match &mut self.stage {
            Stage::Running { context, .. } => Some(context),
            Stage::Idle | Stage::Failed => None,
        }
    }

    /// What opening it takes, if that is there.
    pub(crate) fn prepared(&self) -> Option<&Prepared> {
        self.prepared.as_deref()
    }

    /// Whether nothing has needed it yet.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    /// Whether it runs.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running { .. })
    }

    /// Whether it could not be started, and its connections are nobody's.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.stage, Stage::Failed) && rules().is_some_and(|rules| !rules.falls_back)
    }

    /// A new descriptor to stand for an accepted connection.
    ///
    /// # Errors
    /// `EMFILE`.
    pub(crate) fn placeholder(&self, cloexec: bool) -> Result<c_int> {
        let command = if cloexec {
            libc::F_DUPFD_CLOEXEC
        } else {
            libc::F_DUPFD
        };
        // SAFETY: duplicates a descriptor of ours; no memory is involved.
        match unsafe { real::fcntl64(self.blank, command, 0) } {
            fd @ 0.. => Ok(fd),
            _ => Err(Errno(mtcp::posix::call::errno())),
        }
    }

    /// Whether it can listen there once it runs.
    ///
    /// # Errors
    /// `EACCES`: the firewall of the host keeps peers out.
    pub(crate) fn admits(&self, local: Option<SocketAddr>, only_v6: bool) -> Result<()> {
        match (&self.prepared, local) {
            (Some(prepared), Some(local)) => prepared.admits(local, only_v6),
            _ => Ok(()),
        }
    }

    /// Does what opening the link takes privileges for, once for this process and its children.
    /// The program `serves`, or does not yet.
    ///
    /// # Errors
    /// Why that is not possible.
    pub(crate) fn prepare(&mut self, serves: bool) -> std::result::Result<(), String> {
        if self.prepared.is_some() || !self.is_idle() {
            return Ok(());
        }
        let rules = rules().ok_or("no settings")?;
        let prepare = || executor::prepare(rules, serves).map(Box::new);
        let (prepared, kept) = private::make(prepare).map_err(|error| apart(&error))?;
        self.prepared = Some(prepared.map_err(|error| error.to_string())?);
        self.inherited = kept;
        address_space::note_taken(rules.config.address_space());
        Ok(())
    }

    /// The program is about to give up privileges: does what takes them.
    pub(crate) fn arm(&mut self, serves: bool) {
        // What fails here fails again when the stack starts, which tells.
        if self.prepare(serves).is_ok()
            && let Some(prepared) = &mut self.prepared
        {
            let _ = private::make(|| prepared.arm());
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// Why that is not possible.
    pub(crate) fn open(&mut self, serves: bool) -> std::result::Result<(), String> {
        self.prepare(serves)?;
        let prepared = self.prepared.as_mut().ok_or("no settings")?;
        let open = || {
            let mtcp = prepared.open()?;
            let mut context = mtcp.context(0)?;
            context.look_when_asked();
            context.tell_urgent();
            // SAFETY: makes a socket; no memory is involved.
            let blank =
                unsafe { real::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
            marks::mark(blank);
            // Large ones, which the caller may have no room for.
            Ok((Box::new(mtcp), Box::new(context), blank))
        };
        let (opened, _) = private::make(open).map_err(|error| apart(&error))?;
        let (_mtcp, context, blank) = opened.map_err(|error: SetupError| error.to_string())?;
        self.blank = blank;
        self.stage = Stage::Running { context, _mtcp };
        Ok(())
    }

    /// It cannot be started, and nobody asks again.
    pub(crate) fn fail(&mut self) {
        self.stage = Stage::Failed;
    }

    /// Ends it: what needs it next starts it again.
    pub(crate) fn end(&mut self) {
        self.stage = Stage::Idle;
        // SAFETY: a descriptor of the library's own, which nothing here uses any more, or none.
        unsafe { real::close(self.blank) };
        self.blank = -1;
    }

    /// In a child: it stays with the parent. Returns whether that has one.
    pub(crate) fn leave_to_parent(&mut self) -> bool {
        let stage = std::mem::replace(&mut self.stage, Stage::Idle);
        let is_there = matches!(stage, Stage::Running { .. });
        if let Stage::Running { context, _mtcp } = stage {
            // Its rings and its memory are the parent's: nothing of it may run here, not even its
            // end.
            Box::leak(context);
            Box::leak(_mtcp);
        }
        if let Some(prepared) = &mut self.prepared {
            prepared.disarm();
        }
        self.blank = -1;
        is_there
    }

    /// Whether a descriptor is one that processes share.
    pub(crate) fn shares(&self, fd: c_int) -> bool {
        self.inherited.contains(&fd)
    }
}
