//! One line of a table: what is run, who runs it, and which figures come out.

use serde_json::Value;

use super::probe::Probe;
use super::side::Side;
use super::statistics::Series;

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    /// Its name in JSON, with the unit.
    pub(crate) key: &'static str,
    /// Its name in tables, with the unit.
    pub(crate) title: &'static str,
}

/// What is run, and what it is called.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// In tables.
    pub(crate) title: String,
    /// In JSON: the parameters.
    pub(crate) parameters: Vec<(&'static str, Value)>,
    /// Who runs it, in this order.
    pub(crate) sides: Vec<Side>,
    /// Who does not, and why.
    pub(crate) left_out: Option<String>,
    /// What is run.
    pub(crate) probe: Probe,
    /// What comes out.
    pub(crate) metrics: &'static [Metric],
}

/// A case and what came out.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// The case.
    pub(crate) case: Case,
    /// By side, then by metric, in the case's order: one value per pair.
    pub(crate) values: Vec<Vec<Series>>,
    /// Why runs failed.
    pub(crate) failures: Vec<String>,
}

impl Measured {
    /// Nothing yet.
    pub(crate) fn new(case: Case) -> Self {
        let row = vec![Series::default(); case.metrics.len()];
        Self {
            values: vec![row; case.sides.len()],
            case,
            failures: Vec::new(),
        }
    }

    /// The series of a figure on a side.
    pub(crate) fn series(&self, side: Side, metric: usize) -> Option<&Series> {
        let row = self.case.sides.iter().position(|other| *other == side)?;
        self.values.get(row)?.get(metric)
    }

    /// mTCP's figure by that of `other`, pair by pair.
    pub(crate) fn ratios(&self, other: Side, metric: usize) -> Option<Series> {
        let ours = self.series(Side::Mtcp, metric)?;
        Some(ours.ratios(self.series(other, metric)?))
    }
}
