//! The requirements: `specs/rfcNNNN.toml`, one file per RFC, in our words.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// One RFC and what it asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    pub rfc: u32,
    pub title: String,
    #[serde(rename = "requirement")]
    pub requirements: Vec<Requirement>,
}

/// One requirement.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requirement {
    /// The label that the RFC gives it (`MUST-23`), or its section and a number of ours (`§3.2-1`).
    pub id: String,
    pub level: Level,
    /// Where it stands; said by an id that begins with `§`.
    section: Option<String>,
    pub text: String,
    #[serde(default)]
    pub status: Status,
    /// Why there is no code, no test, or something else than what is asked for.
    pub reason: Option<String>,
}

/// RFC 2119. "MUST NOT" is a `MUST` here: code must obey it and a test must show it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    Must,
    #[serde(rename = "MUST NOT")]
    MustNot,
    Should,
    #[serde(rename = "SHOULD NOT")]
    ShouldNot,
    May,
}

/// How we stand to it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    #[default]
    Done,
    /// It is about something that this stack does not have.
    NotApplicable,
    /// We do something else, for the reason given.
    Deviation,
    /// We do not do it yet.
    Open,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::MustNot => "MUST NOT",
            Self::Should => "SHOULD",
            Self::ShouldNot => "SHOULD NOT",
            Self::May => "MAY",
        }
    }

    /// Code must obey it, or a reason must say why not.
    pub fn needs_code(self) -> bool {
        self != Self::May
    }

    /// A test must show it.
    pub fn needs_test(self) -> bool {
        matches!(self, Self::Must | Self::MustNot)
    }
}

impl Requirement {
    pub fn section(&self) -> &str {
        match (&self.section, self.id.strip_prefix('§')) {
            (Some(section), _) => section,
            (None, Some(own)) => own.rsplit_once('-').map_or(own, |(section, _)| section),
            (None, None) => "",
        }
    }
}

/// All of `specs/`, in the order of their numbers.
pub fn load(root: &Path) -> Result<Vec<Spec>> {
    let mut specs = Vec::new();
    for entry in fs::read_dir(root.join("specs")).context("no specs/")? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let text = fs::read_to_string(&path)?;
            specs.push(parse(&text).with_context(|| path.display().to_string())?);
        }
    }
    specs.sort_by_key(|spec: &Spec| spec.rfc);
    Ok(specs)
}

/// One file, checked.
pub fn parse(text: &str) -> Result<Spec> {
    let spec: Spec = toml::from_str(text)?;
    let mut seen = BTreeSet::new();
    for requirement in &spec.requirements {
        let id = &requirement.id;
        if !seen.insert(id) {
            bail!("{id} stands there twice");
        }
        if requirement.section().is_empty() {
            bail!("{id} has no section");
        }
        if requirement.status != Status::Done && requirement.reason.is_none() {
            bail!("{id} has a status and no reason");
        }
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(requirement: &str) -> Result<Spec> {
        parse(&format!(
            "rfc = 5961\ntitle = \"t\"\n[[requirement]]\n{requirement}"
        ))
    }

    #[test]
    fn the_section_is_in_the_id_or_beside_it() {
        let own = file("id = \"§3.2-1\"\nlevel = \"MUST NOT\"\ntext = \"x\"").unwrap();
        assert_eq!(own.requirements[0].section(), "3.2");
        assert_eq!(own.requirements[0].level, Level::MustNot);
        let label =
            file("id = \"MUST-1\"\nlevel = \"MUST\"\nsection = \"3.1\"\ntext = \"x\"").unwrap();
        assert_eq!(label.requirements[0].section(), "3.1");
        assert!(file("id = \"MUST-1\"\nlevel = \"MUST\"\ntext = \"x\"").is_err());
    }

    #[test]
    fn a_status_needs_a_reason() {
        let line = "id = \"§1-1\"\nlevel = \"MAY\"\ntext = \"x\"\nstatus = \"deviation\"";
        assert!(file(line).is_err());
        assert!(file(&format!("{line}\nreason = \"y\"")).is_ok());
    }

    #[test]
    fn an_id_stands_there_once() {
        let one = "id = \"§1-1\"\nlevel = \"MAY\"\ntext = \"x\"\n";
        assert!(file(&format!("{one}[[requirement]]\n{one}")).is_err());
    }

    #[test]
    fn a_misspelt_key_is_an_error() {
        assert!(file("id = \"§1-1\"\nlevel = \"MAY\"\ntext = \"x\"\nreasn = \"y\"").is_err());
    }
}
