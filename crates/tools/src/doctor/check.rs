//! One finding, and the table of them.

use std::fmt::Write;

/// How a finding is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// It works, but slower or not in every case.
    Warn,
    /// What needs it does not work.
    Fail,
}

/// What was looked at, what was found, what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    name: String,
    /// How bad it is.
    pub(crate) state: State,
    finding: String,
    remedy: Option<String>,
}

impl Check {
    /// All is well.
    pub(crate) fn ok(name: impl Into<String>, finding: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state: State::Ok,
            finding: finding.into(),
            remedy: None,
        }
    }

    /// It could be better.
    pub(crate) fn warn(
        name: impl Into<String>,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            state: State::Warn,
            finding: finding.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// It does not work.
    pub(crate) fn fail(
        name: impl Into<String>,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            state: State::Fail,
            finding: finding.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// The same finding where nothing depends on it for sure.
    pub(crate) fn softened(mut self) -> Self {
        self.state = self.state.min(State::Warn);
        self
    }
}

/// The findings as text, remedies below what they mend.
pub(crate) fn table(checks: &[Check]) -> String {
    let width = checks
        .iter()
        .map(|check| check.name.chars().count())
        .max()
        .unwrap_or_default();
    let mut text = String::new();
    for check in checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Warn => "warn",
            State::Fail => "fail",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{state:<6}{:<width$}  {}", check.name, check.finding);
        if let Some(remedy) = &check.remedy {
            let _ = writeln!(text, "{:<6}{:<width$}  → {remedy}", "", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned() {
        let text = table(&[
            Check::ok("a", "fine"),
            Check::fail("longer", "bad", "do this"),
        ]);
        assert_eq!(
            text,
            "ok    a       fine\nfail  longer  bad\n              → do this\n"
        );
    }
}
