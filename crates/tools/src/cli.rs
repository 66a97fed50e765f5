//! The command line.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::bench::BenchArgs;
use crate::bench::end::client::ClientArgs;
use crate::bench::end::server::ServerArgs;
use crate::daemon::DaemonArgs;
use crate::demo::DemoArgs;
use crate::doctor::DoctorArgs;
use crate::executor;
use crate::fail;
use crate::listing::SocketsArgs;
use crate::load::LoadArgs;
use crate::output;
use crate::replay::ReplayArgs;
use crate::run::RunArgs;
use crate::serve::ServeArgs;

const EXAMPLES: &str = "Examples:
  mtcp demo                                                   everything at once, cleaned up afterwards
  mtcp serve /srv/www --io afxdp:veth0 --addr 10.0.0.2/24     a web server on AF_XDP
  mtcp load http://10.0.0.2/ --io kernel -c 100 -n 10000      load it from kernel sockets
  mtcp run --io afxdp:veth0 --addr 10.0.0.2/24 -- redis-server  an unmodified program over the stack
  mtcp bench short --pairs 7                                  short connections: mTCP beside the kernel
  mtcp doctor --io afxdp:eth0                                 what is missing on this machine";

/// A user-level TCP/IP stack: web server, load generator, benchmark, unmodified programs,
/// demonstration, doctor.
#[derive(Parser, Debug)]
#[command(name = "mtcp", version, after_help = EXAMPLES, max_term_width = 120)]
struct Cli {
    /// What to say on stderr: off, error, warn, info, debug or trace, or MODULE=LEVEL,...
    /// [default: $MTCP_LOG, $RUST_LOG, warn]
    #[arg(long, global = true, value_name = "LEVEL", value_parser = log_level)]
    log_level: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Serve the files of a directory over HTTP/1.1
    Serve(Box<ServeArgs>),
    /// Load a server and measure it
    Load(Box<LoadArgs>),
    /// Make logs of HTTP traffic, measure and replay them
    Replay(Box<ReplayArgs>),
    /// Run a program, as it is, with its TCP connections on the stack
    Run(Box<RunArgs>),
    /// Own links and stacks, to which programs attach
    Daemon(Box<DaemonArgs>),
    /// Print the sockets of a daemon
    Sockets(SocketsArgs),
    /// Go on with the connections of a program that was killed
    #[command(hide = true)]
    Executor,
    /// Measure mTCP and the kernel in turn on the same two processors
    Bench(Box<BenchArgs>),
    /// The server of a benchmark
    #[command(hide = true)]
    BenchServer(Box<ServerArgs>),
    /// The client of a benchmark
    #[command(hide = true)]
    BenchClient(Box<ClientArgs>),
    /// Show all of it on this machine: server, client, both IP versions, rates beside the kernel's
    Demo(DemoArgs),
    /// Say what on this machine helps or hinders, with remedies
    Doctor(DoctorArgs),
}

/// As the logger reads it.
fn log_level(text: &str) -> Result<String, String> {
    logger::parse(text).map(|_| text.to_owned())
}

/// The status of a command whose checks did not all pass.
const FAILED: u8 = 1;
/// The status of a command that could not start.
const REFUSED: u8 = 2;

/// Runs `arguments`, the program's name first.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &arguments),
    };
    // Read before; a logger of somebody else's process stays.
    let _ = logger::install(cli.log_level.as_deref());
    let result = match cli.command {
        Command::Serve(serve) => serve.run().map(|()| true),
        Command::Load(load) => load.run(),
        Command::Replay(replay) => replay.run(),
        Command::Run(run) => run.run(cli.log_level.as_deref()),
        Command::Daemon(daemon) => daemon.run().map(|()| true),
        Command::Sockets(sockets) => sockets.run().map(|()| true),
        Command::Executor => executor::run(),
        Command::Bench(bench) => bench.run(),
        Command::BenchServer(server) => server.run().map(|()| true),
        Command::BenchClient(client) => client.run().map(|()| true),
        Command::Demo(demo) => demo.run(),
        Command::Doctor(doctor) => doctor.run(),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            output::note(&fail::line(&error));
            ExitCode::from(REFUSED)
        }
    }
}

/// Help and version go to stdout; everything else is one line.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // Nobody may be reading.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    output::note(&one_line(error, arguments));
    ExitCode::from(REFUSED)
}

fn one_line(error: &clap::Error, arguments: &[OsString]) -> String {
    let cause = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            "no command given".to_owned()
        }
        ErrorKind::MissingRequiredArgument => {
            format!("missing {}", listed(error, ContextKind::InvalidArg))
        }
        _ => first_paragraph(&error.to_string()),
    };
    let suggestions = [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
        ContextKind::SuggestedSubcommand,
    ];
    let similar = suggestions
        .into_iter()
        .map(|kind| listed(error, kind))
        .find(|text| !text.is_empty());
    let hint = similar
        .map(|similar| format!("did you mean {similar}? "))
        .unwrap_or_default();
    let command = command(arguments).map_or_else(String::new, |name| format!(" {name}"));
    format!("mtcp: {cause}: {hint}see 'mtcp{command} --help'")
}

/// The subcommand that these arguments name.
fn command(arguments: &[OsString]) -> Option<String> {
    let commands = Cli::command();
    let named = |argument: &OsString| commands.find_subcommand(argument).cloned();
    let command = arguments.iter().skip(1).find_map(named)?;
    Some(command.get_name().to_owned())
}

fn first_paragraph(text: &str) -> String {
    let lines = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim);
    let joined = lines.collect::<Vec<_>>().join(" ");
    joined.strip_prefix("error: ").unwrap_or(&joined).to_owned()
}

fn listed(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_mistake_is_one_line() {
        for arguments in [
            "mtcp",
            "mtcp sreve",
            "mtcp serve",
            "mtcp serve . --prot 80",
            "mtcp serve . --io bogus",
            "mtcp serve . --io kernel --port 99999",
            "mtcp serve . --io kernel --addr 10.0.0",
            "mtcp serve . --raw 64/64",
            "mtcp load",
            "mtcp load http://127.0.0.1 --io kernel -c many",
            "mtcp load https://127.0.0.1 --io kernel",
            "mtcp run --io tap:t0 --addr 10.0.0.2/24",
            "mtcp run --io tap:t0 --only http -- true",
            "mtcp doctor --log-level loud",
            "mtcp sockets --all",
            "mtcp replay",
            "mtcp replay make --requests many",
        ] {
            let words: Vec<OsString> = arguments.split(' ').map(OsString::from).collect();
            let error = Cli::try_parse_from(&words).unwrap_err();
            let line = one_line(&error, &words);
            assert!(
                line.starts_with("mtcp: ") && line.lines().count() == 1 && line.contains("--help"),
                "{arguments}: {line}"
            );
        }
        let line = |words: &[&str]| {
            let error = Cli::try_parse_from(words).unwrap_err();
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            one_line(&error, &words)
        };
        assert!(line(&["mtcp", "sreve"]).contains("did you mean serve?"));
        assert!(line(&["mtcp", "serve"]).ends_with("see 'mtcp serve --help'"));
        assert!(line(&["mtcp"]).ends_with("see 'mtcp --help'"));
    }
}
