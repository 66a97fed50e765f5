//! `%{ assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd }%`: the small part of Python that scripts need.

use std::collections::HashMap;

/// A value; true and false are 1 and 0.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Value {
    Int(i64),
    Text(String),
}

type Result<T> = std::result::Result<T, String>;

/// Runs the code; `lookup` knows the names of the world.
pub(super) fn run(code: &str, lookup: &dyn Fn(&str) -> Option<i64>) -> Result<()> {
    let mut locals = HashMap::new();
    for statement in code.replace("\\\n", " ").split(['\n', ';']) {
        let statement = without_comment(statement).trim();
        if !statement.is_empty() {
            self::statement(statement, lookup, &mut locals)?;
        }
    }
    Ok(())
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') => return line.get(..at).unwrap_or_default(),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    line
}

fn statement(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<i64>,
    locals: &mut HashMap<String, Value>,
) -> Result<()> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens: &tokens,
        lookup,
        locals,
    };
    if parser.accept("assert") {
        let value = parser.test()?;
        let message = if parser.accept(",") {
            parser.message()
        } else {
            String::new()
        };
        if truth(&value) {
            return Ok(());
        }
        let facts = parser.facts(&tokens);
        return Err(format!("assertion failed: {text}{message}{facts}"));
    }
    if parser.accept("print") {
        return Ok(());
    }
    if let [Token::Name(name), Token::Op("="), rest @ ..] = &tokens[..] {
        parser.tokens = rest;
        let value = parser.test()?;
        parser.end()?;
        locals.insert(name.clone(), value);
        return Ok(());
    }
    parser.test()?;
    parser.end()
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Int(i64),
    Text(String),
    Name(String),
    Op(&'static str),
}

/// Longer ones first.
const OPERATORS: &[&str] = &[
    "//", "==", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "&", "|", "^", "~", "<",
    ">", "(", ")", ",", "=",
];

fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, len) = if first.is_ascii_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.'));
            let len = end.unwrap_or(rest.len());
            (word(rest.get(..len).unwrap_or_default())?, len)
        } else if first == '"' || first == '\'' {
            let inner = rest.get(1..).unwrap_or_default();
            let end = inner.find(first).ok_or("unclosed string")?;
            let text = inner.get(..end).unwrap_or_default();
            (Token::Text(text.to_owned()), end + 2)
        } else {
            let known = OPERATORS
                .iter()
                .find(|operator| rest.starts_with(**operator));
            let operator = known.ok_or_else(|| format!("cannot read '{rest}'"))?;
            (Token::Op(operator), operator.len())
        };
        tokens.push(token);
        rest = rest.get(len..).unwrap_or_default().trim_start();
    }
    Ok(tokens)
}

fn word(text: &str) -> Result<Token> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(Token::Name(text.to_owned()));
    }
    let value = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    value
        .map(Token::Int)
        .ok_or_else(|| format!("bad number '{text}'"))
}

fn truth(value: &Value) -> bool {
    match value {
        Value::Int(number) => *number != 0,
        Value::Text(text) => !text.is_empty(),
    }
}

struct Parser<'a> {
    tokens: &'a [Token],
    lookup: &'a dyn Fn(&str) -> Option<i64>,
    locals: &'a HashMap<String, Value>,
}

/// Binary operators by how tightly they bind, loosest first.
const LEVELS: &[&[&str]] = &[
    &["|"],
    &["^"],
    &["&"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "//", "/", "%"],
];

impl Parser<'_> {
    fn accept(&mut self, what: &str) -> bool {
        let found = match self.tokens.first() {
            Some(Token::Op(operator)) => *operator == what,
            Some(Token::Name(name)) => name == what,
            _ => false,
        };
        if found {
            self.tokens = self.tokens.get(1..).unwrap_or_default();
        }
        found
    }

    fn end(&self) -> Result<()> {
        match self.tokens.first() {
            None => Ok(()),
            Some(token) => Err(format!("cannot read the code from {token:?} on")),
        }
    }

    /// The message of an assertion; it is only for people.
    fn message(&mut self) -> String {
        match self.test() {
            Ok(Value::Int(number)) => format!(" ({number})"),
            Ok(Value::Text(text)) => format!(" ({text})"),
            Err(_) => String::new(),
        }
    }

    /// The values of the names in an assertion.
    fn facts(&self, tokens: &[Token]) -> String {
        let mut facts = String::new();
        for token in tokens {
            if let Token::Name(name) = token
                && name.starts_with("tcpi_")
                && let Some(value) = (self.lookup)(name)
                && !facts.contains(name.as_str())
            {
                facts.push_str(&format!("; {name} is {value}"));
            }
        }
        facts
    }

    /// `or`, loosest of all.
    fn test(&mut self) -> Result<Value> {
        let mut value = self.conjunction()?;
        while self.accept("or") {
            let right = self.conjunction()?;
            value = if truth(&value) { value } else { right };
        }
        Ok(value)
    }

    fn conjunction(&mut self) -> Result<Value> {
        let mut value = self.negation()?;
        while self.accept("and") {
            let right = self.negation()?;
            value = if truth(&value) { right } else { value };
        }
        Ok(value)
    }

    fn negation(&mut self) -> Result<Value> {
        if self.accept("not") {
            let value = self.negation()?;
            return Ok(Value::Int((!truth(&value)).into()));
        }
        self.comparison()
    }

    /// Comparisons chain: `1 < x <= 5`.
    fn comparison(&mut self) -> Result<Value> {
        let mut left = self.binary(0)?;
        let mut holds = None;
        loop {
            let known = ["==", "!=", "<=", ">=", "<", ">"];
            let Some(operator) = known.into_iter().find(|operator| self.accept(operator)) else {
                break;
            };
            let right = self.binary(0)?;
            let so = match operator {
                "==" => left == right,
                "!=" => left != right,
                "<=" => left <= right,
                ">=" => left >= right,
                "<" => left < right,
                _ => left > right,
            };
            holds = Some(holds.unwrap_or(true) && so);
            left = right;
        }
        Ok(holds.map_or(left, |holds| Value::Int(holds.into())))
    }

    fn binary(&mut self, level: usize) -> Result<Value> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut value = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.accept(operator)) {
            let right = self.binary(level + 1)?;
            value = apply(operator, &value, &right)?;
        }
        Ok(value)
    }

    fn unary(&mut self) -> Result<Value> {
        if self.accept("-") {
            return match self.unary()? {
                Value::Int(number) => Ok(Value::Int(-number)),
                Value::Text(_) => Err("a text has no negative".to_owned()),
            };
        }
        if self.accept("~") {
            return match self.unary()? {
                Value::Int(number) => Ok(Value::Int(!number)),
                Value::Text(_) => Err("a text has no bits".to_owned()),
            };
        }
        self.atom()
    }

    fn atom(&mut self) -> Result<Value> {
        if self.accept("(") {
            let value = self.test()?;
            return if self.accept(")") {
                Ok(value)
            } else {
                Err("expected ')'".to_owned())
            };
        }
        let Some((token, rest)) = self.tokens.split_first() else {
            return Err("the code ends too early".to_owned());
        };
        self.tokens = rest;
        match token {
            Token::Int(number) => Ok(Value::Int(*number)),
            Token::Text(text) => Ok(Value::Text(text.clone())),
            Token::Name(name) => self.name(name),
            Token::Op(operator) => Err(format!("unexpected '{operator}'")),
        }
    }

    fn name(&mut self, name: &str) -> Result<Value> {
        if matches!(name, "abs" | "min" | "max") && self.accept("(") {
            return self.function(name);
        }
        if let Some(value) = self.locals.get(name) {
            return Ok(value.clone());
        }
        match name {
            "True" => return Ok(Value::Int(1)),
            "False" => return Ok(Value::Int(0)),
            _ => {}
        }
        (self.lookup)(name)
            .map(Value::Int)
            .ok_or_else(|| format!("unknown name '{name}'"))
    }

    fn function(&mut self, name: &str) -> Result<Value> {
        let mut numbers = Vec::new();
        loop {
            match self.test()? {
                Value::Int(number) => numbers.push(number),
                Value::Text(_) => return Err(format!("{name}() takes numbers")),
            }
            if self.accept(")") {
                break;
            }
            if !self.accept(",") {
                return Err("expected ')'".to_owned());
            }
        }
        let value = match name {
            "abs" => numbers.first().map(|number| number.abs()),
            "min" => numbers.iter().min().copied(),
            _ => numbers.iter().max().copied(),
        };
        value
            .map(Value::Int)
            .ok_or_else(|| format!("{name}() of nothing"))
    }
}

fn apply(operator: &str, left: &Value, right: &Value) -> Result<Value> {
    let (a, b) = match (left, right) {
        (Value::Int(a), Value::Int(b)) => (*a, *b),
        // Formatting is for messages.
        (Value::Text(text), value) if operator == "%" => {
            return Ok(Value::Text(format!("{text} {value:?}")));
        }
        _ => return Err(format!("'{operator}' takes numbers")),
    };
    let result = match operator {
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "&" => Some(a & b),
        "<<" => u32::try_from(b).ok().and_then(|b| a.checked_shl(b)),
        ">>" => u32::try_from(b).ok().and_then(|b| a.checked_shr(b)),
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "%" => a.checked_rem_euclid(b),
        _ => a.checked_div_euclid(b),
    };
    result
        .map(Value::Int)
        .ok_or_else(|| format!("{a} {operator} {b} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: &str) -> Result<()> {
        let names = |name: &str| match name {
            "tcpi_snd_cwnd" => Some(10),
            "tcpi_rto" => Some(200_000),
            _ => None,
        };
        run(code, &names)
    }

    #[test]
    fn what_holds_passes() {
        for code in [
            "assert tcpi_snd_cwnd == 10",
            "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd",
            "assert tcpi_snd_cwnd == 10, 'cwnd=%d' % tcpi_snd_cwnd",
            "assert 5 < tcpi_snd_cwnd <= 10 and not tcpi_rto < 1000 # all of it",
            "assert (tcpi_snd_cwnd & 2) != 0 or False",
            "x = tcpi_rto // 1000\nassert x == 200; assert abs(-x) == max(1, 200)",
            "print(tcpi_snd_cwnd)",
            "assert 2 + 3 * 4 == 14 and -7 // 2 == -4 and ~0 == -1",
        ] {
            assert_eq!(check(code), Ok(()), "{code}");
        }
    }

    #[test]
    fn what_does_not_hold_says_why() {
        let error = check("assert tcpi_snd_cwnd == 11, 'why'").unwrap_err();
        assert!(
            error.contains("tcpi_snd_cwnd is 10") && error.contains("(why)"),
            "{error}"
        );
        assert!(
            check("assert tcpi_unheard == 1")
                .unwrap_err()
                .contains("unknown name")
        );
        assert!(check("assert 1 +").is_err() && check("assert (1").is_err());
        assert!(check("1 / 0").is_err() && check("assert 1 $ 2").is_err());
    }
}
