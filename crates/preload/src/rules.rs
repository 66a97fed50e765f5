//! Which sockets are ours: what `mtcp run` put into the environment, and what it says of addresses
//! and ports.

use std::ffi::{CStr, CString, c_char};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;

use mtcp::config::Cidr;
use mtcp::{Config, Errno, IoSpec, Mode, Result};

use crate::door;

/// This library.
pub(crate) const LIBRARY: &str = "libmtcp_preload.so";
/// The settings as lines of `mtcp.conf`.
pub(crate) const SETTINGS: &str = "MTCP_RUN_SETTINGS";
/// The program that goes on for this one if it is killed.
const EXECUTOR: &str = "MTCP_RUN_EXECUTOR";
/// Ports that alone are ours, and ports that are not: `80,8000-8999`.
const ONLY: &str = "MTCP_RUN_ONLY";
const EXCEPT: &str = "MTCP_RUN_EXCEPT";
/// What sockets of the stack are where there is none: `kernel`, or errors.
const FALLBACK: &str = "MTCP_RUN_FALLBACK";

/// What loads this library.
pub(crate) const PRELOAD: &str = "LD_PRELOAD";

/// What `mtcp run` said.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) config: Config,
    /// The settings as they came, for the environment of another process.
    pub(crate) settings: CString,
    /// Who goes on for this program, if anybody.
    pub(crate) executor: Option<CString>,
    /// Where there is no stack, connections are the kernel's.
    pub(crate) falls_back: bool,
    only: Vec<(u16, u16)>,
    except: Vec<(u16, u16)>,
    /// The program, as it was called.
    pub(crate) program: String,
    /// What the environment said of all this, for that of another program.
    said: Vec<CString>,
}

/// Where a socket belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Kernel,
    Ours,
}

/// What `mtcp run` said; `None`: nothing, and everything is the kernel's.
pub(crate) fn rules() -> Option<&'static Rules> {
    static RULES: OnceLock<Option<Rules>> = OnceLock::new();
    if let Some(known) = RULES.get() {
        return known.as_ref();
    }
    // What a program has run before the C library is ready (AddressSanitizer installs its handlers
    // there) finds no environment yet, which says nothing about what comes.
    if !has_environment() {
        return None;
    }
    RULES.get_or_init(read).as_ref()
}

fn has_environment() -> bool {
    // SAFETY: a pointer that the C library sets before it calls the constructors of any library.
    unsafe { !environ.is_null() }
}

fn read() -> Option<Rules> {
    let settings = std::env::var(SETTINGS).ok()?;
    // Without a choice of ours it never fails.
    let _ = logger::install_with(None, crate::diagnostics::write);
    let executor = std::env::var_os(EXECUTOR);
    let executor = executor.and_then(|path| CString::new(path.into_encoded_bytes()).ok());
    let mut config = Config::default();
    if let Err(error) = config.read(&settings, SETTINGS) {
        // Settings and library are not of one version.
        crate::log::line(format_args!(
            "{error}: use `mtcp` and {LIBRARY} of one version"
        ));
        crate::real::exit_group(2);
    }
    // Whoever waits runs the stack.
    config.mode = Mode::Inline;
    // One stack, on all queues of the process.
    config.cores = 1;
    Some(Rules {
        config,
        settings: CString::new(format!("{SETTINGS}={settings}")).ok()?,
        executor,
        falls_back: std::env::var_os(FALLBACK).is_some(),
        only: ports(ONLY),
        except: ports(EXCEPT),
        program: program(),
        said: said(),
    })
}

unsafe extern "C" {
    /// Of the C library, NULL until that is ready.
    static environ: *const *const c_char;
    /// Of the C library: the last part of the path that the program was called by. Programs write
    /// over it later.
    static program_invocation_short_name: *const c_char;
}

fn program() -> String {
    // SAFETY: a text that the C library set before it loaded this library, or NULL.
    let name = unsafe {
        let name = program_invocation_short_name;
        if name.is_null() {
            return String::new();
        }
        CStr::from_ptr(name)
    };
    name.to_string_lossy().into_owned()
}

/// What names this library and its settings in the environment.
fn said() -> Vec<CString> {
    let names = [
        PRELOAD,
        SETTINGS,
        EXECUTOR,
        ONLY,
        EXCEPT,
        FALLBACK,
        door::VARIABLE,
        logger::VARIABLE,
    ];
    let value = |name: &str| {
        let value = std::env::var_os(name)?.into_encoded_bytes();
        CString::new([name.as_bytes(), b"=", &value].concat()).ok()
    };
    names.into_iter().filter_map(value).collect()
}

fn ports(variable: &str) -> Vec<(u16, u16)> {
    let text = std::env::var(variable).unwrap_or_default();
    text.split(',').filter_map(range).collect()
}

fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

fn holds(ranges: &[(u16, u16)], port: u16) -> bool {
    ranges
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&port))
}

/// RFC 4291 §2.5.5.2: an IPv4 address in the clothes of IPv6 is an IPv4 address.
pub(crate) fn plain(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    }
}

fn contains(network: &Cidr, ip: IpAddr) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => u128::from(u32::from(v4)) << 96,
        IpAddr::V6(v6) => u128::from(v6),
    };
    let mask = u128::MAX
        .checked_shl(128 - u32::from(network.prefix_len))
        .unwrap_or(0);
    network.addr.is_ipv4() == ip.is_ipv4() && (bits(network.addr) ^ bits(ip)) & mask == 0
}

impl Rules {
    /// What is to be in the environment of another program beside these, so that it is served as
    /// this one.
    pub(crate) fn carried<'a>(&self, mut theirs: impl Iterator<Item = &'a CStr>) -> Vec<CString> {
        let begins = [PRELOAD.as_bytes(), b"="].concat();
        let others = theirs.find_map(|value| value.to_bytes().strip_prefix(&begins[..]));
        let with_theirs = |value: &CString| match others {
            Some(others) if value.to_bytes().starts_with(&begins) => {
                let joined = [value.to_bytes(), b":", others].concat();
                CString::new(joined).unwrap_or_else(|_| value.clone())
            }
            _ => value.clone(),
        };
        self.said.iter().map(with_theirs).collect()
    }

    pub(crate) fn is_ours(&self, ip: IpAddr) -> bool {
        self.config.addresses.iter().any(|cidr| cidr.addr == ip)
    }

    /// Whether this is one of our addresses, and a port of ours.
    pub(crate) fn is_own(&self, remote: SocketAddr) -> bool {
        self.is_ours(plain(remote.ip())) && self.takes_port(remote.port())
    }

    /// Whether a daemon has the stack.
    pub(crate) fn is_attached(&self) -> bool {
        matches!(self.config.io, IoSpec::Daemon(_))
    }

    /// The interface that the stack is on, or what is the name of none.
    pub(crate) fn interface(&self) -> String {
        match &self.config.io {
            IoSpec::Daemon(_) => self.config.interfaces.first().cloned().unwrap_or_default(),
            io => io.name(),
        }
    }

    /// Whether we reach ourselves.
    pub(crate) fn loops(&self) -> bool {
        matches!(self.config.io, IoSpec::Loop(_))
    }

    /// Whose a connection is that the stack was to have, if it cannot have it.
    ///
    /// # Errors
    /// `ENETDOWN`: nobody's.
    pub(crate) fn without_stack(&self) -> Result<Place> {
        if self.falls_back {
            Ok(Place::Kernel)
        } else {
            Err(Errno::ENETDOWN)
        }
    }

    /// Whether a stack that ended leaves room for one of another process.
    pub(crate) fn has_queues(&self) -> bool {
        matches!(self.config.io, IoSpec::Afxdp(_) | IoSpec::Packet(_))
    }

    fn takes_port(&self, port: u16) -> bool {
        (self.only.is_empty() || holds(&self.only, port)) && !holds(&self.except, port)
    }

    /// Whose a socket is that is bound to `local`. The unspecified address is ours and the
    /// kernel's.
    pub(crate) fn bind(&self, local: SocketAddr) -> Place {
        let ip = plain(local.ip());
        let any = [
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        ];
        // A port that the kernel is to choose is not known yet, and those are of clients.
        let port = local.port() == 0 || self.takes_port(local.port());
        if port && (any.contains(&ip) || self.is_ours(ip)) {
            Place::Ours
        } else {
            Place::Kernel
        }
    }

    /// Whose a connection to `remote` is: ours if our routes lead there and it is not a host of
    /// ours; to an address of ours if it loops.
    pub(crate) fn connect(&self, remote: SocketAddr) -> Place {
        let ip = plain(remote.ip());
        if self.loops() {
            let ours = self.is_ours(ip) && self.takes_port(remote.port());
            return if ours { Place::Ours } else { Place::Kernel };
        }
        let local =
            ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || self.is_ours(ip);
        let link_local = matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let ours = !local && !link_local && self.takes_port(remote.port());
        let leads = match self.config.follow_kernel {
            true => mtcp::interfaces::has_route_by(ip, &self.interface()),
            false => self.routed(ip) || self.is_behind_gateway(ip),
        };
        if ours && leads {
            Place::Ours
        } else {
            Place::Kernel
        }
    }

    fn routed(&self, ip: IpAddr) -> bool {
        let Config {
            addresses, routes, ..
        } = &self.config;
        addresses.iter().any(|network| contains(network, ip))
            || routes.iter().any(|route| contains(&route.network, ip))
    }

    /// Whether our gateway leads there, and no route of the kernel that says more than a gateway
    /// does.
    fn is_behind_gateway(&self, ip: IpAddr) -> bool {
        let leads = |gateway: &IpAddr| gateway.is_ipv4() == ip.is_ipv4();
        self.config.gateways.iter().any(leads)
            && !mtcp::interfaces::has_route_elsewhere(ip, &self.interface())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(only: &str, except: &str) -> Rules {
        let mut config = Config::default();
        config.set("addr", "10.0.0.2/24 fd00::2/64").unwrap();
        config.set("route", "10.9.0.0/16@10.0.0.1").unwrap();
        let list = |text: &str| text.split(',').filter_map(range).collect();
        Rules {
            config,
            settings: CString::default(),
            executor: None,
            falls_back: false,
            only: list(only),
            except: list(except),
            program: String::new(),
            said: Vec::new(),
        }
    }

    fn binds(rules: &Rules, local: &str) -> bool {
        rules.bind(local.parse().unwrap()) == Place::Ours
    }

    fn connects(rules: &Rules, remote: &str) -> bool {
        rules.connect(remote.parse().unwrap()) == Place::Ours
    }

    #[test]
    fn our_addresses_are_ours() {
        let rules = rules("", "");
        for local in [
            "0.0.0.0:80",
            "[::]:80",
            "10.0.0.2:0",
            "[::ffff:10.0.0.2]:1",
            "[fd00::2]:80",
        ] {
            assert!(binds(&rules, local), "{local}");
        }
        for local in ["127.0.0.1:80", "[::1]:80", "10.0.0.3:80"] {
            assert!(!binds(&rules, local), "{local}");
        }
    }

    #[test]
    fn what_our_routes_reach_is_ours() {
        let rules = rules("", "");
        for remote in [
            "10.0.0.1:80",
            "10.9.8.7:80",
            "[::ffff:10.0.0.9]:80",
            "[fd00::1]:80",
        ] {
            assert!(connects(&rules, remote), "{remote}");
        }
        for remote in [
            "127.0.0.1:80",
            "10.0.0.2:80",
            "10.1.0.1:80",
            "[fd01::1]:80",
            "[::1]:80",
        ] {
            assert!(!connects(&rules, remote), "{remote}");
        }
    }

    #[test]
    fn a_loop_leads_to_ourselves_alone() {
        let mut rules = rules("", "");
        rules.config.set("io", "loop:lo").unwrap();
        rules.config.set("addr", "127.0.0.1/8 10.0.0.2/24").unwrap();
        assert!(binds(&rules, "127.0.0.1:80") && connects(&rules, "127.0.0.1:80"));
        assert!(connects(&rules, "10.0.0.2:80") && connects(&rules, "[::ffff:127.0.0.1]:80"));
        assert!(!connects(&rules, "127.0.0.2:80") && !connects(&rules, "10.0.0.1:80"));
    }

    #[test]
    fn ports_narrow_it() {
        let rules = rules("80,8000-8999", "8080");
        assert!(binds(&rules, "0.0.0.0:80") && connects(&rules, "10.0.0.1:8000"));
        assert!(!binds(&rules, "0.0.0.0:81") && !connects(&rules, "10.0.0.1:8080"));
    }
}
