//! What is sent when: the transactions of a log, each once for every copy.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use replay::Transaction;
use replay::random::mix;

use crate::replay::answer::FIELD;
use crate::replay::files::Log;

/// A transaction as it is sent.
#[derive(Debug)]
pub(super) struct Task {
    /// Head of the request; a field that says which transaction it is.
    pub(super) head: Vec<u8>,
    /// Bytes of the request's body.
    pub(super) request_bytes: u64,
    /// What the response's body has to be.
    pub(super) seeds: Vec<u64>,
    pub(super) response_bytes: u64,
    pub(super) bodiless: bool,
    pub(super) keep_alive: bool,
    pub(super) connection: u64,
    /// When it is sent, since the replay began.
    pub(super) start: Duration,
    /// How long it took in the log; 0 if it is answered at once.
    pub(super) duration: Duration,
}

/// One copy of a task.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) task: Arc<Task>,
    pub(super) copy: u32,
}

/// How a log is replayed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Copies of it at a time.
    pub(super) copies: u32,
    /// Share of its connections.
    pub(super) scale: f64,
    pub(super) seed: u64,
    /// Responses are asked for at once.
    pub(super) at_once: bool,
    /// The host of requests whose URLs have none.
    pub(super) authority: String,
}

/// The transactions of a log in order, one of them in memory.
pub(super) struct Schedule {
    log: Log,
    plan: Plan,
    number: u64,
    first_us: Option<u64>,
    due: VecDeque<Job>,
}

impl Schedule {
    pub(super) fn new(log: Log, plan: Plan) -> Self {
        Self {
            log,
            plan,
            number: 0,
            first_us: None,
            due: VecDeque::new(),
        }
    }

    /// When the next one is due; `None` after the last.
    pub(super) fn next_start(&mut self) -> anyhow::Result<Option<Duration>> {
        while self.due.is_empty() {
            let Some(transaction) = self.log.next()? else {
                return Ok(None);
            };
            let number = self.number;
            self.number += 1;
            let first_us = *self.first_us.get_or_insert(transaction.start_us);
            if !self.chosen(transaction.connection) {
                continue;
            }
            let task = Arc::new(self.task(&transaction, number, first_us));
            let copies = (0..self.plan.copies).map(|copy| Job {
                task: task.clone(),
                copy,
            });
            self.due.extend(copies);
        }
        Ok(self.due.front().map(|job| job.task.start))
    }

    /// The next one.
    pub(super) fn pop(&mut self) -> Option<Job> {
        self.due.pop_front()
    }

    /// Whether a connection is in the share that is replayed.
    fn chosen(&self, connection: u64) -> bool {
        let place = mix(connection ^ mix(self.plan.seed)) >> 11;
        (place as f64) < self.plan.scale * (1u64 << 53) as f64
    }

    fn task(&self, transaction: &Transaction, number: u64, first_us: u64) -> Task {
        let host = transaction.host().unwrap_or(&self.plan.authority);
        let now = if self.plan.at_once { " now" } else { "" };
        let connection = if transaction.keep_alive {
            ""
        } else {
            "Connection: close\r\n"
        };
        let length = match transaction.request_bytes {
            0 => String::new(),
            bytes => format!("Content-Length: {bytes}\r\n"),
        };
        let head = format!(
            "{} {} HTTP/1.1\r\nHost: {host}\r\n{FIELD}: {number}{now}\r\n{length}{connection}\r\n",
            transaction.method,
            transaction.target(),
        );
        let duration = if self.plan.at_once {
            0
        } else {
            transaction.duration_us()
        };
        Task {
            head: head.into_bytes(),
            request_bytes: transaction.request_bytes,
            seeds: transaction.seeds().collect(),
            response_bytes: transaction.response_bytes,
            bodiless: transaction.method == "HEAD",
            keep_alive: transaction.keep_alive,
            connection: transaction.connection,
            start: Duration::from_micros(transaction.start_us - first_us),
            duration: Duration::from_micros(duration),
        }
    }
}
