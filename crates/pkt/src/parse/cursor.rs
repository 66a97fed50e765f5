//! A place in the text of a script.

use std::collections::HashMap;

use crate::error::ParseError;

/// What reading gives.
pub(super) type Result<T> = std::result::Result<T, ParseError>;

/// See the module. Most functions skip white space and comments first.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// Symbols of `--define`.
    symbols: HashMap<String, String>,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            symbols: HashMap::new(),
        }
    }

    pub fn define(&mut self, symbols: HashMap<String, String>) {
        self.symbols = symbols;
    }

    /// What a word was defined to be.
    pub fn defined(&self, word: &str) -> Option<&String> {
        self.symbols.get(word)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The line, counted from 1.
    pub fn line(&self) -> usize {
        let before = self.text.get(..self.at).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    pub fn mark(&self) -> usize {
        self.at
    }

    pub fn back_to(&mut self, mark: usize) {
        self.at = mark;
    }

    /// What was read since `mark`, on one line.
    pub fn since(&self, mark: usize) -> String {
        let text = self.text.get(mark..self.at).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// White space and comments.
    pub fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let skipped = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |end| end + 2)
            } else {
                rest.len() - rest.trim_start().len()
            };
            if skipped == 0 {
                return;
            }
            self.at += skipped;
        }
    }

    pub fn at_end(&mut self) -> bool {
        self.skip();
        self.rest().is_empty()
    }

    pub fn looking_at(&mut self, text: &str) -> bool {
        self.skip();
        self.rest().starts_with(text)
    }

    pub fn looking_at_word(&mut self) -> bool {
        self.skip();
        self.rest()
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    }

    pub fn looking_at_digit(&mut self) -> bool {
        self.skip();
        self.rest().starts_with(|c: char| c.is_ascii_digit())
    }

    /// Whether the rest of the line begins with a word.
    pub fn word_on_line(&self) -> bool {
        let rest = self.rest().trim_start_matches([' ', '\t']);
        rest.starts_with(|c: char| c.is_ascii_alphabetic())
    }

    /// Takes `text` if it is next; otherwise does not move.
    pub fn accept(&mut self, text: &str) -> bool {
        let start = self.at;
        let found = self.looking_at(text);
        self.at = if found { self.at + text.len() } else { start };
        found
    }

    /// Takes a whole word if it is next.
    pub fn accept_word(&mut self, word: &str) -> bool {
        let start = self.at;
        if self.looking_at_word() && self.word().is_ok_and(|found| found == word) {
            return true;
        }
        self.at = start;
        false
    }

    pub fn expect(&mut self, text: &str) -> Result<()> {
        if self.accept(text) {
            return Ok(());
        }
        Err(self.error(&format!("expected '{text}'")))
    }

    /// Characters, without skipping anything.
    pub fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default().to_owned()
    }

    /// Letters, digits and underscores.
    pub fn word(&mut self) -> Result<String> {
        self.skip();
        let word = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_');
        if word.is_empty() {
            return Err(self.error("expected a word"));
        }
        Ok(word)
    }

    /// A number: decimal, maybe negative, or hexadecimal.
    pub fn number(&mut self) -> Result<i64> {
        self.skip();
        let start = self.at;
        let negative = self.accept("-");
        let word = self.take_while(|c| c.is_ascii_alphanumeric());
        let value = match word.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => word.parse::<i64>().ok(),
        };
        match value {
            Some(value) if negative => Ok(-value),
            Some(value) => Ok(value),
            None => {
                self.at = start;
                Err(self.error("expected a number"))
            }
        }
    }

    /// A number that fits.
    pub fn small<T: TryFrom<i64>>(&mut self, what: &str) -> Result<T> {
        let start = self.at;
        let number = self.number()?;
        T::try_from(number).map_err(|_| {
            self.at = start;
            self.error(&format!("{what} out of range"))
        })
    }

    /// Between two quotes; a backslash keeps the next character from ending it.
    pub fn quoted(&mut self, quote: char) -> Result<String> {
        self.skip();
        let start = self.at;
        let mut escaped = false;
        let mut chars = self.rest().char_indices().skip(1);
        let end = chars.find(|(_, c)| {
            let ends = *c == quote && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let Some((end, _)) = end else {
            return Err(self.error(&format!("no closing {quote}")));
        };
        let text = self.text.get(start + 1..start + end);
        self.at = start + end + 1;
        Ok(text.unwrap_or_default().to_owned())
    }

    /// Up to `end`, which is taken too.
    pub fn until(&mut self, end: &str) -> Result<String> {
        let rest = self.rest();
        let Some(len) = rest.find(end) else {
            return Err(self.error(&format!("no closing '{end}'")));
        };
        self.at += len + end.len();
        Ok(rest.get(..len).unwrap_or_default().to_owned())
    }

    pub fn rest_of_line(&mut self) -> String {
        let line = self.take_while(|c| c != '\n');
        let value = line.split("//").next().unwrap_or_default();
        value.trim().to_owned()
    }

    /// Something is wrong here.
    pub fn error(&self, what: &str) -> ParseError {
        self.error_at(self.line(), what)
    }

    /// Something is wrong on that line.
    pub fn error_at(&self, line: usize, what: &str) -> ParseError {
        let here = self.rest().lines().next().unwrap_or_default().trim();
        let near: String = here.chars().take(40).collect();
        let near = if near.is_empty() {
            "the end".to_owned()
        } else {
            format!("'{near}'")
        };
        ParseError {
            line,
            what: format!("{what}, near {near}"),
        }
    }
}
