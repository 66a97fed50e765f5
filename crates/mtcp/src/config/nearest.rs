//! The known word that a misspelt one is closest to.

/// The one of `words` that `word` needs the fewest single-letter edits to become; `None` if every one is far off.
pub(super) fn nearest<'a>(word: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = 1 + word.len() / 3;
    words
        .map(|known| (distance(word, known), known))
        .filter(|&(edits, _)| edits <= near)
        .min()
        .map(|(_, known)| known)
}

/// Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let replace = diagonal + usize::from(x != y);
            diagonal = *cell;
            left = replace.min(left + 1).min(*cell + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("same", "same"), 0);
    }

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
