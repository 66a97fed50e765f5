//! Types whose methods are too many to hold in mind, or scattered over too many files.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

use super::modules::Crate;

/// A type has no more methods than that outside tests, ...
const MOST_METHODS: usize = 60;
/// ... in no more files than that.
const MOST_FILES: usize = 6;

/// Types that exceed a limit today, with their methods and files. The numbers may only shrink.
const KNOWN: &[(&str, usize, usize)] = &[];

/// Types of the public API, each of whose methods only delegates: there may be more of them, in as
/// many files.
const FACADES: &[&str] = &["mtcp::context::Context"];

/// How much of a type is where.
#[derive(Debug, Default)]
pub(super) struct Spread {
    pub methods: usize,
    pub files: BTreeSet<usize>,
    /// Methods that do more than to delegate.
    pub busy: Vec<String>,
}

/// Fails on types beyond the limits, unless they are known; known ones may only shrink.
pub fn check(crates: &[Crate]) -> Result<()> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    let mut types = 0;
    for one in crates {
        let spreads = spreads(one);
        types += spreads.len();
        for (name, spread) in spreads {
            wrong.extend(if FACADES.contains(&name.as_str()) {
                facade_complaint(&name, &spread)
            } else {
                complaint(&name, spread.methods, spread.files.len())
            });
            seen.insert(name);
        }
    }
    let listed = KNOWN.iter().map(|(known, ..)| known).chain(FACADES);
    let gone = listed.filter(|known| !seen.contains(**known));
    wrong.extend(gone.map(|known| {
        format!("{known}: there is no such type now: take it off the list in xtask/src/structure/spread.rs")
    }));
    if !wrong.is_empty() {
        bail!("against the rules of the house:\n  {}", wrong.join("\n  "));
    }
    println!(
        "methods: {types} types, {} beyond {MOST_METHODS} methods or {MOST_FILES} files, {} that only delegate",
        KNOWN.len(),
        FACADES.len()
    );
    Ok(())
}

pub(super) fn spreads(of: &Crate) -> BTreeMap<String, Spread> {
    let mut spreads: BTreeMap<String, Spread> = BTreeMap::new();
    for (index, module) in of.modules.iter().enumerate() {
        for block in &module.impls {
            let home = home(of, index, &block.type_name);
            let name = format!("{}::{}", of.title(home), block.type_name);
            let spread = spreads.entry(name).or_default();
            spread.methods += block.methods;
            spread.files.insert(index);
            spread.busy.extend(block.busy.iter().cloned());
        }
    }
    spreads
}

/// The module that defines the type which module `from` calls `name`.
fn home(of: &Crate, from: usize, name: &str) -> usize {
    let module = &of.modules[from];
    if module.types.contains(name) {
        return from;
    }
    let import = module.imports.iter().find(|import| import.alias == name);
    import
        .and_then(|import| of.definer(from, &import.path))
        .unwrap_or(from)
}

/// What is wrong with a type whose methods are to delegate.
pub(super) fn facade_complaint(name: &str, spread: &Spread) -> Option<String> {
    let Spread {
        methods,
        files,
        busy,
    } = spread;
    if files.len() > MOST_FILES {
        let files = files.len();
        return Some(format!(
            "{name}: methods in {files} files; at most {MOST_FILES}"
        ));
    }
    if let Some(method) = busy.first() {
        return Some(format!(
            "{name}::{method} does more than to delegate, as all methods of this type have to (and {} others)",
            busy.len() - 1
        ));
    }
    (*methods <= MOST_METHODS).then(|| {
        format!("{name}: only {methods} methods now: take it off the facades in xtask/src/structure/spread.rs")
    })
}

fn complaint(name: &str, methods: usize, files: usize) -> Option<String> {
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    let is_within = methods <= MOST_METHODS && files <= MOST_FILES;
    match known {
        None if is_within => None,
        None => Some(format!(
            "{name}: {methods} methods in {files} files; at most {MOST_METHODS} in {MOST_FILES}"
        )),
        Some(&(_, most, widest)) if methods > most || files > widest => Some(format!(
            "{name}: {methods} methods in {files} files; it had {most} in {widest}, and may only shrink"
        )),
        Some(&(_, most, widest)) if methods < most || files < widest => Some(format!(
            "{name}: only {methods} methods in {files} files now: put that in place of {most} and {widest} in xtask/src/structure/spread.rs"
        )),
        Some(_) => None,
    }
}
