//! `mtcp daemon`: stacks that programs attach to.

mod confine;
mod idle;
mod listing;
mod names;
mod notify;
mod settings;
mod stack;
mod status;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Args;
use control::place::{DEFAULT_NAME, Place, check_name};
use control::private;
use control::server::{CurrentPolicy, Listener, Server, Waker};
use mtcp::service::build;

use crate::fail::Failure;
use crate::link::LinkArgs;
use crate::machine;
use crate::output;
use crate::signals::{Reload, Stop};

use idle::Idle;
use notify::Notify;
use settings::Loaded;
use stack::Opened;

const EXAMPLES: &str = "Examples:
  mtcp daemon --io afxdp:eth0 --addr 10.0.0.2/24     as root: for all programs of this network namespace
  mtcp daemon --config /etc/mtcp/daemon.conf         the same, with a settings file (docs/daemon.md)
  mtcp daemon --config /etc/mtcp/daemon.conf --check
  mtcp daemon --list                                 daemons, and the programs that are attached";

/// Owns links and stacks, to which programs attach.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DaemonArgs {
    /// Its name, of which there is one on this machine
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: String,
    /// Directory of its socket [default: /run/mtcp, for others than root their own]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Say whether the settings are right, and end
    #[arg(long, conflicts_with_all = ["list", "status"])]
    check: bool,
    /// List the daemons that this user can reach, and programs that are attached to them
    #[arg(long, conflicts_with = "status")]
    list: bool,
    /// The same of the daemon of this name, and whom it turned away
    #[arg(long)]
    status: bool,
    /// For this user alone, under a name that says what it is for; ends a second after its last
    /// program
    #[arg(long, hide = true, value_name = "KEY", conflicts_with = "name")]
    private: Option<String>,
    /// Lines of a settings file, in place of --config and options
    #[arg(long, hide = true, value_name = "LINES", requires = "private")]
    settings: Option<String>,
    /// Become nobody's child first
    #[arg(long, hide = true, requires = "private")]
    background: bool,
    /// Start or join the private daemon of these settings, and stay until the input ends
    #[arg(long, hide = true, conflicts_with_all = ["private", "name"])]
    join: bool,
    #[command(flatten)]
    link: LinkArgs,
}

impl DaemonArgs {
    /// Serves until SIGTERM or SIGINT; or does what is asked instead.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if self.background {
            return self.detach();
        }
        check_name(self.private.as_ref().unwrap_or(&self.name))?;
        if self.list {
            return status::list(&self.places());
        }
        if self.status {
            return status::of(&self.places(), &self.name);
        }
        let loaded = settings::load(&self.link, self.settings.as_deref())?;
        if self.check {
            loaded.check()?;
            return output::print("mtcp daemon: the settings are right\n");
        }
        if self.join {
            return self.stay(&loaded);
        }
        self.serve(&loaded)
    }

    /// Where the socket is, or may be.
    fn places(&self) -> Vec<Place> {
        match &self.directory {
            Some(directory) if self.is_private() => vec![Place::private(directory)],
            Some(directory) => vec![Place::shared(directory)],
            None if self.is_private() => Place::own(),
            None => [Place::system()].into_iter().chain(Place::own()).collect(),
        }
    }

    fn is_private(&self) -> bool {
        self.private.is_some() || self.join
    }

    fn place(&self) -> anyhow::Result<Place> {
        let mut places = self.places();
        if self.directory.is_none() && !self.is_private() {
            // Others cannot write there.
            let is_root = rustix::process::geteuid().is_root();
            places.retain(|place| place.is_shared() == is_root);
        }
        Ok(private::usable(&places)?.clone())
    }

    fn detach(&self) -> anyhow::Result<()> {
        let command: Vec<OsString> = std::iter::once(machine::own_program()?)
            .chain(std::env::args_os().skip(1))
            .filter(|word| word != "--background")
            .collect();
        private::detach(&command).map_err(|error| {
            let cause = format!("cannot go to the background: {error}");
            Failure::error(cause, "raise the limit of processes (ulimit -u)")
        })
    }

    fn stay(&self, loaded: &Loaded) -> anyhow::Result<()> {
        let key = loaded.key()?;
        let arguments = std::env::args_os().skip(1);
        let command: Vec<OsString> = std::iter::once(machine::own_program()?)
            .chain(arguments.filter(|word| word != "--join"))
            .chain(["--background", "--private", &key].map(OsString::from))
            .collect();
        let joined = private::start_or_join(&self.places(), &key, &build(), &command)?;
        for line in joined.started.iter().flatten() {
            output::note(line);
        }
        let how = if joined.started.is_some() {
            "started"
        } else {
            "joined"
        };
        let pid = joined.session.welcome().pid;
        output::say(&format!("mtcp daemon: {how} process {pid}"));
        // Until then it is held.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        Ok(())
    }

    fn serve(&self, loaded: &Loaded) -> anyhow::Result<()> {
        let notify = Notify::from_environment();
        let place = self.place()?;
        let name = self.private.as_ref().unwrap_or(&self.name);
        let wait = match self.private {
            Some(_) => private::PREDECESSOR_TIMEOUT,
            None => Duration::ZERO,
        };
        if self.private.is_some() {
            // Signals of the terminal are for whoever started it.
            let _ = rustix::process::setsid();
            machine::raise_address_space();
        }
        let listener = Listener::open(&place, name, wait)?;
        let path = listener.path().display().to_string();
        machine::raise_open_files();
        notify.status("opening the links");
        let config = loaded.config(false)?;
        confine::confine(loaded.user.as_deref(), &config, place.directory())?;
        let policy = Arc::new(CurrentPolicy::new(loaded.policy.clone()));
        let lost = Arc::new(OnceLock::<Waker>::new());
        let wake = Arc::clone(&lost);
        let opened = stack::open(loaded, Arc::clone(&policy), move || {
            if let Some(waker) = wake.get() {
                waker.wake();
            }
        })?;
        let stacks = Arc::clone(opened.stacks());
        let server = Server::new(listener, build(), stacks, Arc::clone(&policy))?;
        let waker = server.waker();
        // It is set once.
        let _ = lost.set(server.waker());
        let (stop, reload) = Stop::watch_with_reload(move || waker.wake())?;
        if self.private.is_none() {
            let label = opened.label();
            output::say(&format!("mtcp daemon: listening at {path} ({label})"));
        } else {
            private::say_ready(&place.log(name)).map_err(|error| {
                let cause = format!("cannot write '{}': {error}", place.log(name).display());
                Failure::error(cause, "remove it")
            })?;
            // Whatever directory it was started in may go.
            let _ = std::env::set_current_dir("/");
        }
        let running = Running {
            server,
            opened,
            policy,
            stop,
            reload,
            notify,
            idle: self
                .private
                .as_ref()
                .map(|key| Idle::new(place.start_lock(key))),
            loaded,
        };
        running.run()
    }
}

/// A daemon that serves.
struct Running<'a> {
    server: Server<stack::Served>,
    opened: Opened,
    policy: Arc<CurrentPolicy>,
    stop: Stop,
    reload: Reload,
    notify: Notify,
    idle: Option<Idle>,
    loaded: &'a Loaded,
}

impl Running<'_> {
    fn run(mut self) -> anyhow::Result<()> {
        self.notify.ready();
        let mut told = None;
        // Held until this process is gone.
        let mut _last = None;
        while !self.stop.requested() && !self.opened.has_failed() {
            let attached = self.server.attached();
            if told.replace(attached) != Some(attached) {
                self.notify
                    .status(&format!("{attached} programs are attached"));
            }
            let wait = self.notify.alive(Instant::now());
            let idle = self.idle.as_mut();
            let linger = idle.and_then(|idle| idle.left(self.server.connected(), Instant::now()));
            self.server
                .turn([wait, linger].into_iter().flatten().min())?;
            if self.reload.take() {
                self.reload();
            }
            if let Some(idle) = &mut self.idle
                && let Some(lock) =
                    idle.end(&mut self.server, || self.opened.leftover(), Instant::now())?
            {
                _last = Some(lock);
                break;
            }
        }
        self.notify.stopping();
        self.server.close();
        let failed = self.opened.has_failed();
        // First the programs, then what they use.
        drop(self.server);
        drop(self.opened);
        match failed {
            false => Ok(()),
            true => Err(Failure::error(
                "a stack has lost its link",
                "see the line before, and start the daemon again",
            )),
        }
    }

    /// The policy as the file has it now. All else stays as it was.
    fn reload(&self) {
        self.notify.reloading();
        match self.loaded.read_again() {
            Ok(policy) => {
                self.policy.set(policy);
                log::info!("the policy was read again");
            }
            Err(error) => log::warn!("the policy stays as it was: {error}"),
        }
        self.notify.ready();
    }
}
