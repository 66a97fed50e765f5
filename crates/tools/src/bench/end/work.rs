//! What both ends do, as options of both.

use clap::{Args, ValueEnum};

/// Bytes of a read, and of a write of a stream.
pub(crate) const BUFFER: usize = 128 * 1024;
/// Largest message: it must fit into one read.
pub(crate) const MAX_SIZE: u32 = 64 * 1024;

/// Connections whose memory is taken at the start, at most.
const PREFAULT: u32 = 10_000;

/// What connections are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// The client sends a message, the server answers with one of the same size; so many times,
    /// then the server closes
    Exchange,
    /// The server resets what it accepts
    Reset,
    /// The server sends without end
    Stream,
    /// Connections are made, and kept or left in TIME_WAIT
    Hold,
}

/// Options of both ends.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WorkArgs {
    /// What connections are for
    #[arg(long, value_enum, default_value_t = Work::Exchange)]
    pub(crate) work: Work,
    /// Bytes of a message
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_SIZE)))]
    pub(crate) size: u32,
    /// Messages per connection, each way; 0: no end
    #[arg(long, default_value_t = 1)]
    pub(crate) messages: u32,
    /// Connections at a time
    #[arg(long, default_value_t = 1)]
    pub(crate) concurrency: u32,
    /// Look for events without ever sleeping
    #[arg(long)]
    pub(crate) spin: bool,
}

impl WorkArgs {
    /// Sockets that a stack needs for it: those in use, and those that are still closing.
    pub(crate) fn room(&self) -> u32 {
        self.concurrency.saturating_mul(2).max(16)
    }

    /// Connections whose memory a stack takes at the start, as servers for a known load are set up.
    /// None where memory is what is measured.
    pub(crate) fn prefault(&self) -> u32 {
        match self.work {
            Work::Hold => 0,
            Work::Exchange | Work::Reset | Work::Stream => self.concurrency.min(PREFAULT),
        }
    }

    /// The options as words of a command line.
    pub(crate) fn words(&self) -> Vec<String> {
        let work = self
            .work
            .to_possible_value()
            .map(|value| value.get_name().to_owned());
        let mut words = vec![
            "--work".to_owned(),
            work.unwrap_or_default(),
            "--size".to_owned(),
            self.size.to_string(),
            "--messages".to_owned(),
            self.messages.to_string(),
            "--concurrency".to_owned(),
            self.concurrency.to_string(),
        ];
        if self.spin {
            words.push("--spin".to_owned());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        work: WorkArgs,
    }

    #[test]
    fn the_words_say_the_same_again() {
        let work = WorkArgs {
            work: Work::Hold,
            size: 8192,
            messages: 32,
            concurrency: 100,
            spin: true,
        };
        let words = work.words();
        let line =
            Line::try_parse_from(std::iter::once("x").chain(words.iter().map(String::as_str)));
        assert_eq!(format!("{:?}", line.unwrap().work), format!("{work:?}"));
    }
}
