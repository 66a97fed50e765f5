//! `--so_flags`: `LOCAL/PLEN,GATEWAY,REMOTE/PLEN,MTU`, then settings of the stack as `NAME=VALUE`.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use mtcp_core::Config;
use pkt::{Link, Settings, set, small_config};

/// The tool pins all memory, so that what is set aside is what is used, bytes.
const POOL: usize = 8 << 20;

/// The link of who says nothing: the addresses that scripts have in `tests/pkt`.
const LINK: Link = Link {
    local: IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)),
    prefix_len: 16,
    gateway: IpAddr::V4(Ipv4Addr::new(192, 168, 255, 254)),
    remote: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    mtu: 1500,
};

/// The configuration that the flags ask for.
///
/// # Errors
/// What is wrong with them, in words.
pub fn config(flags: &str) -> Result<Config, String> {
    let mut config = Config {
        recv_pool: POOL,
        send_pool: POOL,
        ..small_config()
    };
    let words: Vec<&str> = flags.split(',').map(str::trim).collect();
    let (link, settings) = match words[..] {
        [""] => (LINK, &[][..]),
        [local, gateway, remote, mtu, ref settings @ ..] => {
            (link(local, gateway, remote, mtu)?, settings)
        }
        _ => {
            return Err(format!(
                "expected LOCAL/PLEN,GATEWAY,REMOTE/PLEN,MTU[,NAME=VALUE...], not '{flags}'"
            ));
        }
    };
    link.attach(&mut config);
    for setting in settings {
        let (name, value) = setting
            .split_once('=')
            .ok_or_else(|| format!("expected NAME=VALUE, not '{setting}'"))?;
        set(&mut config, name, value)?;
    }
    Ok(config)
}

fn link(local: &str, gateway: &str, remote: &str, mtu: &str) -> Result<Link, String> {
    let (local, prefix_len) = network(local)?;
    Ok(Link {
        local,
        prefix_len,
        gateway: parse(gateway, "address")?,
        remote: network(remote)?.0,
        mtu: parse(mtu, "MTU")?,
    })
}

fn network(text: &str) -> Result<(IpAddr, u8), String> {
    let (addr, prefix_len) = text
        .split_once('/')
        .ok_or_else(|| format!("expected ADDRESS/PREFIX_LENGTH, not '{text}'"))?;
    let addr: IpAddr = parse(addr, "address")?;
    let prefix_len: u8 = parse(prefix_len, "prefix length")?;
    let most = if addr.is_ipv4() { 32 } else { 128 };
    if prefix_len > most {
        return Err(format!("a prefix length of {prefix_len} bits is too long"));
    }
    Ok((addr, prefix_len))
}

fn parse<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("no {what}: '{text}'"))
}

/// The flags for a script with these settings; `defaults` are settings that hold where it does not
/// say otherwise.
pub fn of_script(settings: &Settings, defaults: &[String]) -> String {
    let Link {
        local,
        prefix_len,
        gateway,
        remote,
        mtu,
    } = settings.link();
    let mut flags = format!("{local}/{prefix_len},{gateway},{remote}/{prefix_len},{mtu}");
    for setting in defaults {
        let _ = write!(flags, ",{setting}");
    }
    for (name, value) in settings.stack() {
        let _ = write!(flags, ",{name}={value}");
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_link_and_settings() {
        let config =
            config("10.1.0.2/24,10.1.0.1,10.9.0.7/8,1400,timestamps=0,rto_min=40ms").unwrap();
        let interface = &config.interfaces[0];
        assert_eq!(interface.addresses[0].addr, IpAddr::from([10, 1, 0, 2]));
        assert_eq!(interface.addresses[0].prefix_len, 24);
        assert_eq!(interface.capabilities.mtu, 1400);
        assert_eq!(config.routes[0].gateway, Some(IpAddr::from([10, 1, 0, 1])));
        assert!(!config.timestamps);
        assert_eq!(config.rto_min.as_millis(), 40);
    }

    #[test]
    fn without_flags_there_is_a_link() {
        let config = config("").unwrap();
        assert_eq!(config.interfaces[0].capabilities.mtu, 1500);
    }

    #[test]
    fn wrong_flags_are_named() {
        for (flags, what) in [
            ("10.1.0.2", "LOCAL/PLEN"),
            ("10.1.0.2,10.1.0.1,10.9.0.7/8,1400", "PREFIX_LENGTH"),
            ("10.1.0.2/33,10.1.0.1,10.9.0.7/8,1400", "33 bits"),
            ("10.1.0.2/24,gw,10.9.0.7/8,1400", "'gw'"),
            ("10.1.0.2/24,10.1.0.1,10.9.0.7/8,70000", "'70000'"),
            ("10.1.0.2/24,10.1.0.1,10.9.0.7/8,1400,cc", "NAME=VALUE"),
            ("10.1.0.2/24,10.1.0.1,10.9.0.7/8,1400,colour=1", "colour"),
        ] {
            let error = config(flags).unwrap_err();
            assert!(error.contains(what), "{flags}: {error}");
        }
    }
}
