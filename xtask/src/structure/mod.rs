//! How the modules of each crate hang together: circles of imports, and types whose methods are
//! scattered.
//!
//! An edge is a `use` or a path from one module to another. The `mod` of a child, the re-export of
//! something of a child, and tests are none.

mod circles;
mod imports;
mod methods;
mod modules;
mod spread;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::metadata;
use modules::Crate;

/// Fails on circles that are not known; known ones may only shrink.
pub fn check_circles(root: &Path) -> Result<()> {
    circles::check(&crates(root)?)
}

/// Fails on types with too many methods, or methods in too many files; known ones may only shrink.
pub fn check_methods(root: &Path) -> Result<()> {
    spread::check(&crates(root)?)
}

/// Every library of the workspace, and every program that is none.
fn crates(root: &Path) -> Result<Vec<Crate>> {
    let metadata = metadata::read(root)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut crates = Vec::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has no name")?;
        for source in roots(package) {
            let read = Crate::read(name, Path::new(source));
            crates.push(read.with_context(|| format!("cannot read {source}"))?);
        }
    }
    Ok(crates)
}

fn roots(package: &Value) -> impl Iterator<Item = &str> {
    let targets = package["targets"].as_array().into_iter().flatten();
    targets
        .filter(|target| is_shipped(target))
        .filter_map(|target| target["src_path"].as_str())
}

fn is_shipped(target: &Value) -> bool {
    let kinds = target["kind"].as_array().into_iter().flatten();
    kinds
        .filter_map(Value::as_str)
        .any(|kind| kind.ends_with("lib") || kind == "bin")
}
