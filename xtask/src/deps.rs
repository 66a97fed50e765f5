//! The arrows of ARCHITECTURE: who may depend on whom.

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;

use crate::metadata;

struct Arrows {
    name: &'static str,
    /// Crates of this workspace that it may see.
    inside: &'static [&'static str],
    /// Crates from outside; `None`: any well-kept one. Dev-dependencies are free.
    outside: Option<&'static [&'static str]>,
}

const fn arrows(
    name: &'static str,
    inside: &'static [&'static str],
    outside: Option<&'static [&'static str]>,
) -> Arrows {
    Arrows {
        name,
        inside,
        outside,
    }
}

const ARROWS: &[Arrows] = &[
    arrows(
        "wire",
        &[],
        Some(&["bitflags", "rand_xoshiro", "serde", "zerocopy"]),
    ),
    arrows(
        "ring",
        &[],
        Some(&["bitflags", "libc", "loom", "rustix", "serde"]),
    ),
    arrows(
        "mtcp-core",
        &["wire", "ring"],
        Some(&["bitflags", "hashbrown", "serde", "siphasher"]),
    ),
    arrows("io", &["wire", "ring"], None),
    arrows("sim", &["mtcp-core", "wire"], None),
    arrows(
        "mtcp",
        &["control", "mtcp-core", "io", "ring", "wire"],
        None,
    ),
    arrows("pkt", &["io", "mtcp", "mtcp-core", "sim", "wire"], None),
    arrows(
        "packetdrill",
        &["mtcp", "mtcp-core", "pkt", "sim", "wire"],
        None,
    ),
    arrows("logger", &[], Some(&["env_filter", "log", "rustix"])),
    arrows("control", &[], Some(&["libc", "log", "rustix"])),
    arrows("capi", &["logger", "mtcp"], None),
    arrows("loader", &[], Some(&["object", "rustix"])),
    arrows(
        "preload",
        &["loader", "logger", "mtcp"],
        Some(&["libc", "log"]),
    ),
    arrows("http1", &[], None),
    arrows("replay", &["http1", "wire"], None),
    arrows(
        "tools",
        &["control", "http1", "loader", "logger", "mtcp", "replay"],
        None,
    ),
    arrows("netns", &[], Some(&[])),
    arrows("interop", &["netns"], None),
    arrows("applications", &["interop"], None),
    arrows("guests", &["interop"], None),
    arrows("xtask", &[], None),
];

/// Fails when a crate depends on one that DESIGN does not let it see.
pub fn check(root: &Path) -> Result<()> {
    let packages = workspace_packages(root)?;
    let mut wrong = Vec::new();
    for package in &packages {
        let name = text(package, "name");
        let Some(known) = ARROWS.iter().find(|known| known.name == name) else {
            wrong.push(format!("{name}: not in the table of xtask/src/deps.rs"));
            continue;
        };
        wrong.extend(homes(package));
        for (dependency, is_ours) in normal_dependencies(package) {
            let allowed = if is_ours {
                known.inside.contains(&dependency.as_str())
            } else {
                known
                    .outside
                    .is_none_or(|list| list.contains(&dependency.as_str()))
            };
            if !allowed {
                wrong.push(format!("{name} -> {dependency}"));
            }
        }
    }
    if !wrong.is_empty() {
        bail!(
            "dependencies that the design does not allow:\n  {}",
            wrong.join("\n  ")
        );
    }
    println!("deps: {} crates, every arrow points inward", packages.len());
    Ok(())
}

fn workspace_packages(root: &Path) -> Result<Vec<Value>> {
    match metadata::read(root)?["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => bail!("cargo metadata lists no packages"),
    }
}

/// (name, whether it is in this workspace) of each dependency that is not for tests or build
/// scripts only.
fn normal_dependencies(package: &Value) -> Vec<(String, bool)> {
    let none = Vec::new();
    package["dependencies"]
        .as_array()
        .unwrap_or(&none)
        .iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| (text(dependency, "name"), dependency["path"].is_string()))
        .collect()
}

/// What a manifest names as the project's place. It has none yet, so that each would be somebody
/// else's.
fn homes(package: &Value) -> Vec<String> {
    ["repository", "homepage"]
        .iter()
        .filter_map(|key| package[*key].as_str())
        .map(|home| format!("{}: {home} is not this project's", text(package, "name")))
        .collect()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_no_other_project() {
        let package = serde_json::json!({ "name": "wire", "repository": null, "homepage": null });
        assert!(homes(&package).is_empty());
        let package =
            serde_json::json!({ "name": "wire", "repository": "https://example.org/other" });
        assert_eq!(
            homes(&package),
            ["wire: https://example.org/other is not this project's"]
        );
    }
}
