//! `struct mtcp_conf` and its members' places in the configuration.

use std::ffi::c_int;
use std::path::Path;
use std::time::Duration;

use mtcp::Config;
use mtcp::config::ConfigError;

/// `struct mtcp_conf`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct MtcpConf {
    pub num_cores: c_int,
    pub max_concurrency: c_int,
    pub max_num_buffers: c_int,
    pub rcvbuf_size: c_int,
    pub sndbuf_size: c_int,
    pub tcp_timewait: c_int,
    pub tcp_timeout: c_int,
}

impl MtcpConf {
    /// Nothing set.
    pub(crate) const NONE: Self = Self {
        num_cores: 0,
        max_concurrency: 0,
        max_num_buffers: 0,
        rcvbuf_size: 0,
        sndbuf_size: 0,
        tcp_timewait: 0,
        tcp_timeout: 0,
    };
}

/// A member.
struct Member {
    /// Its key in `mtcp.conf`.
    key: &'static str,
    of: fn(&MtcpConf) -> c_int,
    of_mut: fn(&mut MtcpConf) -> &mut c_int,
    show: fn(&Config) -> i64,
}

macro_rules! members {
    ($($member:ident $key:literal $show:expr;)*) => {
        const MEMBERS: &[Member] = &[$(Member {
            key: $key,
            of: |conf| conf.$member,
            of_mut: |conf| &mut conf.$member,
            show: $show,
        },)*];
    };
}

members! {
    num_cores "num_cores" |c| number(c.cores);
    max_concurrency "max_concurrency" |c| number(c.max_concurrency);
    max_num_buffers "max_num_buffers" |c| number(c.max_num_buffers);
    rcvbuf_size "rcvbuf" |c| number(c.rcvbuf);
    sndbuf_size "sndbuf" |c| number(c.sndbuf);
    tcp_timewait "tcp_timewait" |c| seconds(c.tcp_timewait);
    tcp_timeout "tcp_timeout" |c| c.tcp_timeout.map_or(-1, seconds);
}

fn number(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

fn seconds(time: Duration) -> i64 {
    // Part of a second counts as one: 0 means something else.
    number(time.as_nanos().div_ceil(1_000_000_000))
}

/// What a program for the original mTCP expects of a configuration that does not say.
pub(crate) fn defaults() -> Config {
    Config {
        max_num_buffers: 10_000,
        one_event_per_entry: true,
        tcp_timeout: Some(Duration::from_secs(30)),
        tcp_timewait: Duration::ZERO,
        ..Config::default()
    }
}

/// The settings of `config`.
pub(crate) fn show(config: &Config) -> MtcpConf {
    let mut conf = MtcpConf::NONE;
    for member in MEMBERS {
        *(member.of_mut)(&mut conf) = c_int::try_from((member.show)(config)).unwrap_or(c_int::MAX);
    }
    conf
}

/// Changes `config` to what `conf` says where that is positive and differs.
///
/// # Errors
/// The first value out of range; the others are changed.
pub(crate) fn apply(conf: &MtcpConf, config: &mut Config) -> Result<(), ConfigError> {
    let mut result = Ok(());
    for member in MEMBERS {
        let value = (member.of)(conf);
        if value > 0 && i64::from(value) != (member.show)(config) {
            result = result.and(config.set(member.key, &value.to_string()));
        }
    }
    result
}

/// Notes in `wishes` what `conf` changes before the file is read. What is as the defaults are is no
/// wish, except the number of cores.
pub(crate) fn wish(conf: &MtcpConf, wishes: &mut MtcpConf) {
    let unset = show(&defaults());
    for member in MEMBERS {
        let value = (member.of)(conf);
        if value > 0 && value != (member.of)(&unset) {
            *(member.of_mut)(wishes) = value;
        }
    }
}

/// What `mtcp_getconf` says before the file is read.
pub(crate) fn show_wishes(wishes: &MtcpConf) -> MtcpConf {
    let mut conf = show(&defaults());
    for member in MEMBERS {
        let value = (member.of)(wishes);
        if value > 0 {
            *(member.of_mut)(&mut conf) = value;
        }
    }
    conf
}

/// What the program wished; over it `file`, and the two old files beside the current directory.
///
/// # Errors
/// What is wrong, where.
pub(crate) fn load(file: &Path, text: &str, wishes: &MtcpConf) -> Result<Config, ConfigError> {
    // 0 is out of range: it stays only if nobody says.
    let mut config = Config {
        rcvbuf: 0,
        sndbuf: 0,
        ..defaults()
    };
    apply(wishes, &mut config)?;
    config.read(text, &file.display().to_string())?;
    config.load_legacy(Path::new("."))?;
    let default = Config::default();
    (config.rcvbuf, config.sndbuf) = match (config.rcvbuf, config.sndbuf) {
        (0, 0) => (default.rcvbuf, default.sndbuf),
        (0, both) | (both, 0) => (both, both),
        given => given,
    };
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, wishes: &MtcpConf) -> Config {
        load(Path::new("mtcp.conf"), text, wishes).unwrap()
    }

    #[test]
    fn the_layout_is_seven_ints() {
        assert_eq!(size_of::<MtcpConf>(), 28);
    }

    #[test]
    fn one_buffer_size_is_both() {
        let none = MtcpConf::NONE;
        assert_eq!(read("rcvbuf = 8192", &none).sndbuf, 8192);
        assert_eq!(read("sndbuf = 4096", &none).rcvbuf, 4096);
        let both = read("rcvbuf = 8192\nsndbuf = 2048", &none);
        assert_eq!((both.rcvbuf, both.sndbuf), (8192, 2048));
        assert_eq!(read("", &none).rcvbuf, Config::default().rcvbuf);
    }

    #[test]
    fn the_file_goes_before_the_program() {
        let mut wishes = MtcpConf::NONE;
        let conf = MtcpConf {
            num_cores: 1,
            rcvbuf_size: 4096,
            max_num_buffers: 70,
            ..show_wishes(&wishes)
        };
        wish(&conf, &mut wishes);
        let config = read(
            "num_cores = 2\nmax_concurrency = 500\ntcp_timeout = 7",
            &wishes,
        );
        assert_eq!((config.cores, config.max_concurrency), (2, 500));
        assert_eq!((config.rcvbuf, config.max_num_buffers), (4096, 70));
        assert_eq!(read("", &wishes).cores, 1);
        assert_eq!(show(&config).tcp_timeout, 7);
        assert_eq!(show_wishes(&wishes).num_cores, 1);
        assert_eq!(show_wishes(&wishes).max_concurrency, 10_000);
    }

    #[test]
    fn what_is_not_positive_changes_nothing() {
        let mut config = defaults();
        apply(
            &MtcpConf {
                tcp_timeout: -1,
                ..MtcpConf::NONE
            },
            &mut config,
        )
        .unwrap();
        assert_eq!(config, defaults());
        let conf = MtcpConf {
            max_concurrency: 3000,
            tcp_timewait: 2,
            ..MtcpConf::NONE
        };
        apply(&conf, &mut config).unwrap();
        assert_eq!(
            (show(&config).max_concurrency, show(&config).tcp_timewait),
            (3000, 2)
        );
    }

    #[test]
    fn a_wrong_value_leaves_the_others() {
        let mut config = defaults();
        let conf = MtcpConf {
            max_concurrency: 3000,
            rcvbuf_size: 1,
            tcp_timewait: 5,
            ..MtcpConf::NONE
        };
        assert!(apply(&conf, &mut config).is_err());
        let now = show(&config);
        assert_eq!((now.max_concurrency, now.tcp_timewait), (3000, 5));
        assert_eq!(now.rcvbuf_size, show(&defaults()).rcvbuf_size);
    }
}
