//! Requirements and tags brought together, and what is wrong with them.

use std::collections::BTreeMap;

use super::scan::{Kind, Tag};
use super::spec::{Requirement, Spec, Status};

/// A requirement with the places that name it.
#[derive(Debug)]
pub struct Row<'a> {
    pub rfc: u32,
    pub requirement: &'a Requirement,
    pub code: Vec<&'a Tag>,
    pub tests: Vec<&'a Tag>,
}

impl Row<'_> {
    /// Code or a test that should be there is not.
    pub fn is_hole(&self) -> bool {
        let Requirement { level, status, .. } = self.requirement;
        match status {
            Status::NotApplicable | Status::Deviation => false,
            Status::Open => true,
            Status::Done => {
                (level.needs_code() && self.code.is_empty())
                    || (level.needs_test() && self.tests.is_empty())
            }
        }
    }

    fn complaint(&self) -> Option<String> {
        let Requirement {
            id, level, status, ..
        } = self.requirement;
        let tagged = !(self.code.is_empty() && self.tests.is_empty());
        let what = if *status == Status::NotApplicable && tagged {
            "is not applicable, but something names it"
        } else if !self.is_hole() || self.requirement.reason.is_some() {
            return None;
        } else if self.code.is_empty() {
            "has no code, no test or no reason"
        } else {
            "has no test and no reason"
        };
        Some(format!("RFC {} {id} ({}) {what}", self.rfc, level.name()))
    }
}

/// The rows of one RFC.
pub fn rows<'a>(spec: &'a Spec, tags: &'a [Tag]) -> Vec<Row<'a>> {
    let mut places: BTreeMap<&str, (Vec<&Tag>, Vec<&Tag>)> = BTreeMap::new();
    for tag in tags.iter().filter(|tag| tag.rfc == spec.rfc) {
        let (code, tests) = places.entry(&tag.id).or_default();
        match tag.kind {
            Kind::Code => code.push(tag),
            Kind::Test => tests.push(tag),
        }
    }
    spec.requirements
        .iter()
        .map(|requirement| {
            let (code, tests) = places.remove(requirement.id.as_str()).unwrap_or_default();
            Row {
                rfc: spec.rfc,
                requirement,
                code,
                tests,
            }
        })
        .collect()
}

/// Everything that makes the check fail.
pub fn problems(specs: &[Spec], tags: &[Tag]) -> Vec<String> {
    let unknown = tags.iter().filter(|tag| {
        !specs.iter().any(|spec| {
            let mut known = spec.requirements.iter();
            spec.rfc == tag.rfc && known.any(|requirement| requirement.id == tag.id)
        })
    });
    let unknown = unknown.map(|tag| {
        let Tag {
            rfc,
            id,
            file,
            line,
            ..
        } = tag;
        format!("{file}:{line}: RFC {rfc} {id} is not in specs/")
    });
    let holes = specs.iter().flat_map(|spec| rows(spec, tags));
    unknown
        .chain(holes.filter_map(|row| row.complaint()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfc::scan::scan;
    use crate::rfc::spec::parse;

    fn complaints(level: &str, more: &str, sources: &[(&str, &str)]) -> Vec<String> {
        let spec = parse(&format!(
            "rfc = 1\ntitle = \"t\"\n[[requirement]]\nid = \"§1-1\"\nlevel = \"{level}\"\ntext = \"x\"\n{more}"
        ))
        .unwrap();
        let tags: Vec<_> = sources
            .iter()
            .flat_map(|(file, source)| scan(file, source))
            .collect();
        problems(&[spec], &tags)
    }

    const CODE: (&str, &str) = ("crates/a/src/x.rs", "// RFC 1 §1-1");
    const TEST: (&str, &str) = ("tests/x.rs", "// RFC 1 §1-1");

    #[test]
    fn a_must_needs_code_and_test() {
        assert_eq!(complaints("MUST", "", &[CODE, TEST]).len(), 0);
        assert_eq!(complaints("MUST", "", &[CODE]).len(), 1);
        assert_eq!(complaints("MUST NOT", "", &[TEST]).len(), 1);
        assert_eq!(complaints("MUST", "", &[]).len(), 1);
    }

    #[test]
    fn a_should_needs_code_and_a_may_nothing() {
        assert_eq!(complaints("SHOULD", "", &[CODE]).len(), 0);
        assert_eq!(complaints("SHOULD NOT", "", &[]).len(), 1);
        assert_eq!(complaints("MAY", "", &[]).len(), 0);
    }

    #[test]
    fn a_reason_fills_a_hole() {
        let reason = "reason = \"because\"";
        assert_eq!(complaints("MUST", reason, &[CODE]).len(), 0);
        for status in ["deviation", "not-applicable", "open"] {
            let more = format!("{reason}\nstatus = \"{status}\"");
            assert_eq!(complaints("MUST", &more, &[]).len(), 0, "{status}");
        }
    }

    #[test]
    fn what_does_not_apply_is_not_named() {
        let more = "reason = \"because\"\nstatus = \"not-applicable\"";
        assert_eq!(complaints("MUST", more, &[TEST]).len(), 1);
    }

    #[test]
    fn tags_of_unknown_requirements_are_wrong() {
        let wrong = [
            CODE,
            TEST,
            ("tests/y.rs", "// RFC 1 §1-2"),
            ("tests/z.rs", "// RFC 2 §1-1"),
        ];
        assert_eq!(complaints("MUST", "", &wrong).len(), 2);
    }
}
