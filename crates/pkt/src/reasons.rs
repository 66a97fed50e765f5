//! Why scripts of others fail: rows of tables in a text, `| number | why | `names` |`.

/// One reason, and the scripts it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// In words.
    pub why: String,
    /// How many scripts it is said to be for.
    pub scripts: usize,
    /// Their names from the folder of the corpus on, without the extension; `*` stands for
    /// anything.
    patterns: Vec<String>,
}

impl Reason {
    /// Whether it is said of this script.
    pub fn covers(&self, name: &str) -> bool {
        let name = name.trim_end_matches(".pkt");
        let mut patterns = self.patterns.iter();
        patterns.any(|pattern| matches(pattern, name))
    }
}

/// All rows whose last cell names scripts.
pub fn reasons(text: &str) -> Vec<Reason> {
    text.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Reason> {
    let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").collect();
    let [scripts, why, names] = cells[..] else {
        return None;
    };
    let names = names.split('`').skip(1).step_by(2);
    let patterns: Vec<String> = names
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect();
    Some(Reason {
        why: why.trim().to_owned(),
        scripts: scripts.trim().parse().ok()?,
        patterns,
    })
}

fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(head) else {
        return false;
    };
    loop {
        if matches(rest, left) {
            return true;
        }
        let mut chars = left.chars();
        if chars.next().is_none() {
            return false;
        }
        left = chars.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_name_scripts_are_reasons() {
        let text =
            "| scripts | why | which |\n|---:|---|---|\n| 2 | **A.** b | `a/*-ipv4` `b` |\nno row";
        let reasons = reasons(text);
        let [reason] = &reasons[..] else {
            panic!("{reasons:?}");
        };
        assert_eq!((reason.scripts, reason.why.as_str()), (2, "**A.** b"));
        assert!(reason.covers("a/x-ipv4.pkt") && reason.covers("b"));
        assert!(!reason.covers("a/x-ipv6.pkt") && !reason.covers("bb"));
    }

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches("a*b*c", "abbc") && matches("*", "") && matches("a*", "a/b"));
        assert!(!matches("a*b*c", "acb") && !matches("a", "ab"));
    }
}
