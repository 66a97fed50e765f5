//! What the environment asks of a test.

use std::io::Write;

/// `SIM_SEED=x` asks for one seed; `SIM_SEEDS=n` for n new ones, from `fresh` on; otherwise the
/// first `default` are taken, always the same.
pub fn seeds(default: u64, fresh: u64) -> Vec<u64> {
    if let Some(seed) = number("SIM_SEED") {
        return vec![seed];
    }
    match number("SIM_SEEDS") {
        Some(count) => (0..count).map(|n| fresh.wrapping_add(n)).collect(),
        None => (0..default).collect(),
    }
}

/// `SIM_TRACE=1` asks for all frames as text; this is where they go.
pub fn trace() -> Option<Box<dyn Write + Send>> {
    let wanted = std::env::var("SIM_TRACE").is_ok_and(|value| !value.is_empty() && value != "0");
    wanted.then(|| Box::new(std::io::stderr()) as Box<dyn Write + Send>)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}
