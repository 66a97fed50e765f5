//! The known word that a misspelt one is closest to.

/// The one of `words` that `word` needs the fewest single-letter edits to become; `None` if every
/// one is far off.
pub(super) fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = 1 + word.len() / 3;
    words
        .map(|known| (strsim::levenshtein(word, known), known))
        .filter(|&(edits, _)| edits <= near)
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_word_that_was_meant() {
        let words = ["rcvbuf", "sndbuf", "max_concurrency"];
        assert_eq!(nearest("recvbuf", words.into_iter()), Some("rcvbuf"));
        assert_eq!(
            nearest("max_concurency", words.into_iter()),
            Some("max_concurrency")
        );
        assert_eq!(nearest("zzzzzz", words.into_iter()), None);
    }
}
