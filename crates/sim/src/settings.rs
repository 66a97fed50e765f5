//! What the environment asks of a test.

use std::io::Write;

/// `SIM_SEED=x` asks for one seed; `SIM_SEEDS=n` for the first n instead of `default`; `SIM_FROM=m` starts counting there.
pub fn seeds(default: u64) -> Vec<u64> {
    if let Some(seed) = number("SIM_SEED") {
        return vec![seed];
    }
    let from = number("SIM_FROM").unwrap_or(0);
    let count = number("SIM_SEEDS").unwrap_or(default);
    (from..from.saturating_add(count)).collect()
}

/// `SIM_TRACE=1` asks for all frames as text; this is where they go.
pub fn trace() -> Option<Box<dyn Write + Send>> {
    let wanted = std::env::var("SIM_TRACE").is_ok_and(|value| !value.is_empty() && value != "0");
    wanted.then(|| Box::new(std::io::stderr()) as Box<dyn Write + Send>)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.trim().parse().ok()
}
