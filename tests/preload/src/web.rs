//! What a web server must do for a kernel client, whoever it is.

use std::path::PathBuf;
use std::process::Command;

use crate::site::{Site, spell, succeed};
use crate::{Family, files, url};

/// Bytes of the large file.
pub const LARGE: u64 = 100_000_000;

/// What is asked of a server.
#[derive(Clone, Debug)]
pub struct Web<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Where it listens.
    pub port: u16,
    /// Before the names of files.
    pub path: &'a str,
    /// Protocols that it listens on.
    pub families: &'a [Family],
    /// Whether it keeps connections open.
    pub keeps_alive: bool,
    /// Requests of `ab`, each on a connection of its own, and how many at once.
    pub load: (u32, u32),
}

impl Default for Web<'_> {
    fn default() -> Self {
        Self {
            scheme: "http",
            port: 80,
            path: "",
            families: &Family::BOTH,
            keeps_alive: true,
            load: (3000, 50),
        }
    }
}

/// The files that are asked for by most.
pub fn publish(site: &Site) {
    let www = site.lab().www();
    files::make(&www.join("small"), 1, 64);
    files::make(&www.join("medium"), 2, 50_000);
}

/// The large file.
pub fn publish_large(site: &Site) -> PathBuf {
    let file = site.lab().www().join("large");
    files::make(&file, 3, LARGE);
    file
}

/// A site with all files, if the programs are there.
pub fn published(programs: &[&str]) -> Option<Site> {
    published_with_workers(programs, 1)
}

/// The same, for programs with so many worker processes.
pub fn published_with_workers(programs: &[&str], workers: u32) -> Option<Site> {
    let site = Site::with_workers(programs, workers)?;
    publish(&site);
    publish_large(&site);
    Some(site)
}

impl Web<'_> {
    /// All of it.
    pub fn exercise(&self, site: &Site) {
        for &family in self.families {
            self.fetch(site, family, "small");
            self.fetch_together(site, family);
        }
        self.fetch(site, self.families[0], "large");
        if self.keeps_alive {
            self.reuse(site);
        }
        if self.load.0 > 0 {
            self.load(site);
        }
    }

    /// One file on one connection, compared.
    pub fn fetch(&self, site: &Site, family: Family, name: &str) {
        let target = site.file("fetched");
        let mut curl = curl(site);
        curl.arg("--output").arg(&target);
        curl.arg(self.url(family, name));
        succeed(curl);
        same(&site.lab().www().join(name), &target);
    }

    /// Forty at once.
    pub fn fetch_together(&self, site: &Site, family: Family) {
        let targets = site.file("together");
        let mut curl = curl(site);
        curl.args(["--parallel", "--parallel-max", "20", "--output"]);
        curl.arg(spell(&targets) + "-#1");
        curl.arg(self.url(family, "medium") + "?[1-40]");
        succeed(curl);
        for number in 1..=40 {
            let target = PathBuf::from(format!("{}-{number}", spell(&targets)));
            same(&site.lab().www().join("medium"), &target);
            std::fs::remove_file(target).unwrap();
        }
    }

    /// Ten requests, one after the other, on one connection.
    fn reuse(&self, site: &Site) {
        let mut curl = curl(site);
        curl.args(["--output", "/dev/null", "--write-out", "%{num_connects}\n"]);
        curl.arg(self.url(self.families[0], "small") + "?[1-10]");
        let connects = succeed(curl).stdout;
        assert_eq!(connects, format!("1\n{}", "0\n".repeat(9)));
    }

    /// Many short connections.
    fn load(&self, site: &Site) {
        let (requests, together) = self.load;
        let url = self.url(self.families[0], "small");
        let ab = site.peer(&format!("ab -q -n {requests} -c {together} {url}"));
        judge_ab(&succeed(ab).stdout, requests);
    }

    fn url(&self, family: Family, name: &str) -> String {
        let path = format!("{}{name}", self.path);
        url(self.scheme, family, true, self.port, &path)
    }
}

/// Every request of `ab` was answered well.
pub fn judge_ab(report: &str, requests: u32) {
    let number = |name: &str| -> Option<u32> {
        let line = report.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    assert_eq!(number("Complete requests:"), Some(requests), "{report}");
    assert_eq!(number("Failed requests:"), Some(0), "{report}");
    assert_eq!(number("Non-2xx responses:"), None, "{report}");
}

/// No socket failed under `wrk`, and no answer but 200 came. Returns the number of requests.
pub fn judge_wrk(report: &str) -> u64 {
    assert!(!report.contains("Socket errors"), "{report}");
    assert!(!report.contains("Non-2xx"), "{report}");
    let line = report
        .lines()
        .find_map(|line| line.trim().split_once(" requests in "));
    let requests = line.and_then(|(number, _)| number.parse().ok());
    requests.unwrap_or_else(|| panic!("{report}"))
}

fn curl(site: &Site) -> Command {
    site.peer("curl --silent --show-error --fail --insecure --max-time 60")
}

/// Two files are equal.
pub fn same(source: &std::path::Path, target: &std::path::Path) {
    if let Some(difference) = files::difference(source, target) {
        panic!("{}: {difference}", target.display());
    }
}
