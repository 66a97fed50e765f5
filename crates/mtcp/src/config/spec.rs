//! Which link.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Which link: `afxdp:IFACE`, `tap:NAME` or `shm:PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IoSpec {
    /// AF_XDP sockets on all queues of a network interface.
    Afxdp(String),
    /// A TAP device, made if it is not there.
    Tap(String),
    /// A link to another process over shared memory; the first one creates `path`, the second connects.
    Shm(PathBuf),
}

impl FromStr for IoSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once(':').unwrap_or((text, ""));
        let what = match kind {
            "afxdp" => "IFACE",
            "tap" => "NAME",
            "shm" => "PATH",
            _ => {
                return Err(format!(
                    "unknown io '{kind}': use afxdp:IFACE, tap:NAME or shm:PATH"
                ));
            }
        };
        if name.is_empty() {
            return Err(format!("io '{kind}' names nothing: write {kind}:{what}"));
        }
        Ok(match kind {
            "afxdp" => Self::Afxdp(name.to_owned()),
            "tap" => Self::Tap(name.to_owned()),
            _ => Self::Shm(PathBuf::from(name)),
        })
    }
}

impl fmt::Display for IoSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Afxdp(name) => write!(f, "afxdp:{name}"),
            Self::Tap(name) => write!(f, "tap:{name}"),
            Self::Shm(path) => write!(f, "shm:{}", path.display()),
        }
    }
}
