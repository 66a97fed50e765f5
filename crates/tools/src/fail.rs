//! Failures that end the command: one line, cause and remedy.

use std::fmt;

/// Why the command cannot go on and what to do about it, printed as `mtcp: cause: remedy`.
#[derive(Debug)]
pub(crate) struct Failure {
    cause: String,
    remedy: String,
}

impl Failure {
    /// An [`anyhow::Error`] of `cause` and `remedy`.
    pub(crate) fn error(cause: impl Into<String>, remedy: impl Into<String>) -> anyhow::Error {
        Self {
            cause: cause.into(),
            remedy: remedy.into(),
        }
        .into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause, self.remedy)
    }
}

impl std::error::Error for Failure {}

/// The one line for `error`: never more than one, whatever the cause says.
pub(crate) fn line(error: &anyhow::Error) -> String {
    let text = match error.downcast_ref::<Failure>() {
        Some(failure) => failure.to_string(),
        None => format!("{error:#}"),
    };
    let flat: Vec<&str> = text.split_whitespace().collect();
    format!("mtcp: {}", flat.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_with_cause_and_remedy() {
        let error = Failure::error("no interface\n'x0'", "see 'ip link'");
        assert_eq!(line(&error), "mtcp: no interface 'x0': see 'ip link'");
    }
}
