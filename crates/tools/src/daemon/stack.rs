//! The stacks of the daemon: each on a thread of its own, which serves the programs that are
//! attached.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use control::Error;
use control::message;
use control::policy::{Budget, Credentials};
use control::server::{Channel, Client, ClientId, CurrentPolicy, SocketsAnswer, Stacks, Usage};
use mtcp::service::{self, Host, HostHandle, Leftover};
use mtcp::{Errno, Mtcp};

use super::listing;
use super::settings::Loaded;
use crate::fail::Failure;

/// What the control plane sees of the stacks.
#[derive(Debug)]
pub(super) struct Served {
    links: String,
    /// For programs.
    settings: String,
    hosts: Vec<HostHandle>,
    policy: Arc<CurrentPolicy>,
    told: Arc<Told>,
    /// What each program has, by stack.
    usages: Mutex<HashMap<ClientId, Vec<Arc<service::Usage>>>>,
}

impl Served {
    fn usages(&self) -> MutexGuard<'_, HashMap<ClientId, Vec<Arc<service::Usage>>>> {
        self.usages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attach_to(
        &self,
        host: &HostHandle,
        client: &Client,
    ) -> std::io::Result<service::Attachment> {
        let rights = Rights {
            policy: Arc::clone(&self.policy),
            who: client.credentials.clone(),
            budget: client.budget,
            told: Arc::clone(&self.told),
        };
        let usage = Arc::default();
        let who = service::Identity {
            id: client.id.0,
            pid: client.credentials.pid,
            uid: client.credentials.uid,
        };
        let attachment = host.attach(who, Arc::new(rights), Arc::clone(&usage))?;
        self.usages().entry(client.id).or_default().push(usage);
        Ok(attachment)
    }
}

impl Stacks for Served {
    fn count(&self) -> u32 {
        u32::try_from(self.hosts.len()).unwrap_or(u32::MAX)
    }

    fn links(&self) -> String {
        self.links.clone()
    }

    fn settings(&self) -> String {
        self.settings.clone()
    }

    fn attach(&self, client: &Client) -> Result<Vec<Channel>, Error> {
        let channel = |(stack, host): (u32, &HostHandle)| {
            let attachment = self.attach_to(host, client).map_err(|error| {
                // What other stacks made of it goes.
                self.detach(client.id);
                let errno = rustix::io::Errno::from_io_error(&error);
                Error::new(
                    errno.unwrap_or(rustix::io::Errno::NOMEM),
                    format!("the daemon cannot make a channel: {error}"),
                    "raise its limit of open files or memory, or lower 'memory' in its settings",
                )
            })?;
            let (descriptors, words) = attachment.into_parts();
            Ok(Channel {
                words: message::Channel::new(stack, &words),
                descriptors: descriptors.into(),
            })
        };
        (0..).zip(&self.hosts).map(channel).collect()
    }

    fn detach(&self, client: ClientId) {
        self.usages().remove(&client);
        for host in &self.hosts {
            host.detach(client.0);
        }
    }

    fn usage(&self, client: ClientId) -> Usage {
        let usages = self.usages();
        let of = usages.get(&client).map(Vec::as_slice).unwrap_or_default();
        Usage {
            connections: of.iter().map(|usage| usage.connections()).sum(),
            listeners: of.iter().map(|usage| usage.listeners()).sum(),
            ..Usage::default()
        }
    }

    fn list_sockets(&self, of: Option<u32>, from: u64, answer: SocketsAnswer) {
        listing::list(&self.hosts, of, from, answer);
    }
}

/// What a program may do, by the policy that counts when it does it.
#[derive(Debug)]
struct Rights {
    policy: Arc<CurrentPolicy>,
    who: Credentials,
    budget: Budget,
    told: Arc<Told>,
}

impl Rights {
    /// A budget as a number of things in memory.
    fn size(budget: u64) -> usize {
        usize::try_from(budget).unwrap_or(usize::MAX)
    }
}

/// Users of whom the log says that something was refused: who asks for thousands of ports must not
/// fill it.
const USERS_TOLD: usize = 64;

/// Whom it has named.
#[derive(Debug, Default)]
struct Told(Mutex<BTreeSet<u32>>);

impl Told {
    /// Says why something was refused, the first time for each user. The program gets the error
    /// number.
    fn refused(&self, user: u32, error: &Error) -> Errno {
        self.tell(user, error);
        Errno(error.errno().raw_os_error())
    }

    fn tell(&self, user: u32, why: &dyn fmt::Display) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < USERS_TOLD && told.insert(user) {
            log::warn!("{why}");
        } else {
            log::debug!("{why}");
        }
    }
}

impl service::Policy for Rights {
    fn listen(&self, local: SocketAddr) -> mtcp::Result<()> {
        let policy = self.policy.get();
        let allowed = policy.allows_listen(&self.who, local.ip(), local.port());
        allowed.map_err(|error| self.told.refused(self.who.uid, &error))
    }

    fn connect(&self, local: Option<SocketAddr>, remote: SocketAddr) -> mtcp::Result<()> {
        let any: IpAddr = match remote {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let local = local.unwrap_or(SocketAddr::new(any, 0));
        let policy = self.policy.get();
        let allowed = policy.allows_connect(&self.who, local);
        allowed.map_err(|error| self.told.refused(self.who.uid, &error))
    }

    fn tell(&self, why: &str) {
        self.told.tell(self.who.uid, &why);
    }

    fn connections(&self) -> usize {
        Self::size(self.budget.connections)
    }

    fn listeners(&self) -> usize {
        Self::size(self.budget.listeners)
    }

    fn memory(&self) -> usize {
        Self::size(self.budget.memory)
    }
}

/// Links and stacks.
#[derive(Debug)]
pub(super) struct Opened {
    served: Arc<Served>,
    threads: Vec<JoinHandle<()>>,
    failed: Arc<AtomicBool>,
    _mtcp: Mtcp,
}

/// Opens what the settings say. `wake` is called when a stack ends by itself.
pub(super) fn open(
    loaded: &Loaded,
    policy: Arc<CurrentPolicy>,
    wake: impl Fn() + Clone + Send + 'static,
) -> anyhow::Result<Opened> {
    let config = loaded.config(true)?;
    let addresses = config.addresses.iter();
    let addresses = addresses.map(|cidr| format!(" {}/{}", cidr.addr, cidr.prefix_len));
    let links = format!("{}{}", config.io, addresses.collect::<String>());
    let settings = mtcp::settings_for_programs(&config);
    let said = |error: mtcp::SetupError| anyhow::anyhow!("{error}");
    let mtcp = Mtcp::init(config).map_err(said)?;
    let failed = Arc::new(AtomicBool::new(false));
    let (mut hosts, mut threads) = (Vec::new(), Vec::new());
    for core in 0..mtcp.cores() {
        let (host, handle) = mtcp.host(core).map_err(said)?;
        hosts.push(handle);
        threads.push(serve(host, core, Arc::clone(&failed), wake.clone())?);
    }
    Ok(Opened {
        served: Arc::new(Served {
            links,
            settings,
            hosts,
            policy,
            told: Arc::default(),
            usages: Mutex::default(),
        }),
        threads,
        failed,
        _mtcp: mtcp,
    })
}

/// Serves programs on a thread until it is told to stop.
fn serve(
    host: Host,
    core: usize,
    failed: Arc<AtomicBool>,
    wake: impl Fn() + Send + 'static,
) -> anyhow::Result<JoinHandle<()>> {
    let run = move || {
        if let Err(error) = host.run() {
            log::error!("stack {core} has lost its link: {error}: start the daemon again");
            failed.store(true, Ordering::Release);
            wake();
        }
    };
    let thread = thread::Builder::new().name(format!("stack-{core}"));
    thread.spawn(run).map_err(|error| {
        let cause = format!("cannot start a thread: {error}");
        Failure::error(cause, "raise the limit of processes (ulimit -u)")
    })
}

impl Opened {
    pub(super) fn stacks(&self) -> &Arc<Served> {
        &self.served
    }

    pub(super) fn label(&self) -> &str {
        &self.served.links
    }

    /// What is left of programs on all stacks.
    pub(super) fn leftover(&self) -> Leftover {
        let mut sum = Leftover::default();
        for left in self.served.hosts.iter().map(HostHandle::leftover) {
            sum.is_used |= left.is_used;
            sum.undelivered.connections += left.undelivered.connections;
            sum.undelivered.bytes += left.undelivered.bytes;
        }
        sum
    }

    /// Whether a stack has lost its link.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        for host in &self.served.hosts {
            host.stop();
        }
        for thread in self.threads.drain(..) {
            // A panic was told where it happened.
            let _ = thread.join();
        }
    }
}
