//! Words that were invented here where the field has one: how often each is still there, and that
//! none comes back.
//!
//! A word counts in identifiers (`push_volley`, `VolleyPort`) and in texts of the program
//! (messages, counters, keys). Comments are prose, where many of these words can be meant as
//! everybody means them, so they are left to readers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};

/// A word that is on its way out.
struct Retired {
    word: &'static str,
    /// What the field says.
    instead: &'static str,
    /// How often it is still there. The number may only shrink.
    known: usize,
}

const fn retired(word: &'static str, instead: &'static str, known: usize) -> Retired {
    Retired {
        word,
        instead,
        known,
    }
}

/// What takes over from killed processes has words of its own, which go with it.
const RETIRED: &[Retired] = &[
    retired("asleep", "compact TCB", 15),
    retired("awake", "full TCB", 6),
    retired("bell", "wake-up, doorbell", 1),
    retired("bells", "wake-ups, doorbells", 0),
    retired("bundle", "GSO or GRO segment", 2),
    retired("bundles", "GSO or GRO segments", 2),
    retired("doubt", "undo state", 0),
    retired("keeper", "background thread", 0),
    retired("lanes", "virtio-net or AF_XDP metadata", 7),
    retired("lent", "port lease, or fork proxy", 56),
    retired("letters", "TC receive ring", 0),
    retired("mould", "template packet", 0),
    retired("nap", "interrupt coalescing delay", 5),
    retired("parting", "close with reset", 0),
    retired(
        "patience",
        "what is limited, with its unit: LISTEN_RETRY_MAX",
        7,
    ),
    retired("pump", "relay", 0),
    retired("rouse", "notify, wake", 0),
    retired("stray", "unknown flow", 0),
    retired("tally", "connection statistics", 0),
    retired("vacate", "release before fork", 0),
    retired("volley", "transmit batch", 0),
    retired("volleys", "transmit batches", 0),
];

/// Fails where a retired word has become more frequent than is known.
pub fn check(root: &Path) -> Result<()> {
    let mut counts = BTreeMap::new();
    for name in sources(root)? {
        let source = fs::read_to_string(root.join(&name)).with_context(|| name.clone())?;
        let tokens: TokenStream = source
            .parse()
            .map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        count(tokens, &mut |word| *counts.entry(word).or_insert(0) += 1);
    }
    let there = |word: &str| counts.get(word).copied().unwrap_or_default();
    let wrong: Vec<_> = RETIRED
        .iter()
        .filter_map(|retired| complaint(retired, there(retired.word)))
        .collect();
    if !wrong.is_empty() {
        bail!("words that are on their way out:\n  {}", wrong.join("\n  "));
    }
    let left = RETIRED
        .iter()
        .filter(|retired| there(retired.word) > 0)
        .count();
    println!(
        "words: {} of {} retired words are still there",
        left,
        RETIRED.len()
    );
    Ok(())
}

fn complaint(retired: &Retired, there: usize) -> Option<String> {
    let Retired {
        word,
        instead,
        known,
    } = retired;
    if there < *known {
        println!("words: '{word}' only {there} times now: lower {known} in xtask/src/words.rs");
    }
    (there > *known).then(|| {
        format!("'{word}' {there} times in identifiers and texts, {known} were known: the field says {instead}")
    })
}

/// All sources of Rust but this one.
fn sources(root: &Path) -> Result<Vec<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "*.rs"]).current_dir(root);
    let output = list.output().context("cannot run git ls-files")?;
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_other = |name: &&str| *name != "xtask/src/words.rs" && root.join(name).exists();
    Ok(names.lines().filter(is_other).map(str::to_owned).collect())
}

/// Tells the words of all identifiers and texts, but for those of attributes: documentation is one.
fn count(tokens: TokenStream, tell: &mut impl FnMut(String)) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) => split(&ident.to_string()).for_each(&mut *tell),
            TokenTree::Literal(text) => split(&text.to_string()).for_each(&mut *tell),
            TokenTree::Group(group) => count(group.stream(), tell),
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                tokens.next_if(
                    |next| matches!(next, TokenTree::Punct(punct) if punct.as_char() == '!'),
                );
                tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
            }
            TokenTree::Punct(_) => {}
        }
    }
}

/// The words of `pushVolley`, `push_volley` and "push a volley".
fn split(text: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in text.chars() {
        let begins = letter.is_uppercase() && was_lower;
        if (begins || !letter.is_alphabetic()) && words.last().is_some_and(|word| !word.is_empty())
        {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphabetic()) {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    words.into_iter().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_and_texts_count_and_comments_do_not() {
        let source = r#"
            //! A volley.
            /// Another volley.
            #[volley] fn push_volley() -> VolleyPort { say!("the volley's end") } // volley
        "#;
        let mut found = 0;
        count(source.parse().unwrap(), &mut |word| {
            found += usize::from(word == "volley")
        });
        assert_eq!(found, 3);
    }

    #[test]
    fn words_are_told_apart() {
        let words: Vec<_> = split("MAX_LENT pushVolley 'kicked off' x86").collect();
        assert_eq!(
            words,
            ["max", "lent", "push", "volley", "kicked", "off", "x"]
        );
    }
}
