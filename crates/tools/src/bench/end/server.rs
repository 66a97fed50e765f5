//! The server of a benchmark: as tight an epoll loop as there can be over the sockets' trait.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use crate::fail::Failure;
use crate::link::{Backend, LinkArgs};
use crate::signals::Stop;
use crate::sockets::{Errno, Handle, Ready, Sockets};

use super::service::{Exchange, Reset, Service, Stream};
use super::work::{Work, WorkArgs};

/// Connections taken per turn.
const ACCEPTS: usize = 256;
/// Connections that may wait to be accepted; the kernel has a limit of its own below.
const BACKLOG: u32 = 65_535;
/// Set in the `data` of a listener.
const LISTENER: u64 = 1 << 32;

/// Options of the server.
#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    /// Port to listen on; 0 picks one
    #[arg(long, default_value_t = 9000)]
    port: u16,
    /// The kernel with TCP_DEFER_ACCEPT and MSG_MORE
    #[arg(long)]
    tuned: bool,
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    link: LinkArgs,
}

impl ServerArgs {
    /// Serves until SIGTERM.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut options = self.link.clone();
        options.room = self.work.room();
        options.prefault = self.work.prefault();
        let link = options.open()?;
        let addresses = options.listen_addresses(&link.addresses, self.port);
        match link.backend {
            Backend::Kernel(mut kernel) => {
                let listeners = listen(&mut kernel, &addresses)?;
                if self.tuned {
                    for listener in &listeners {
                        kernel
                            .defer_accept(*listener)
                            .context("no TCP_DEFER_ACCEPT")?;
                    }
                }
                self.serve(&mut kernel, &listeners)
            }
            Backend::Stack(mut stack, _mtcp) => {
                let listeners = listen(&mut *stack, &addresses)?;
                self.serve(&mut *stack, &listeners)
            }
        }
    }

    fn serve<S: Sockets>(&self, sockets: &mut S, listeners: &[Handle]) -> anyhow::Result<()> {
        let wake = sockets
            .waker()
            .context("cannot make a wake-up descriptor")?;
        let stop = Stop::watch(wake)?;
        announce(sockets, listeners)?;
        let WorkArgs { size, messages, .. } = self.work;
        let result = match self.work.work {
            Work::Exchange | Work::Hold => {
                let mut service = Exchange::new(size, messages, self.tuned);
                run(sockets, &mut service, self.work.spin, &stop)
            }
            Work::Reset => run(sockets, &mut Reset, self.work.spin, &stop),
            Work::Stream => run(sockets, &mut Stream::new(), self.work.spin, &stop),
        };
        result.map_err(|error| {
            Failure::error(format!("the link failed: {error}"), "see 'mtcp doctor'")
        })
    }
}

fn listen<S: Sockets>(sockets: &mut S, addresses: &[SocketAddr]) -> anyhow::Result<Vec<Handle>> {
    let one = |address: &SocketAddr| -> Result<Handle, Errno> {
        let listener = sockets.listen(*address, BACKLOG)?;
        sockets.add(listener, Ready::IN, LISTENER | u64::from(listener.0))?;
        Ok(listener)
    };
    let listeners: Result<Vec<Handle>, Errno> = addresses.iter().map(one).collect();
    listeners.map_err(|error| {
        Failure::error(
            format!("cannot listen on {addresses:?}: {error}"),
            "stop the program that listens there",
        )
    })
}

/// One line that says that clients may come, and to which port.
fn announce<S: Sockets>(sockets: &S, listeners: &[Handle]) -> anyhow::Result<()> {
    let first = listeners.first().context("no address to listen on")?;
    let port = sockets.local_addr(*first)?.port();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{port}")?;
    out.flush()?;
    Ok(())
}

fn run<S: Sockets, A: Service>(
    sockets: &mut S,
    service: &mut A,
    spin: bool,
    stop: &Stop,
) -> Result<(), Errno> {
    let timeout = spin.then_some(Duration::ZERO);
    let mut events = Vec::with_capacity(512);
    while !stop.requested() {
        sockets.wait(&mut events, timeout)?;
        for event in &events {
            let socket = Handle(event.data as u32);
            if event.data & LISTENER == 0 {
                service.ready(sockets, socket, event.ready);
            } else {
                accept(sockets, service, socket);
            }
        }
    }
    Ok(())
}

fn accept<S: Sockets, A: Service>(sockets: &mut S, service: &mut A, listener: Handle) {
    for _ in 0..ACCEPTS {
        match sockets.accept(listener) {
            Ok(socket) => service.accepted(sockets, socket),
            // Whatever it is, the next turn will say it again.
            Err(_) => return,
        }
    }
}
