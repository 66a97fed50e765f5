//! An interface before it is open: what takes privileges is done, for programs that give them up, and that fork.

use crate::config::{Config, IoSpec};
use crate::link;
use crate::runtime::{Common, Mtcp, SetupError, processors, secret};
use crate::testaments::Testaments;

/// An interface that can be opened without privileges. A child that is forked has it too; the processes share the queues as
/// `processes` of the configuration says, each taking what it needs when it opens them.
#[derive(Debug)]
pub struct Prepared {
    config: Config,
    spec: IoSpec,
    processors: Vec<usize>,
    link: link::Prepared,
    common: Common,
    busy: bool,
}

impl Prepared {
    /// Does what takes privileges and belongs to all processes.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn new(config: Config) -> Result<Self, SetupError> {
        config.check()?;
        let spec = config.link()?;
        let processors = processors(&config)?;
        let failed = |error: std::io::Error| SetupError(error.to_string());
        let link = link::prepare(&config, &spec, processors.len()).map_err(failed)?;
        let exchange = link.exchange().map_err(failed)?;
        let testaments = exchange
            .as_ref()
            .map(|exchange| Testaments::new(exchange.seats(), config.holdings()))
            .transpose()
            .map_err(failed)?;
        Ok(Self {
            common: Common {
                secret: secret()?,
                exchange,
                testaments,
            },
            config,
            spec,
            processors,
            link,
            busy: false,
        })
    }

    /// Does what takes privileges and belongs to one process: the one that calls.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn arm(&mut self) -> Result<(), SetupError> {
        match &mut self.link {
            link::Prepared::Xdp(prepared) => prepared
                .arm()
                .map_err(|error| SetupError(error.to_string())),
            link::Prepared::Other => Ok(()),
        }
    }

    /// In a forked child: gives up what [`Prepared::arm`] did for the parent.
    pub fn disarm(&mut self) {
        if let link::Prepared::Xdp(prepared) = &mut self.link {
            prepared.disarm();
        }
    }

    /// Opens the queues of this process.
    ///
    /// # Errors
    /// One line with cause and remedy.
    pub fn open(&mut self) -> Result<Mtcp, SetupError> {
        let opened = link::open(&self.config, &self.spec, &mut self.link).map_err(|error| {
            self.busy = error.busy;
            SetupError(error.text)
        })?;
        let first_seat = self.first_seat(&opened).ok_or_else(|| {
            self.busy = true;
            SetupError("other processes have all seats at this link".into())
        })?;
        let (config, processors) = (self.config.clone(), self.processors.clone());
        let common = self.common.clone();
        Mtcp::assemble(config, &self.spec, processors, opened, first_seat, common)
    }

    /// The seat of the first of these queues.
    fn first_seat(&self, opened: &link::Opened) -> Option<u8> {
        let Some(exchange) = &self.common.exchange else {
            return Some(0);
        };
        let share = u8::try_from(opened.share).ok()?;
        match opened.ports.len() {
            1 => exchange.free_seat(share),
            several => share.checked_mul(u8::try_from(several).ok()?),
        }
    }

    /// Asks processes that have a queue and could go on without it to leave it, while [`Prepared::open`] finds none. To be repeated now and
    /// then.
    pub fn ask_for_queue(&self) {
        if let Some(exchange) = &self.common.exchange {
            exchange.ask_for_queue();
        }
    }

    /// There is one, or it is to be asked for anew.
    pub fn stop_asking(&self) {
        if let Some(exchange) = &self.common.exchange {
            exchange.stop_asking();
        }
    }

    /// Whether other processes share the interface, and go on when this one ends.
    pub fn is_shared(&self) -> bool {
        self.common.exchange.is_some()
    }

    /// Whether [`Prepared::open`] failed because other processes have all queues: it may succeed when one of them ends.
    pub fn is_busy(&self) -> bool {
        self.busy
    }
}
