//! Scripts that were written for another stack: what has to be read in another way, and what of it
//! is not compared.

mod freebsd;
mod linux;
mod text;

use std::str::FromStr;

use text::own;

/// For whom a script was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// For this stack.
    #[default]
    Own,
    /// Linux, with the `defaults.sh` of Google's scripts.
    Linux,
    /// FreeBSD, with the settings of its TCP test suite.
    FreeBsd,
}

impl FromStr for Dialect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "linux" => Ok(Self::Linux),
            "freebsd" => Ok(Self::FreeBsd),
            _ => Err(format!("no dialect '{text}'; there are: linux, freebsd")),
        }
    }
}

/// What is not compared, since each stack may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Leniency {
    /// PSH, beyond where RFC 9293 wants it.
    pub push: bool,
    /// The window.
    pub window: bool,
    /// Order, padding and presence of options: only what both sides have has to agree.
    pub options: bool,
    /// ACKs of data or of a SYN,ACK that no line expects, and expected ones that come early.
    pub spare_acks: bool,
    /// What an earlier connection sends when the line is about a new one.
    pub others: bool,
    /// Which error it is, where a line only expects one.
    pub any_error: bool,
}

impl Dialect {
    /// The script in our words. Lines stay where they are.
    pub fn translate(self, text: &str) -> String {
        match self {
            Self::Own => text.to_owned(),
            Self::Linux => linux::translate(text),
            Self::FreeBsd => freebsd::translate(text),
        }
    }

    /// The script in words that the tool knows too, with everything open that is not compared.
    /// Lines stay where they are.
    pub fn translate_for_tool(self, text: &str) -> String {
        match self {
            Self::Own | Self::Linux => self.translate(text),
            Self::FreeBsd => freebsd::open(&freebsd::translate(text)),
        }
    }

    /// Settings of the stack that the script takes for granted or makes in a way of its own: names
    /// and values.
    pub fn settings(self, text: &str) -> Vec<(String, String)> {
        match self {
            Self::Own => Vec::new(),
            Self::Linux => own(linux::SETTINGS),
            Self::FreeBsd => freebsd::settings(text),
        }
    }

    pub(super) fn leniency(self) -> Leniency {
        match self {
            Self::Own => Leniency::default(),
            Self::Linux => Leniency {
                push: true,
                others: true,
                any_error: true,
                ..Leniency::default()
            },
            Self::FreeBsd => Leniency {
                push: false,
                window: true,
                options: true,
                spare_acks: true,
                others: true,
                any_error: true,
            },
        }
    }
}
