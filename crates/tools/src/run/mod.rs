//! `mtcp run`: an unmodified program over the stack.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mtcp::{Config, IoSpec, Mode, filter};

use control::client::Session;

use crate::fail::{self, Failure};
use crate::link::{Io, LinkArgs};
use crate::output;

mod door;
mod lines;
mod rights;

/// What takes the program's calls.
const LIBRARY: &str = "libmtcp_preload.so";
/// What the library reads: lines of `mtcp.conf`, and ports.
pub(crate) const SETTINGS: &str = "MTCP_RUN_SETTINGS";
/// This program, which goes on for one that was killed.
const EXECUTOR: &str = "MTCP_RUN_EXECUTOR";
const ONLY: &str = "MTCP_RUN_ONLY";
const EXCEPT: &str = "MTCP_RUN_EXCEPT";
/// What sockets of the stack are where there is none.
const FALLBACK: &str = "MTCP_RUN_FALLBACK";
/// The connection to the daemon that the program and its children come by.
const DOOR: &str = "MTCP_RUN_DOOR";
const PRELOAD: &str = "LD_PRELOAD";
const SANITIZER: &str = "TSAN_OPTIONS";

const EXAMPLES: &str = "Examples:
  mtcp run -- redis-server --bind 10.0.0.2 --protected-mode no     on the stack of the daemon of this network namespace
  mtcp run --io afxdp:veth0 --addr 10.0.0.2/24 -- redis-server --bind 10.0.0.2 --protected-mode no
  mtcp run --io afxdp:eth0 --addr 10.0.0.2/24 --workers 2 -- nginx -g 'daemon off; worker_processes 2;'
  mtcp run --io afxdp:eth0 --addr 10.0.0.2/24 --gateway 10.0.0.1 -- curl http://192.0.2.1/
  mtcp run --shared --io afxdp:eth0 --addr 10.0.0.2/24 -- curl http://192.0.2.1/      beside others that are run so
  mtcp run --io tap:tap0 --addr 10.0.0.2/24 --only 80,8000-8999 -- python3 -m http.server 80

It ends with status 2 before the program runs if the stack cannot reach the program or the link: --fallback kernel runs it all the same.

TCP connections to and from the addresses given here go through the stack, as far as its routes lead; loopback and everything else
stay with the kernel.";

/// Runs a program, as it is, with its TCP connections on the stack.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    link: LinkArgs,
    /// Ports of ours, local ones of servers and remote ones of clients; all others are the kernel's
    #[arg(long, value_name = "PORTS", value_parser = ports)]
    only: Option<String>,
    /// Ports that are the kernel's
    #[arg(long, value_name = "PORTS", value_parser = ports)]
    except: Option<String>,
    /// Processes of the program that serve, with a part of the queues of an AF_XDP interface each
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Share the stack with the other programs of this user that are run with the same options: a
    /// daemon has it, which the first of them starts and which ends a second after the last
    #[arg(long, conflicts_with = "workers")]
    shared: bool,
    /// Where the stack cannot be reached or started, connections are the kernel's; without it, the
    /// program does not run, or hears errors
    #[arg(long, value_name = "STACK", value_enum)]
    fallback: Option<Fallback>,
    /// What the program may do though its connections are the kernel's then
    #[arg(long, value_name = "WHAT", value_enum)]
    allow: Vec<Allowed>,
    /// The library to load, if it is not beside this program or in ../lib
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// What takes the place of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fallback {
    Kernel,
}

/// What is refused otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Allowed {
    /// io_uring past the stack: its sockets are the kernel's
    IoUring,
}

/// `80,8000-8999`.
fn ports(text: &str) -> Result<String, String> {
    let port = |text: &str| text.parse::<u16>().is_ok();
    let good = text.split(',').all(|part| match part.split_once('-') {
        Some((first, last)) => port(first) && port(last),
        None => port(part),
    });
    if good {
        Ok(text.to_owned())
    } else {
        Err(format!("'{text}' is no list of ports like 80,8000-8999"))
    }
}

impl RunArgs {
    /// Becomes the program. `log_level`: what its library says, in the words of the logger.
    pub(crate) fn run(mut self, log_level: Option<&str>) -> anyhow::Result<bool> {
        let mut config = self.config()?;
        let library = self.library()?;
        let Some((program, arguments)) = self.program.split_first() else {
            return Err(Failure::error("no program given", "name it after --"));
        };
        let session = self.session(&mut config, log_level)?;
        let needed = self.check(program, &config)?;
        let door = session.map(door::leave_open).transpose()?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env(SETTINGS, lines::settings(&config))
            .env(
                PRELOAD,
                preload(&needed, &library, std::env::var_os(PRELOAD)),
            );
        let options = std::env::var_os(SANITIZER);
        if let Some(options) = loader::sanitizer_options(&needed, options) {
            command.env(SANITIZER, options);
        }
        if let Some(level) = log_level {
            command.env(logger::VARIABLE, level);
        }
        if let Ok(own) = std::env::current_exe() {
            command.env(EXECUTOR, own);
        }
        let fallback = self.fallback.map(|_| "kernel".to_owned());
        for (name, value) in [
            (DOOR, &door),
            (ONLY, &self.only),
            (EXCEPT, &self.except),
            (FALLBACK, &fallback),
        ] {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        self.forbid()?;
        rights::pass_on();
        let error = command.exec();
        Err(Failure::error(
            format!("cannot run {}: {error}", program.display()),
            "check its name and the PATH",
        ))
    }

    /// The settings of the stack; without a link, those of the daemon here.
    fn config(&mut self) -> anyhow::Result<Config> {
        let defaults = Config {
            // The program may have better uses for the processor.
            spin: Duration::ZERO,
            ..self.link.defaults()
        };
        let is_chosen = self.link.io.is_some() || self.link.config.is_some();
        if !is_chosen {
            self.link.io = Some(Io::Mtcp(IoSpec::Daemon(String::new())));
        }
        let config = self.link.config(self.fallback.is_none(), defaults);
        let mut config = match is_chosen {
            true => config?,
            false => config.map_err(or_link)?,
        };
        if self.link.mode == Some(crate::link::Mode::Paired) {
            return Err(Failure::error(
                "the threads of the program run the stack here, so there is no paired mode",
                "give --mode inline, or leave it out",
            ));
        }
        // A file's mode is for commands that have threads of their own.
        config.mode = Mode::Inline;
        config.processes = config.processes.max(self.workers);
        Ok(config)
    }

    /// The connection to the daemon that has the stack, or is to have it. With --fallback a program
    /// runs without.
    fn session(
        &self,
        config: &mut Config,
        log_level: Option<&str>,
    ) -> anyhow::Result<Option<Session>> {
        let session = match &config.io {
            IoSpec::Daemon(_) if self.shared => Err(Failure::error(
                "the stack of a daemon is shared already",
                "leave --shared out",
            )),
            IoSpec::Daemon(name) => mtcp::find_daemon(name).map_err(anyhow::Error::from),
            _ if self.shared => door::share(config, log_level),
            _ => return Ok(None),
        };
        match session {
            Err(error) if self.fallback.is_some() => {
                output::note(&fail::line(&error));
                Ok(None)
            }
            session => session.map(Some),
        }
    }

    /// Whether the stack will have the program's connections: the program can be reached, and the
    /// link opened. Returns libraries that it needs in front of all others.
    fn check(&self, word: &OsStr, config: &Config) -> anyhow::Result<Vec<String>> {
        let Some(file) = loader::resolve(word) else {
            // What runs it says why it does not.
            return Ok(Vec::new());
        };
        if self.fallback.is_some() {
            return Ok(loader::sanitizers(&file));
        }
        if let Some(obstacle) = loader::obstacle(&file) {
            return Err(Failure::error(
                format!("{obstacle}: its connections would be the kernel's"),
                "run one that is linked dynamically with this system's C library and starts without more rights, or give --fallback kernel",
            ));
        }
        // Of what it goes on without, the program tells, which opens the link again.
        let level = log::max_level();
        log::set_max_level(level.min(log::LevelFilter::Error));
        let tried = mtcp::try_out(config);
        log::set_max_level(level);
        tried?;
        Ok(loader::sanitizers(&file))
    }

    /// Takes away what the program could reach the kernel's sockets by without a call that the
    /// library sees.
    fn forbid(&self) -> anyhow::Result<()> {
        if self.fallback.is_some() || self.allow.contains(&Allowed::IoUring) {
            return Ok(());
        }
        match filter::forbid_io_uring() {
            Ok(true) => output::note(
                "mtcp: io_uring is the library's to serve, for which set-user-ID programs started by this one get no rights: run as root, or give \
                 --allow io-uring",
            ),
            Ok(false) => {}
            Err(error) => {
                return Err(Failure::error(
                    format!("cannot forbid io_uring, whose sockets would be the kernel's: {error}"),
                    "give --allow io-uring if the program does not use it",
                ));
            }
        }
        Ok(())
    }

    fn library(&self) -> anyhow::Result<PathBuf> {
        let places = match &self.library {
            Some(library) => vec![library.clone()],
            None => std::env::current_exe()
                .map(|own| beside(&own))
                .unwrap_or_default(),
        };
        let found = places.iter().find_map(|place| place.canonicalize().ok());
        found.ok_or_else(|| {
            Failure::error(
                format!("there is no {LIBRARY} beside this program or in ../lib"),
                "build it (cargo build -p preload), or name it with --library",
            )
        })
    }
}

/// There is no daemon to attach to.
fn or_link(error: anyhow::Error) -> anyhow::Error {
    anyhow::anyhow!("{error:#}, or give --io afxdp:IFACE for a stack of the program's own")
}

/// Where the library of a program may be.
fn beside(own: &Path) -> Vec<PathBuf> {
    let directory = own.parent().unwrap_or(Path::new("."));
    vec![
        directory.join(LIBRARY),
        directory.join("../lib").join(LIBRARY),
    ]
}

/// The library, in front of those that are to be loaded anyway, behind those that the program needs
/// first.
fn preload(first: &[String], library: &Path, others: Option<OsString>) -> OsString {
    let mut list = OsString::new();
    for name in first {
        list.push(name);
        list.push(":");
    }
    list.push(library.as_os_str());
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        list.push(OsStr::new(":"));
        list.push(others);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_stay() {
        let library = Path::new("/lib/x.so");
        assert_eq!(preload(&[], library, None), "/lib/x.so");
        assert_eq!(
            preload(&[], library, Some("a.so b.so".into())),
            "/lib/x.so:a.so b.so"
        );
        let first = ["libasan.so.8".to_owned()];
        assert_eq!(preload(&first, library, None), "libasan.so.8:/lib/x.so");
    }

    #[test]
    fn ports_are_numbers_and_ranges() {
        assert!(ports("80,8000-8999").is_ok());
        for wrong in ["", "http", "80,", "1-2-3", "70000"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
    }
}
