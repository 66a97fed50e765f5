//! One JSON object.

use serde_json::{Map, Value, json};

use crate::bench::case::Measured;
use crate::bench::options::Mode;
use crate::bench::side::Side;
use crate::bench::statistics::Series;

use super::Report;

impl Report {
    /// The object: how it was measured, the first case as `kernel`, `mtcp` and `ratio`, and all of
    /// them as `cases`.
    pub(crate) fn json(&self) -> Value {
        let options = &self.options;
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("what", json!(self.what.name()));
        put("link", json!(options.link.name()));
        put("steer", json!(options.steer));
        put("client", json!(options.client().name()));
        put("mode", json!(options.mode.name()));
        put("pairs", json!(options.pairs));
        put("seconds", json!(options.seconds));
        let mut cores = json!({ "server": self.cores[0], "client": self.cores[1] });
        if options.mode == Mode::Service {
            cores["daemon"] = options.daemon_core(self.cores).into();
        }
        put("cores", cores);
        put("machine", crate::machine::description());
        put("baseline", self.baseline.json());
        put("noise", self.noise.json());
        let cases: Vec<Value> = self
            .cases
            .iter()
            .map(|measured| case(measured).into())
            .collect();
        if let Some(first) = self.cases.first() {
            object.extend(case(first));
        }
        object.insert("cases".to_owned(), cases.into());
        object.into()
    }
}

/// The parameters, each side, and mTCP by each of the others: one figure's median as `ratio`, all
/// of them as `ratios`.
fn case(measured: &Measured) -> Map<String, Value> {
    let parameters = measured.case.parameters.iter();
    let mut object: Map<String, Value> = parameters
        .map(|(key, value)| ((*key).to_owned(), value.clone()))
        .collect();
    for (side, row) in measured.case.sides.iter().zip(&measured.values) {
        object.insert(side.name().to_owned(), figures(measured, row));
    }
    for (side, one, all) in [
        (Side::Kernel, "ratio", "ratios"),
        (Side::KernelTuned, "ratio_tuned", "ratios_tuned"),
        (Side::KernelPlain, "ratio_no_offload", "ratios_no_offload"),
        (Side::MtcpInline, "ratio_inline", "ratios_inline"),
    ] {
        let row: Vec<Series> = (0..measured.case.metrics.len())
            .filter_map(|metric| measured.ratios(side, metric))
            .collect();
        if let Some(first) = row.first() {
            object.insert(one.to_owned(), json!(first.median()));
            object.insert(all.to_owned(), figures(measured, &row));
        }
    }
    object.insert("left_out".to_owned(), json!(measured.case.left_out));
    object.insert("failures".to_owned(), json!(measured.failures));
    object
}

/// Medians under the names of the figures, and how far the runs were apart.
fn figures(measured: &Measured, row: &[Series]) -> Value {
    let mut object = Map::new();
    let (mut spread, mut runs) = (Map::new(), Map::new());
    for (metric, series) in measured.case.metrics.iter().zip(row) {
        object.insert(metric.key.to_owned(), json!(series.median()));
        let apart = json!({
            "min": series.min(),
            "max": series.max(),
            "percent": series.spread_percent(),
        });
        spread.insert(metric.key.to_owned(), apart);
        runs.insert(metric.key.to_owned(), json!(series.0));
    }
    object.insert("spread".to_owned(), spread.into());
    object.insert("runs".to_owned(), runs.into());
    object.into()
}
