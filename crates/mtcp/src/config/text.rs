//! Reading `mtcp.conf`.

use std::env;
use std::fmt;
use std::path::Path;

use super::nearest::nearest;
use super::{Config, keys};

/// Where a setting is wrong, and what would be right: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// File and line; empty for a single setting.
    pub place: String,
    /// Cause and remedy.
    pub text: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConfigError {}

impl From<String> for ConfigError {
    fn from(text: String) -> Self {
        Self {
            place: String::new(),
            text,
        }
    }
}

impl ConfigError {
    pub(super) fn at(file: &str, line: usize, text: impl Into<String>) -> Self {
        Self {
            place: format!("{file}:{line}"),
            text: text.into(),
        }
    }
}

impl Config {
    /// Changes one setting by name.
    ///
    /// # Errors
    /// No such key (names the nearest), or what its value must look like.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
        let Some(key) = keys().iter().find(|key| key.name == name) else {
            return Err(unknown(name).into());
        };
        key.set(self, value)
            .map_err(|text| format!("{name}: {text}").into())
    }

    /// Reads `key = value` lines over `self`, or `key value` as the original mTCP does; `#` starts
    /// a comment. `file` is for messages. What `io_as` says, or else MTCP_IO in the environment,
    /// stands for a link that only the original has, wherever the line is; MTCP_ADDR gives the
    /// addresses where the file has none.
    ///
    /// # Errors
    /// The first wrong line.
    pub fn read(&mut self, text: &str, file: &str) -> Result<(), ConfigError> {
        if self.io_as.is_none() {
            self.set_from_environment("io_as", "MTCP_IO")?;
        }
        let entries: Vec<Entry<'_>> = entries(text).collect();
        let (first, others): (Vec<_>, Vec<_>) =
            entries.iter().partition(|entry| entry.key == "io_as");
        for entry in first.into_iter().chain(others) {
            self.set_from_file(entry)
                .map_err(|text| ConfigError::at(file, entry.number, text))?;
        }
        if self.addresses.is_empty() && !self.host {
            self.set_from_environment("addr", "MTCP_ADDR")?;
        }
        Ok(())
    }

    /// What a file of the original mTCP cannot say.
    fn set_from_environment(&mut self, key: &str, variable: &str) -> Result<(), ConfigError> {
        match env::var(variable) {
            Ok(value) => self
                .set(key, &value)
                .map_err(|error| format!("{variable} in the environment: {}", error.text).into()),
            Err(_) => Ok(()),
        }
    }

    fn set_from_file(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        let &Entry { key, value, .. } = entry;
        if value.is_empty() {
            return Err(format!("'{key}' is not 'key = value'"));
        }
        let mut words = value.split_whitespace();
        match (words.next(), words.next()) {
            (Some(word), Some(_)) if takes_one_word(key) => {
                log::warn!("{key} = {value}: only '{word}' counts");
                self.set(key, word)
            }
            _ => self.set(key, value),
        }
        .map_err(|error| error.text)
    }

    /// Reads `file`, and beside the current directory `config/route.conf` and `config/arp.conf` if
    /// they are there, over the defaults.
    ///
    /// # Errors
    /// A file that cannot be read, or the first wrong line.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.read_file(file)?;
        Ok(config)
    }

    /// The same over these settings.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn read_file(&mut self, file: &Path) -> Result<(), ConfigError> {
        self.read(&slurp(file)?, &file.display().to_string())?;
        self.load_legacy(Path::new("."))
    }
}

/// One setting of a file.
#[derive(Clone, Copy)]
struct Entry<'a> {
    /// Its line, from 1.
    number: usize,
    key: &'a str,
    value: &'a str,
}

fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    let lines = (1..).zip(text.lines());
    lines.filter_map(|(number, line)| {
        let line = line.split('#').next().unwrap_or_default().trim();
        let end = line
            .find(|c: char| c == '=' || c.is_whitespace())
            .unwrap_or(line.len());
        let (key, rest) = line.split_at(end);
        let rest = rest.trim_start();
        let value = rest.strip_prefix('=').unwrap_or(rest).trim();
        (!line.is_empty()).then_some(Entry { number, key, value })
    })
}

/// Keys of the original mTCP of whose values it reads one word.
fn takes_one_word(name: &str) -> bool {
    let key = keys().iter().find(|key| key.name == name);
    key.is_some_and(|key| key.legacy) && !matches!(name, "io" | "port" | "stat_print")
}

/// A file's text, or why not.
pub(super) fn slurp(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|error| {
        format!(
            "cannot read {}: {error}: check path and permissions",
            file.display()
        )
        .into()
    })
}

fn unknown(name: &str) -> String {
    match nearest(name, keys().iter().map(|key| key.name)) {
        Some(known) => format!("unknown key '{name}': did you mean '{known}'?"),
        None => {
            format!("unknown key '{name}': see config::describe() or 'mtcp config' for all keys")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::IoSpec;

    #[test]
    fn reads_an_original_file() {
        let text = "# comment\nio = afxdp\nnum_cores = 2\nnum_mem_ch = 4\nport = veth0\nmax_concurrency = 10000\n\
                    max_num_buffers = 10000\nrcvbuf = 8192\nsndbuf = 8192 # bytes\ntcp_timeout = 30\ntcp_timewait = 0\n#stat_print = dpdk0\n\n";
        let mut config = Config::default();
        config.read(text, "mtcp.conf").unwrap();
        assert_eq!(config.cores, 2);
        assert_eq!(config.rcvbuf, 8192);
        assert_eq!(config.tcp_timeout, Some(Duration::from_secs(30)));
        assert_eq!(config.tcp_timewait, Duration::ZERO);
        assert!(!config.stat_print);
        assert_eq!(config.link().unwrap(), IoSpec::Afxdp("veth0".into()));
    }

    #[test]
    fn reads_what_the_original_reads() {
        let text = "rcvbuf 8192\nsndbuf=4096 bytes\n\tmax_concurrency\t=\t99999999999 \ntcp_timewait = -1\ncc = reno x=1\nport = dpdk0 dpdk1\n\
                    stat_print dpdk0 dpdk1\nio = dpdk\nio_as = afxdp\nmultiprocess 0\n";
        let mut config = Config::default();
        config.read(text, "mtcp.conf").unwrap();
        assert_eq!((config.rcvbuf, config.sndbuf), (8192, 4096));
        assert_eq!(config.max_concurrency, 1 << 24);
        assert_eq!(config.tcp_timewait, Duration::ZERO);
        assert_eq!(config.congestion.name(), "reno");
        assert!(config.stat_print);
        assert_eq!(config.link().unwrap(), IoSpec::Afxdp("dpdk0".into()));
        for alone in ["rcvbuf", "rcvbuf =", "= 5"] {
            let error = Config::default().read(alone, "a.conf").unwrap_err();
            assert!(error.to_string().starts_with("a.conf:1: "), "{error}");
        }
    }

    #[test]
    fn an_unknown_key_names_file_line_and_nearest() {
        let error = Config::default()
            .read("rcvbuf = 1k\n\nrecvbuf = 8192\n", "a.conf")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "a.conf:3: unknown key 'recvbuf': did you mean 'rcvbuf'?"
        );
    }

    #[test]
    fn wrong_values_say_what_is_right() {
        let error = Config::default().read("io = dpdk", "a.conf").unwrap_err();
        assert!(
            error.to_string().starts_with(
                "a.conf:1: io: io 'dpdk' is of the original mTCP: write io = afxdp:IFACE"
            ),
            "{error}"
        );
        let error = Config::default().read("rcvbuf = 1", "a.conf").unwrap_err();
        assert!(error.to_string().contains("outside 64 to"), "{error}");
        let error = Config::default().read("nonsense", "a.conf").unwrap_err();
        assert!(error.to_string().contains("key = value"), "{error}");
    }

    #[test]
    fn a_missing_file_is_one_line() {
        let error = Config::load(Path::new("/nonexistent/mtcp.conf")).unwrap_err();
        assert!(!error.to_string().contains('\n'));
        assert!(error.to_string().contains("/nonexistent/mtcp.conf"));
    }
}
