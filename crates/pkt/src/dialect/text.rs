//! Changes to the text of a script.

/// Settings that own their texts.
pub(super) fn own(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = settings.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Does to each line what `change` says.
pub(super) fn lines(text: &str, mut change: impl FnMut(&str) -> String) -> String {
    let changed: Vec<String> = text.split('\n').map(&mut change).collect();
    changed.join("\n")
}

/// The value of the last `NAME=VALUE` in `text`.
pub(super) fn assigned<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, behind) = text.rsplit_once(&format!("{name}="))?;
    behind.split([' ', '\t', '\n', '`', '\\', '"']).next()
}

#[cfg(test)]
mod tests {
    use super::assigned;

    #[test]
    fn the_last_value_counts() {
        let text = "`sysctl a.b=1`\n`sysctl a.b=2 c.d=3`";
        assert_eq!(assigned(text, "a.b"), Some("2"));
        assert_eq!(assigned(text, "c.d"), Some("3"));
        assert_eq!(assigned(text, "e"), None);
    }
}
