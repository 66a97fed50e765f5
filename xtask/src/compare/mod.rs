//! Two builds of `mtcp` in turn: what a change costs or gains, with bounds.

mod bootstrap;
mod namespaces;
mod round;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::child::Stop;

use bootstrap::{Estimate, estimate};
use namespaces::Namespaces;
use round::{Figures, Link, Place};

const USAGE: &str = "usage: cargo xtask compare BEFORE AFTER [--runs N] [--seconds S] [--link shm|afxdp]
  BEFORE and AFTER are two builds of mtcp. Each runs short connections N times (31) for S seconds (1), in turn, over
  shared memory and, as root, over AF_XDP on a veth pair. Fails if the second is shown not to keep up with the first";

/// Runs of each program, unless asked otherwise.
const RUNS: usize = 31;
/// A change may cost this much: the lower bound of the ratio of rates ...
const LEAST: f64 = 0.97;
/// ... and the upper bound of the ratio of the server's processor time.
const MOST: f64 = 1.05;

struct Options {
    programs: [PathBuf; 2],
    runs: usize,
    seconds: f64,
    links: Vec<Link>,
}

/// A figure that is compared, and whether a change has to keep it.
struct Metric {
    title: &'static str,
    of: fn(&Figures) -> f64,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    Least,
    Most,
    None,
}

/// Compares; fails where the bounds of a promise do not hold.
pub fn run(arguments: &[String]) -> Result<()> {
    let options = Options::read(arguments)?;
    let stop = Stop::watch()?;
    let directory = tempfile::Builder::new().prefix("mtcp-compare-").tempdir();
    let directory = directory.context("cannot make a temporary directory")?;
    let mut place = Place {
        directory: directory.path(),
        seconds: options.seconds,
        namespaces: None,
        stop: &stop,
    };
    println!("load of the machine before: {}", load());
    let mut broken = 0;
    for link in &options.links {
        if *link == Link::Afxdp {
            match Namespaces::new() {
                Ok(made) => place.namespaces = Some(made),
                Err(why) => {
                    println!("{}: skipped: {why:#}", title(*link));
                    continue;
                }
            }
        }
        broken += compare(&place, &options, *link)?;
    }
    println!("load of the machine after: {}", load());
    ensure!(broken == 0, "{broken} of the bounds above do not hold");
    Ok(())
}

impl Options {
    fn read(arguments: &[String]) -> Result<Self> {
        let mut programs = Vec::new();
        let (mut runs, mut seconds) = (RUNS, 1.0);
        let mut links = vec![Link::Shm, Link::Afxdp];
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .with_context(|| format!("{word} needs a value\n{USAGE}"))
            };
            match word.as_str() {
                "--runs" => runs = value()?.parse().context("--runs is a number")?,
                "--seconds" => seconds = value()?.parse().context("--seconds is a number")?,
                "--link" => {
                    links = match value()?.as_str() {
                        "shm" => vec![Link::Shm],
                        "afxdp" => vec![Link::Afxdp],
                        other => bail!("no link '{other}'\n{USAGE}"),
                    }
                }
                option if option.starts_with('-') => bail!("unknown option '{option}'\n{USAGE}"),
                program => programs.push(program_at(Path::new(program))?),
            }
        }
        let programs = programs.try_into();
        let Ok(programs) = programs else {
            bail!("{USAGE}");
        };
        ensure!(runs > 0 && seconds > 0.0, "{USAGE}");
        Ok(Self {
            programs,
            runs,
            seconds,
            links,
        })
    }
}

fn program_at(path: &Path) -> Result<PathBuf> {
    ensure!(path.is_file(), "{} is no program", path.display());
    std::path::absolute(path).context("no current directory")
}

/// Runs both over `link` and prints the figures; how many bounds do not hold.
fn compare(place: &Place<'_>, options: &Options, link: Link) -> Result<usize> {
    println!(
        "{}: {} runs of {} s each, in turn",
        title(link),
        options.runs,
        options.seconds
    );
    let mut rounds = Vec::new();
    for round in 0..options.runs {
        rounds.push(one_round(place, options, link, round)?);
    }
    let mut broken = 0;
    for metric in metrics(link) {
        let of = |[before, after]: &[Figures; 2]| [(metric.of)(before), (metric.of)(after)];
        let values: Vec<[f64; 2]> = rounds.iter().map(of).collect();
        let estimate = estimate(&values).context("no runs")?;
        let verdict = verdict(&estimate, metric.bound);
        println!("{}", line(metric.title, &estimate, verdict));
        broken += usize::from(verdict == Some(false));
    }
    Ok(broken)
}

/// One run of each. Who comes first changes, so that neither always follows the other.
fn one_round(
    place: &Place<'_>,
    options: &Options,
    link: Link,
    round: usize,
) -> Result<[Figures; 2]> {
    let run = |index: usize| {
        let program = &options.programs[index];
        let wrong = || format!("{}, {}", program.display(), title(link));
        place.run(program, link).with_context(wrong)
    };
    if round.is_multiple_of(2) {
        Ok([run(0)?, run(1)?])
    } else {
        let after = run(1)?;
        Ok([run(0)?, after])
    }
}

fn title(link: Link) -> &'static str {
    match link {
        Link::Shm => "short connections over shared memory",
        Link::Afxdp => "short connections of a kernel client over AF_XDP on a veth pair",
    }
}

fn metrics(link: Link) -> [Metric; 3] {
    let bounds = match link {
        Link::Shm => [Bound::Least, Bound::None],
        Link::Afxdp => [Bound::None, Bound::Most],
    };
    [
        Metric {
            title: "connections/s",
            of: |figures| figures.rate,
            bound: bounds[0],
        },
        Metric {
            title: "server core, ns/connection",
            of: |figures| figures.core,
            bound: bounds[1],
        },
        Metric {
            title: "server process, ns/connection",
            of: |figures| figures.process,
            bound: Bound::None,
        },
    ]
}

fn verdict(estimate: &Estimate, bound: Bound) -> Option<bool> {
    match bound {
        Bound::Least => Some(estimate.low >= LEAST),
        Bound::Most => Some(estimate.high <= MOST),
        Bound::None => None,
    }
}

fn line(title: &str, estimate: &Estimate, verdict: Option<bool>) -> String {
    let Estimate {
        before,
        after,
        ratio,
        low,
        high,
    } = estimate;
    let verdict = match verdict {
        None => "",
        Some(true) => "  keeps up",
        Some(false) => "  IS NOT SHOWN TO KEEP UP",
    };
    format!(
        "  {title:<30} before {before:>9.0}  after {after:>9.0}  ratio {ratio:.3} (95%: {low:.3} to {high:.3}){verdict}"
    )
}

/// Its average over a minute, and its processors.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split_whitespace().next().unwrap_or("unknown");
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{load} on {processors} processors")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Options> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Options::read(&words)
    }

    #[test]
    fn options_are_read() {
        let options = read("/bin/sh /bin/sh --runs 3 --link shm --seconds 0.5").unwrap();
        assert_eq!((options.runs, options.seconds), (3, 0.5));
        assert_eq!(options.links, [Link::Shm]);
        assert_eq!(read("/bin/sh /bin/sh").unwrap().runs, RUNS);
        for wrong in [
            "",
            "/bin/sh",
            "/bin/sh /nowhere",
            "--runs",
            "/bin/sh /bin/sh --link tap",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_sure_does_not_keep_up() {
        let estimate = |low, high| Estimate {
            before: 1.0,
            after: 1.0,
            ratio: 1.0,
            low,
            high,
        };
        assert_eq!(verdict(&estimate(0.98, 1.1), Bound::Least), Some(true));
        assert_eq!(verdict(&estimate(0.96, 1.1), Bound::Least), Some(false));
        assert_eq!(verdict(&estimate(0.9, 1.04), Bound::Most), Some(true));
        assert_eq!(verdict(&estimate(0.9, 1.06), Bound::Most), Some(false));
        assert_eq!(verdict(&estimate(0.5, 2.0), Bound::None), None);
        let line = line("connections/s", &estimate(0.9, 1.06), Some(false));
        assert!(line.contains("(95%: 0.900 to 1.060)  IS NOT"), "{line}");
    }
}
