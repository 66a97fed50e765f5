//! Which link.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Which link: `afxdp:IFACE`, `packet:IFACE`, `tap:NAME`, `shm:PATH`, `loop:NAME` or
/// `daemon[:NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IoSpec {
    /// AF_XDP sockets on all queues of a network interface.
    Afxdp(String),
    /// AF_PACKET sockets on a network interface, for those without XDP.
    Packet(String),
    /// A TAP device, made if it is not there.
    Tap(String),
    /// A link to another process over shared memory; the first one creates `path`, the second
    /// connects.
    Shm(PathBuf),
    /// A link of this process to itself, on which our own addresses are reachable. The name is for
    /// messages.
    Loop(String),
    /// None of this process: the stack of the daemon of this name, which may have the directory of
    /// its socket before it. Empty: that of this network namespace.
    Daemon(String),
}

/// The daemon of this name.
fn daemon(name: &str) -> Result<IoSpec, String> {
    let last = name.rsplit('/').next().unwrap_or_default();
    if !name.is_empty() {
        control::place::check_name(last).map_err(|error| error.to_string())?;
    }
    Ok(IoSpec::Daemon(name.to_owned()))
}

/// Whether it is a link that only the original mTCP has.
pub(super) fn is_original(kind: &str) -> bool {
    matches!(kind, "dpdk" | "netmap" | "onvm" | "psio")
}

impl IoSpec {
    /// The link of this kind and name.
    pub(super) fn of(kind: &str, name: &str) -> Result<Self, String> {
        match kind {
            "afxdp" => Ok(Self::Afxdp(name.to_owned())),
            "packet" => Ok(Self::Packet(name.to_owned())),
            "tap" => Ok(Self::Tap(name.to_owned())),
            "shm" => Ok(Self::Shm(PathBuf::from(name))),
            "loop" => Ok(Self::Loop(name.to_owned())),
            "daemon" => daemon(name),
            _ if is_original(kind) => Err(format!(
                "io '{kind}' is of the original mTCP: write io = afxdp:IFACE, which drives IFACE with the kernel's own driver; or leave the \
                 line, and set MTCP_IO=afxdp:IFACE in the environment or io_as = afxdp:IFACE"
            )),
            _ => Err(format!(
                "unknown io '{kind}': use afxdp:IFACE, packet:IFACE, tap:NAME, shm:PATH, loop:NAME or daemon[:NAME]"
            )),
        }
    }

    /// `afxdp`, `packet`, `tap`, `shm`, `loop` or `daemon`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Afxdp(_) => "afxdp",
            Self::Packet(_) => "packet",
            Self::Tap(_) => "tap",
            Self::Shm(_) => "shm",
            Self::Loop(_) => "loop",
            Self::Daemon(_) => "daemon",
        }
    }

    /// The interface or path; empty if it was not given yet, or the daemon needs none.
    pub fn name(&self) -> String {
        match self {
            Self::Afxdp(name)
            | Self::Packet(name)
            | Self::Tap(name)
            | Self::Loop(name)
            | Self::Daemon(name) => name.clone(),
            Self::Shm(path) => path.display().to_string(),
        }
    }

    /// Whether it names all that it needs to.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Daemon(_)) || !self.name().is_empty()
    }

    /// How it is written, for messages.
    pub(super) fn syntax(&self) -> &'static str {
        match self {
            Self::Afxdp(_) => "afxdp:IFACE",
            Self::Packet(_) => "packet:IFACE",
            Self::Tap(_) => "tap:NAME",
            Self::Shm(_) => "shm:PATH",
            Self::Loop(_) => "loop:NAME",
            Self::Daemon(_) => "daemon[:NAME]",
        }
    }
}

impl FromStr for IoSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let spec = Self::of(kind, name)?;
        if name.is_empty() && !spec.is_whole() {
            return Err(format!(
                "io '{kind}' names nothing: write {}",
                spec.syntax()
            ));
        }
        Ok(spec)
    }
}

impl fmt::Display for IoSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Daemon(name) if name.is_empty() => f.write_str(self.kind()),
            _ => write!(f, "{}:{}", self.kind(), self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_prints() {
        for text in [
            "afxdp:veth0",
            "packet:eth0",
            "tap:mtcp0",
            "shm:/tmp/a:b",
            "loop:lo",
            "daemon",
            "daemon:web",
            "daemon:/run/other/web",
        ] {
            assert_eq!(text.parse::<IoSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn says_what_to_use_instead() {
        assert!(
            "dpdk:0"
                .parse::<IoSpec>()
                .unwrap_err()
                .contains("write io = afxdp:IFACE")
        );
        assert!(
            "tap"
                .parse::<IoSpec>()
                .unwrap_err()
                .contains("write tap:NAME")
        );
        assert!(
            "eth0"
                .parse::<IoSpec>()
                .unwrap_err()
                .contains("afxdp:IFACE")
        );
    }
}
