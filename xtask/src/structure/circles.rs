//! Circles of imports between the modules of a crate.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use super::modules::Crate;

/// How many modules of a crate are in circles. A number here may only shrink; a crate that is not
/// named has none.
const KNOWN: &[(&str, usize)] = &[];

/// Prints all circles. Fails if there are more modules in them than is known, or fewer.
pub fn check(crates: &[Crate]) -> Result<()> {
    let mut caught: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sum = 0;
    for one in crates {
        for circle in circles(one) {
            println!(
                "circle of {} modules: {}",
                circle.len(),
                names(one, &circle)
            );
            *caught.entry(&one.name).or_default() += circle.len();
            sum += 1;
        }
    }
    println!("cycles: {sum} circles");
    let names: BTreeSet<&str> = crates.iter().map(|one| one.name.as_str()).collect();
    let caught = |name: &str| caught.get(name).copied().unwrap_or_default();
    let wrong: Vec<_> = names
        .iter()
        .filter_map(|name| complaint(name, caught(name)))
        .collect();
    if !wrong.is_empty() {
        bail!("against the rules of the house:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn complaint(name: &str, caught: usize) -> Option<String> {
    let known = KNOWN
        .iter()
        .find(|(known, _)| *known == name)
        .map_or(0, |(_, count)| *count);
    let table = "xtask/src/structure/circles.rs";
    (caught > known).then(|| format!("{name}: {caught} modules in circles of imports, {known} were known: take the new import back, or invert it"))
        .or_else(|| (caught < known).then(|| format!("{name}: only {caught} modules are in circles now: lower {known} in {table}")))
}

/// The circles of a crate, largest first.
pub(super) fn circles(of: &Crate) -> Vec<Vec<usize>> {
    let graph: DiGraphMap<usize, ()> = edges(of).into_iter().collect();
    let mut circles: Vec<_> = tarjan_scc(&graph)
        .into_iter()
        .filter(|circle| circle.len() > 1)
        .collect();
    circles.iter_mut().for_each(|circle| circle.sort_unstable());
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

fn edges(of: &Crate) -> BTreeSet<(usize, usize)> {
    let mut edges = BTreeSet::new();
    for (from, module) in of.modules.iter().enumerate() {
        for import in &module.imports {
            let Some((named, rest)) = of.resolve(from, &import.path) else {
                continue;
            };
            let to = if rest.is_empty() {
                named
            } else {
                of.definer(from, &import.path).unwrap_or(named)
            };
            let is_re_export = import.is_exported && of.is_below(to, from);
            if to != from && !is_re_export {
                edges.insert((from, to));
            }
        }
    }
    edges
}

fn names(of: &Crate, circle: &[usize]) -> String {
    let names: Vec<_> = circle.iter().map(|&module| of.title(module)).collect();
    names.join(", ")
}
