//! From text to [`Script`].

mod cursor;
mod expr;
mod packet;

use cursor::{Cursor, Result};

use super::script::{Action, CallSpec, Event, OptionLine, Script, Time};
use super::settings::Settings;

/// Reads a script.
pub(crate) fn parse(text: &str) -> Result<Script> {
    let mut at = Cursor::new(text);
    let mut script = Script::default();
    while at.looking_at("--") {
        script.options.push(option_line(&mut at)?);
    }
    at.define(Settings::symbols(&script.options));
    if at.looking_at("`") {
        script.init = Some(at.quoted('`')?);
    }
    while !at.at_end() {
        // A command without a time may end the script.
        if at.looking_at("`") {
            at.quoted('`')?;
            if !at.at_end() {
                return Err(at.error("an event begins with its time"));
            }
            break;
        }
        script.events.push(event(&mut at)?);
    }
    if script.events.is_empty() {
        return Err(at.error("the script has no event"));
    }
    Ok(script)
}

/// `--name` or `--name=value`; the value goes to the end of the line.
fn option_line(at: &mut Cursor<'_>) -> Result<OptionLine> {
    let line = at.line();
    at.expect("--")?;
    let name = at.word()?;
    let value = if at.accept("=") {
        unquoted(&at.rest_of_line()).to_owned()
    } else {
        String::new()
    };
    Ok(OptionLine { line, name, value })
}

fn unquoted(text: &str) -> &str {
    let inner = text.strip_prefix('"');
    inner
        .and_then(|inner| inner.strip_suffix('"'))
        .unwrap_or(text)
}

fn event(at: &mut Cursor<'_>) -> Result<Event> {
    at.skip();
    let line = at.line();
    let time = time(at)?;
    let end = if at.accept("...") {
        Some(seconds(at)?)
    } else {
        None
    };
    at.skip();
    let start = at.mark();
    let action = action(at, end)?;
    check_time(at, line, time, &action)?;
    Ok(Event {
        line,
        time,
        action,
        text: at.since(start),
    })
}

fn action(at: &mut Cursor<'_>, end: Option<i64>) -> Result<Action> {
    if end.is_none() {
        if at.looking_at("<") || at.looking_at(">") {
            return packet::packet(at).map(Action::Packet);
        }
        if at.looking_at("`") {
            return at.quoted('`').map(Action::Command);
        }
        if at.accept("%{") {
            return at.until("}%").map(Action::Code);
        }
    }
    call(at, end).map(Action::Call)
}

/// Only what the stack sends may be a question of when.
fn check_time(at: &Cursor<'_>, line: usize, time: Time, action: &Action) -> Result<()> {
    let open = matches!(
        time,
        Time::Any | Time::AbsoluteRange(..) | Time::RelativeRange(..)
    );
    let sent = matches!(action, Action::Packet(packet) if packet.is_outbound());
    if open && !sent {
        return Err(at.error_at(
            line,
            "only packets that the stack sends can have an open time",
        ));
    }
    if let (Time::Absolute(from) | Time::Relative(from), Action::Call(call)) = (time, action)
        && call.end.is_some_and(|end| end < from)
    {
        return Err(at.error_at(line, "the call returns before it is made"));
    }
    match time {
        Time::AbsoluteRange(from, to) | Time::RelativeRange(from, to) if to < from => {
            Err(at.error_at(line, "the time range ends before it begins"))
        }
        _ => Ok(()),
    }
}

fn time(at: &mut Cursor<'_>) -> Result<Time> {
    if at.accept("*") {
        return Ok(Time::Any);
    }
    let relative = at.accept("+");
    let from = seconds(at)?;
    if !at.accept("~") {
        return Ok(if relative {
            Time::Relative(from)
        } else {
            Time::Absolute(from)
        });
    }
    if at.accept("+") != relative {
        return Err(at.error("both ends of a time range are relative, or none is"));
    }
    let to = seconds(at)?;
    Ok(if relative {
        Time::RelativeRange(from, to)
    } else {
        Time::AbsoluteRange(from, to)
    })
}

/// A time in seconds, as nanoseconds.
fn seconds(at: &mut Cursor<'_>) -> Result<i64> {
    at.skip();
    let text = at.take_while(|c| c.is_ascii_digit());
    let fraction = if at.looking_at(".") && !at.looking_at("...") {
        at.accept(".");
        at.take_while(|c| c.is_ascii_digit())
    } else {
        String::new()
    };
    if text.is_empty() && fraction.is_empty() {
        return Err(at.error("expected a time"));
    }
    let nanos = format!("{fraction:0<9}");
    let whole = text
        .parse::<i64>()
        .or(if text.is_empty() { Ok(0) } else { Err(()) });
    let part = nanos.get(..9).and_then(|digits| digits.parse::<i64>().ok());
    match (whole, part) {
        (Ok(whole), Some(part)) if whole < 1_000_000_000 => Ok(whole * 1_000_000_000 + part),
        _ => Err(at.error("the time is too large")),
    }
}

/// `name(arguments) = result ERRNO (note)`.
fn call(at: &mut Cursor<'_>, end: Option<i64>) -> Result<CallSpec> {
    let name = at.word()?;
    at.expect("(")?;
    let args = if at.accept(")") {
        Vec::new()
    } else {
        let args = expr::list(at)?;
        at.expect(")")?;
        args
    };
    at.expect("=")?;
    let result = expr::expr(at)?;
    let errno = if at.word_on_line() {
        Some(at.word()?)
    } else {
        None
    };
    while at.accept("(") {
        at.until(")")?;
    }
    Ok(CallSpec {
        name,
        end,
        args,
        result,
        errno,
    })
}
