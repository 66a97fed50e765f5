//! What a load run counts.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use http1::Refusal;
use http1::reply::Unfinished;

use crate::sockets::Errno;

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    ConnectRefused,
    ConnectTimeout,
    Timeout,
    Reset,
    ShortBody,
    BadStatus,
    BadResponse,
    BadContent,
    NoRoute,
    NoGateway,
    NoAnswer,
    NoPorts,
    LocalLimit,
    File,
    Other,
}

impl Kind {
    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConnectRefused => "connect_refused",
            Self::ConnectTimeout => "connect_timeout",
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::ShortBody => "short_body",
            Self::BadStatus => "bad_status",
            Self::BadResponse => "bad_response",
            Self::BadContent => "bad_content",
            Self::NoRoute => "no_route",
            Self::NoGateway => "no_gateway",
            Self::NoAnswer => "no_answer",
            Self::NoPorts => "no_ports",
            Self::LocalLimit => "local_limit",
            Self::File => "file",
            Self::Other => "other",
        }
    }

    /// The kind of a socket error, before or after the connection was there; `routed`: the server
    /// is behind a gateway.
    pub(crate) fn of(error: Errno, connected: bool, routed: bool) -> Self {
        match error {
            Errno::CONNREFUSED => Self::ConnectRefused,
            Errno::TIMEDOUT if connected => Self::Timeout,
            Errno::TIMEDOUT => Self::ConnectTimeout,
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Self::Reset,
            Errno::NETUNREACH | Errno::NETDOWN => Self::NoRoute,
            Errno::HOSTUNREACH if routed => Self::NoGateway,
            Errno::HOSTUNREACH => Self::NoAnswer,
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Self::NoPorts,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS => Self::LocalLimit,
            _ => Self::Other,
        }
    }
}

impl From<Refusal> for Kind {
    fn from(_: Refusal) -> Self {
        Self::BadResponse
    }
}

impl From<Unfinished> for Kind {
    fn from(_: Unfinished) -> Self {
        Self::ShortBody
    }
}

/// Counters and latencies of a run.
#[derive(Debug)]
pub(crate) struct Stats {
    /// Requests answered as they should be.
    pub(crate) succeeded: u64,
    /// Requests that failed.
    pub(crate) failed: u64,
    /// Why.
    pub(crate) kinds: BTreeMap<Kind, u64>,
    /// Responses by hundreds of their status: `statuses[2]` counts 2xx.
    pub(crate) statuses: [u64; 6],
    /// Connections established.
    pub(crate) connections: u64,
    /// Bytes from the server.
    pub(crate) received: u64,
    /// Bytes to the server.
    pub(crate) sent: u64,
    latency: Histogram<u64>,
}

/// Connections that fail before one succeeds, after which there is no use in going on.
const DEAD: u64 = 10;

/// Percentiles of a report, with their names.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)];

impl Stats {
    /// Nothing yet.
    pub(crate) fn new() -> anyhow::Result<Self> {
        // Nanoseconds, up to an hour, three digits.
        let latency = Histogram::new_with_bounds(1, 3_600_000_000_000, 3)?;
        Ok(Self {
            succeeded: 0,
            failed: 0,
            kinds: BTreeMap::new(),
            statuses: [0; 6],
            connections: 0,
            received: 0,
            sent: 0,
            latency,
        })
    }

    /// A request was answered after `latency`.
    pub(crate) fn success(&mut self, latency: Duration) {
        self.succeeded += 1;
        self.latency
            .saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1));
    }

    /// A request failed.
    pub(crate) fn failure(&mut self, kind: Kind) {
        self.failed += 1;
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// A response had this status.
    pub(crate) fn status(&mut self, status: u16) {
        if let Some(count) = self.statuses.get_mut(usize::from(status / 100)) {
            *count += 1;
        }
    }

    /// Requests finished, either way.
    pub(crate) fn finished(&self) -> u64 {
        self.succeeded + self.failed
    }

    /// Whether many attempts to connect failed, and none succeeded.
    pub(crate) fn is_dead(&self) -> bool {
        self.connections == 0 && self.failed >= DEAD
    }

    /// How many requests failed why, as in `3 reset, 1 timeout`.
    pub(crate) fn kinds_text(&self) -> String {
        let kinds = self.kinds.iter();
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| format!("{count} {}", kind.name()))
            .collect();
        kinds.join(", ")
    }

    /// How many requests failed, and why.
    pub(crate) fn errors_text(&self) -> String {
        match self.kinds.is_empty() {
            true => "0".to_owned(),
            false => format!("{}: {}", self.failed, self.kinds_text()),
        }
    }

    /// Percentiles and maximum, µs.
    pub(crate) fn latency_us(&self) -> Vec<(&'static str, f64)> {
        let micros = |nanos: u64| (nanos as f64 / 100.0).round() / 10.0;
        let percentiles = PERCENTILES
            .iter()
            .map(|(name, quantile)| (*name, micros(self.latency.value_at_quantile(*quantile))));
        percentiles
            .chain([("max", micros(self.latency.max()))])
            .collect()
    }
}
