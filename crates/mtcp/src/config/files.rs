//! `config/route.conf` and `config/arp.conf` of the original mTCP.

use std::path::Path;

use super::text::slurp;
use super::value::mac;
use super::{Cidr, Config, ConfigError, NeighbourSpec, RouteSpec};

/// Most lines that the original accepts.
const MAX_ROUTES: usize = 64;
const MAX_NEIGHBOURS: usize = 1024;

impl Config {
    /// Reads `config/route.conf` and `config/arp.conf` under `base`, as far as they are there.
    ///
    /// # Errors
    /// A file that cannot be read, or the first wrong line.
    pub fn load_legacy(&mut self, base: &Path) -> Result<(), ConfigError> {
        let routes = base.join("config/route.conf");
        if routes.exists() {
            self.read_routes(&slurp(&routes)?, &routes.display().to_string())?;
        }
        let neighbours = base.join("config/arp.conf");
        if neighbours.exists() {
            self.read_neighbours(&slurp(&neighbours)?, &neighbours.display().to_string())?;
        }
        Ok(())
    }

    /// `ROUTES n`, then lines `address/length device`. Length 0 makes the address the default
    /// gateway.
    ///
    /// # Errors
    /// The first wrong line.
    pub fn read_routes(&mut self, text: &str, file: &str) -> Result<(), ConfigError> {
        for entry in entries(text, file, "ROUTES", MAX_ROUTES)? {
            let network: Cidr = entry
                .first
                .parse()
                .map_err(|error: String| entry.wrong(file, error))?;
            if network.prefix_len > 0 || network.addr.is_unspecified() {
                self.routes.push(RouteSpec {
                    network,
                    gateway: None,
                });
            } else {
                self.gateways.push(network.addr);
            }
        }
        Ok(())
    }

    /// `ARP_ENTRY n`, then lines `address/length mac`.
    ///
    /// # Errors
    /// The first wrong line.
    pub fn read_neighbours(&mut self, text: &str, file: &str) -> Result<(), ConfigError> {
        for entry in entries(text, file, "ARP_ENTRY", MAX_NEIGHBOURS)? {
            let network = entry
                .first
                .parse()
                .map_err(|error: String| entry.wrong(file, error))?;
            let mac = mac(entry.second).map_err(|error| entry.wrong(file, error))?;
            self.neighbours.push(NeighbourSpec { network, mac });
        }
        Ok(())
    }
}

/// A line of two words.
struct Entry<'a> {
    line: usize,
    first: &'a str,
    second: &'a str,
}

impl Entry<'_> {
    fn wrong(&self, file: &str, text: String) -> ConfigError {
        ConfigError::at(file, self.line, text)
    }
}

/// The entries of a table that `header n` opens.
fn entries<'a>(
    text: &'a str,
    file: &str,
    header: &str,
    most: usize,
) -> Result<Vec<Entry<'a>>, ConfigError> {
    let mut announced: Option<usize> = None;
    let mut found = Vec::new();
    let mut last = 0;
    for (line, content) in (1..).zip(text.lines()) {
        let mut words = content
            .split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let Some(first) = words.next() else { continue };
        last = line;
        let Some(second) = words.next() else {
            return Err(ConfigError::at(
                file,
                line,
                format!("'{first}' stands alone: two words are needed"),
            ));
        };
        if first == header {
            announced =
                Some(count(second, most).map_err(|error| ConfigError::at(file, line, error))?);
        } else if announced.is_none() {
            return Err(ConfigError::at(
                file,
                line,
                format!("'{header} n' must come first"),
            ));
        } else {
            found.push(Entry {
                line,
                first,
                second,
            });
        }
    }
    match announced {
        Some(n) if n != found.len() => {
            let text = format!(
                "{header} says {n}, but {} entries follow: correct the number",
                found.len()
            );
            Err(ConfigError::at(file, last, text))
        }
        _ => Ok(found),
    }
}

fn count(text: &str, most: usize) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&n| n <= most)
        .ok_or_else(|| format!("'{text}' is not a number up to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_routes() {
        let mut config = Config::default();
        config
            .read_routes(
                "# comment\nROUTES 2\n10.0.1.5/24 dpdk0\n10.0.0.1/0 dpdk0\n",
                "r",
            )
            .unwrap();
        assert_eq!(config.routes.len(), 1);
        assert_eq!(
            config.gateways,
            vec!["10.0.0.1".parse::<std::net::IpAddr>().unwrap()]
        );
    }

    #[test]
    fn reads_neighbours() {
        let mut config = Config::default();
        config
            .read_neighbours("ARP_ENTRY 1\n10.0.0.1/32 a0:36:9f:00:00:01\n", "a")
            .unwrap();
        assert_eq!(config.neighbours[0].mac.to_string(), "a0:36:9f:00:00:01");
    }

    #[test]
    fn errors_name_the_line() {
        let wrong = |text: &str| {
            Config::default()
                .read_routes(text, "r")
                .unwrap_err()
                .to_string()
        };
        assert!(wrong("10.0.0.0/24 x\n").starts_with("r:1: 'ROUTES n' must come first"));
        assert!(wrong("ROUTES 1\n10.0.0.0/99 x\n").starts_with("r:2: "));
        assert!(wrong("ROUTES 2\n10.0.0.0/24 x\n").contains("says 2, but 1"));
        assert!(wrong("ROUTES 65\n").contains("up to 64"));
        assert!(wrong("ROUTES\n").starts_with("r:1: "));
    }

    #[test]
    fn files_are_found_below_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("config")).unwrap();
        std::fs::write(
            dir.path().join("config/arp.conf"),
            "ARP_ENTRY 1\n10.0.0.1/32 02:00:00:00:00:01\n",
        )
        .unwrap();
        let mut config = Config::default();
        config.load_legacy(dir.path()).unwrap();
        assert_eq!(config.neighbours.len(), 1);
        config.load_legacy(Path::new("/nonexistent")).unwrap();
    }
}
