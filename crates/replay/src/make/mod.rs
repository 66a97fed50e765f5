//! Logs made to given statistics, in one pass: nothing but what the next transaction needs is in
//! memory.

mod chunks;
mod connections;
mod sizes;
mod wanted;

use std::net::{IpAddr, Ipv4Addr};

use crate::Transaction;
use crate::random::{Permutation, Random, mix};

use chunks::Chunks;
use connections::Connections;
use sizes::Sizes;
use wanted::{check, purpose};

pub use wanted::{Arrivals, Wanted};

/// A log in the making: its transactions in order.
#[derive(Debug)]
pub struct Maker {
    wanted: Wanted,
    made: u64,
    /// Position of the last beginning, 0 to 1.
    at: f64,
    arrivals: Random,
    sizes: Sizes,
    /// Which share of all durations is shorter than that of a transaction.
    durations: Permutation,
    mean_duration_us: f64,
    connections: Connections,
    chunks: Chunks,
}

impl Maker {
    /// Begins a log.
    ///
    /// # Errors
    /// There is none like this: why, and what to do.
    pub fn new(wanted: Wanted) -> Result<Self, (String, &'static str)> {
        check(&wanted)?;
        let span_us = wanted.seconds * 1e6;
        Ok(Self {
            made: 0,
            at: 0.0,
            arrivals: Random::new(wanted.seed, purpose::ARRIVALS),
            sizes: Sizes::new(&wanted)?,
            durations: Permutation::new(wanted.requests, wanted.seed, purpose::DURATIONS),
            mean_duration_us: wanted.concurrency * span_us / wanted.requests as f64,
            connections: Connections::new(wanted.per_connection),
            chunks: Chunks::new(wanted.redundancy, wanted.seed),
            wanted,
        })
    }

    /// When the next begins, microseconds.
    fn next_start(&mut self) -> u64 {
        let (made, wanted) = (self.made, &self.wanted);
        // The first begins the log, the last ends its time.
        let left = wanted.requests.saturating_sub(made);
        self.at = match (made, left, wanted.arrivals) {
            (0, ..) => 0.0,
            (_, 1, _) => 1.0,
            (_, _, Arrivals::Uniform) => made as f64 / (wanted.requests - 1) as f64,
            // The least of `left - 1` uniform points in what is left: those of a Poisson process,
            // given how many there are, in order.
            (_, left, Arrivals::Poisson) => {
                let share = self.arrivals.unit().powf(1.0 / (left - 1) as f64);
                1.0 - (1.0 - self.at) * share
            }
        };
        (self.at * wanted.seconds * 1e6) as u64
    }

    /// How long a transaction takes, microseconds: exponential, each of the equal shares of the
    /// distribution once.
    fn duration(&self, number: u64) -> u64 {
        let requests = self.wanted.requests as f64;
        let rank = (self.durations.at(number) as f64 + 0.5) / requests;
        (-(1.0 - rank).ln() * self.mean_duration_us).round() as u64
    }
}

impl Iterator for Maker {
    type Item = Transaction;

    fn next(&mut self) -> Option<Transaction> {
        if self.made >= self.wanted.requests {
            return None;
        }
        let number = self.made;
        let start_us = self.next_start();
        let end_us = start_us + self.duration(number);
        let (connection, keep_alive) = self.connections.next(start_us, end_us);
        let response_bytes = self.sizes.at(number);
        self.made += 1;
        Some(Transaction {
            connection,
            client: client(connection, self.wanted.seed),
            start_us,
            end_us,
            method: "GET".to_owned(),
            url: format!("http://www{}.example/{number}", connection % 1000),
            request_bytes: 0,
            response_bytes,
            keep_alive,
            chunks: self.chunks.of(response_bytes),
        })
    }
}

/// The client of a connection: one of 65,536 of 10.0.0.0/8.
fn client(connection: u64, seed: u64) -> IpAddr {
    let host = mix(seed ^ mix(connection ^ purpose::CLIENTS << 56)) as u16;
    let [high, low] = host.to_be_bytes();
    Ipv4Addr::new(10, high, low, 1).into()
}

#[cfg(test)]
mod tests;
