//! The settings file of a daemon: lines of `mtcp.conf`, and its own.

use std::path::PathBuf;

use control::policy::{Policy, Settings, UNPRIVILEGED_PORT_START};
use control::{NetNamespace, private};
use mtcp::{Config, IoSpec};

use super::names::OfHost;
use crate::fail::Failure;
use crate::link::{Io, LinkArgs};

/// Connections of all programs, unless the file says otherwise: no program may have more than a
/// quarter of them, unless the policy says otherwise.
const CONNECTIONS: u32 = 4 * 65_536;

/// What the file and the options say.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The options, which have no file any more: its lines are in `defaults`.
    link: LinkArgs,
    defaults: Config,
    /// Who may use what.
    pub(super) policy: Policy,
    /// Whom the daemon becomes.
    pub(super) user: Option<String>,
    file: Option<PathBuf>,
}

/// Reads the file, if one is named, or `lines`, and what the options say over it.
pub(super) fn load(link: &LinkArgs, lines: Option<&str>) -> anyhow::Result<Loaded> {
    let usual = link.defaults();
    let mut defaults = Config {
        max_concurrency: usual.max_concurrency.max(CONNECTIONS),
        ..usual
    };
    let mut link = link.clone();
    let file = link.config.take();
    // It is read again, from wherever the daemon is then.
    let file = file.map(|file| std::path::absolute(&file).unwrap_or(file));
    let (settings, name) = match (&file, lines) {
        (Some(file), _) => (Some(read(file)?), file.display().to_string()),
        (None, Some(lines)) => {
            let name = "--settings".to_owned();
            (Some(Settings::read(lines, &name, &OfHost)?), name)
        }
        (None, None) => (None, String::new()),
    };
    if let Some(settings) = &settings {
        defaults
            .read(&settings.others, &name)
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        if link.io.is_none() {
            let io = defaults
                .link()
                .map_err(|error| Failure::error(error, "or give --io"))?;
            link.io = Some(Io::Mtcp(io));
        }
    }
    let settings = settings.unwrap_or_default();
    if let Some(Io::Mtcp(IoSpec::Daemon(_))) = link.io {
        return Err(Failure::error(
            "a daemon has a link of its own",
            "give --io afxdp:IFACE, packet:IFACE, tap:NAME, shm:PATH or loop:NAME",
        ));
    }
    Ok(Loaded {
        link,
        defaults,
        policy: with_ports(settings.policy),
        user: settings.user,
        file,
    })
}

fn read(file: &PathBuf) -> anyhow::Result<Settings> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::error(
            format!("cannot read {name}: {error}"),
            "check path and permissions",
        )
    })?;
    Ok(Settings::read(&text, &name, &OfHost)?)
}

/// With the first unprivileged port of this network namespace.
fn with_ports(policy: Policy) -> Policy {
    const FILE: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    let text = std::fs::read_to_string(FILE).unwrap_or_default();
    let start = text.trim().parse().unwrap_or(UNPRIVILEGED_PORT_START);
    policy.with_unprivileged_ports(start)
}

impl Loaded {
    /// What the stack is to be. `open`: the link has to be there.
    pub(super) fn config(&self, open: bool) -> anyhow::Result<Config> {
        let mut config = self.link.config(open, self.defaults.clone())?;
        config.pin = self.link.core.is_some();
        Ok(config)
    }

    /// Whether it can be opened, as far as that can be said without doing so.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.config(false)?;
        if let Some(user) = &self.user
            && control::policy::Names::user(&OfHost, user).is_none()
        {
            return Err(Failure::error(
                format!("there is no user '{user}' to become"),
                "make it (useradd --system), or change 'user' in the settings",
            ));
        }
        Ok(())
    }

    /// The policy as the file has it now.
    pub(super) fn read_again(&self) -> anyhow::Result<Policy> {
        match &self.file {
            Some(file) => Ok(with_ports(read(file)?.policy)),
            None => Ok(self.policy.clone()),
        }
    }

    /// What a private daemon of these settings is called.
    pub(super) fn key(&self) -> anyhow::Result<String> {
        let config = self.config(false)?;
        let words: Vec<String> = mtcp::config::keys()
            .iter()
            .map(|key| key.show(&config))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(private::key(NetNamespace::own()?, &words))
    }
}
