//! Arguments of calls.

use super::cursor::{Cursor, Result};
use crate::script::Expr;

/// One or more, with commas between.
pub(super) fn list(at: &mut Cursor<'_>) -> Result<Vec<Expr>> {
    let mut exprs = vec![expr(at)?];
    while at.accept(",") {
        exprs.push(expr(at)?);
    }
    Ok(exprs)
}

pub(super) fn expr(at: &mut Cursor<'_>) -> Result<Expr> {
    let first = simple(at)?;
    if at.accept("|") {
        return Ok(Expr::Or(Box::new(first), Box::new(expr(at)?)));
    }
    Ok(first)
}

fn simple(at: &mut Cursor<'_>) -> Result<Expr> {
    if at.accept("...") {
        return Ok(Expr::Ellipsis);
    }
    if at.accept("[") {
        if at.accept("]") {
            return Ok(Expr::Array(Vec::new()));
        }
        let items = list(at)?;
        at.expect("]")?;
        return Ok(Expr::Array(items));
    }
    if at.accept("{") {
        return fields(at).map(Expr::Struct);
    }
    if at.looking_at("\"") {
        return string(at);
    }
    if at.looking_at_word() {
        return word(at);
    }
    at.number().map(Expr::Int)
}

/// Strings that follow each other are one; `...` behind one means any more.
fn string(at: &mut Cursor<'_>) -> Result<Expr> {
    let mut bytes = Vec::new();
    while at.looking_at("\"") {
        bytes.extend(unescape(&at.quoted('"')?));
    }
    at.accept("...");
    Ok(Expr::Str(bytes))
}

fn word(at: &mut Cursor<'_>) -> Result<Expr> {
    let word = at.word()?;
    if at.accept("(") {
        let args = list(at)?;
        at.expect(")")?;
        return Ok(Expr::Apply(word, args));
    }
    if let Some(value) = at.defined(&word).cloned() {
        return expr(&mut Cursor::new(&value));
    }
    Ok(Expr::Word(word))
}

/// `name=value, msg_name(...)=..., value }`.
fn fields(at: &mut Cursor<'_>) -> Result<Vec<(Option<String>, Expr)>> {
    let mut fields = Vec::new();
    loop {
        let value = expr(at)?;
        let name = match &value {
            Expr::Word(name) | Expr::Apply(name, _) if at.accept("=") => Some(name.clone()),
            _ => None,
        };
        let value = if name.is_some() { expr(at)? } else { value };
        fields.push((name, value));
        if at.accept("}") {
            return Ok(fields);
        }
        at.expect(",")?;
    }
}

/// C's escapes.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'0') => 0,
            Some(b'x') => hex_byte(&mut rest),
            Some(other) => other,
            None => b'\\',
        });
    }
    bytes
}

fn hex_byte(rest: &mut std::str::Bytes<'_>) -> u8 {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    let high = rest.next().map_or(0, digit);
    let low = rest.next().map_or(0, digit);
    high << 4 | low
}
