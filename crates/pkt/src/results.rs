//! Whether a call returned what its line says.

use super::args::{Scope, field, int, polled, watch};
use super::script::{CallSpec, Expr};
use crate::call::{Outcome, Reply, Watch};
use crate::constants::{by_name, errno_name};

type Result<T> = std::result::Result<T, String>;

/// Calls that return a new descriptor.
const OPENERS: &[&str] = &[
    "socket",
    "accept",
    "accept4",
    "epoll_create",
    "epoll_create1",
];

/// Compares, and learns the names of new descriptors.
pub(super) fn check(scope: &mut Scope, call: &CallSpec, outcome: &Outcome) -> Result<()> {
    let expected = match &call.result {
        Expr::Ellipsis => None,
        result => Some(int(result)?),
    };
    match (outcome, expected) {
        (Err(error), None) => Err(format!("failed with {}", errno_name(error.0))),
        (Err(_), Some(-1)) if scope.any_error && call.errno.is_none() => Ok(()),
        (Err(error), Some(-1)) => check_errno(call, error.0, errno_name(error.0)),
        (Err(error), Some(value)) => Err(format!(
            "expected result {value} but got -1 with errno {}",
            errno_name(error.0)
        )),
        (Ok(reply), Some(-1)) => {
            let name = call.errno.as_deref().unwrap_or("an error");
            Err(format!("expected -1 {name} but got result {}", reply.value))
        }
        (Ok(reply), expected) => {
            if OPENERS.contains(&call.name.as_str()) {
                let script = expected.unwrap_or(reply.value);
                scope.fds.insert(script, reply.value as i32);
            } else if let Some(value) = expected.filter(|value| *value != reply.value) {
                return Err(format!("expected result {value} but got {}", reply.value));
            }
            check_output(scope, call, reply)
        }
    }
}

fn check_errno(call: &CallSpec, actual: i32, name: &str) -> Result<()> {
    let Some(expected) = &call.errno else {
        return Err(format!("the line does not say which error; it is {name}"));
    };
    match by_name(expected) {
        None => Err(format!("unknown errno '{expected}'")),
        Some(number) if number == actual => Ok(()),
        Some(_) => Err(format!("expected errno {expected} but got {name}")),
    }
}

/// What a call leaves in its arguments.
fn check_output(scope: &mut Scope, call: &CallSpec, reply: &Reply) -> Result<()> {
    match (call.name.as_str(), &call.args[..]) {
        ("pipe", [Expr::Array(ends)]) => {
            if let ([reader, writer], Some(live)) = (&ends[..], reply.pipe) {
                scope.fds.insert(int(reader)?, live.0);
                scope.fds.insert(int(writer)?, live.1);
            }
            Ok(())
        }
        ("read", [_, data, _]) | ("recv", [_, data, _, _]) => check_data(data, &reply.data),
        ("getsockopt", [_, _, _, value, len]) => check_option(value, len, &reply.data),
        ("ioctl", [_, _, number]) => match number {
            Expr::Array(_) if int(number)? != i64::from(reply.number) => Err(format!(
                "expected {} in the argument but got {}",
                int(number)?,
                reply.number
            )),
            _ => Ok(()),
        },
        ("poll", [Expr::Array(fds), _, _]) => check_polled(scope, fds, reply),
        ("epoll_wait", [_, events, _, _]) => check_events(events, &reply.events),
        _ => Ok(()),
    }
}

fn check_data(expected: &Expr, actual: &[u8]) -> Result<()> {
    match expected {
        Expr::Str(bytes) if bytes.as_slice() != actual => Err(format!(
            "expected \"{}\" but read \"{}\"",
            bytes.escape_ascii(),
            actual.escape_ascii()
        )),
        _ => Ok(()),
    }
}

fn words(bytes: &[u8], size: usize) -> Vec<i64> {
    let words = bytes.chunks_exact(size);
    words
        .map(|word| match size {
            8 => word
                .first_chunk()
                .map_or(0, |word| i64::from_le_bytes(*word)),
            _ => word
                .first_chunk()
                .map_or(0, |word| i32::from_le_bytes(*word).into()),
        })
        .collect()
}

fn check_option(value: &Expr, len: &Expr, actual: &[u8]) -> Result<()> {
    if matches!(len, Expr::Array(_)) && matches!(value, Expr::Array(_) | Expr::Struct(_)) {
        let expected = int(len)?;
        if expected != actual.len() as i64 {
            return Err(format!(
                "expected an option of {expected} bytes but got {}",
                actual.len()
            ));
        }
    }
    let numbers: Vec<i64> = match value {
        Expr::Str(name) => {
            return check_data(&Expr::Str(name.clone()), trimmed(actual));
        }
        Expr::Array(items) => items.iter().map(int).collect::<Result<_>>()?,
        Expr::Struct(fields) => {
            let numbers = fields.iter().map(|(_, value)| int(value));
            numbers.collect::<Result<_>>()?
        }
        _ => return Ok(()),
    };
    let wide = matches!(value, Expr::Struct(fields) if field(fields, "tv_sec").is_some());
    let actual = words(actual, if wide { 8 } else { 4 });
    // A word is a word, whatever its sign.
    let same = |(a, b): (&i64, &i64)| a == b || (!wide && *a as u32 == *b as u32);
    if numbers.len() == actual.len() && numbers.iter().zip(&actual).all(same) {
        return Ok(());
    }
    Err(format!("expected option {numbers:?} but got {actual:?}"))
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default()
}

fn check_polled(scope: &Scope, fds: &[Expr], reply: &Reply) -> Result<()> {
    for (expr, actual) in fds.iter().zip(&reply.polled) {
        let expected = polled(scope, expr)?;
        if expected.revents != actual.revents {
            return Err(format!(
                "expected revents {:#x} but got {:#x}",
                expected.revents, actual.revents
            ));
        }
    }
    Ok(())
}

fn check_events(expected: &Expr, actual: &[Watch]) -> Result<()> {
    let expected: Vec<Watch> = match expected {
        Expr::Array(items) => items.iter().map(watch).collect::<Result<_>>()?,
        Expr::Struct(_) => vec![watch(expected)?],
        _ => return Ok(()),
    };
    for (expected, actual) in expected.iter().zip(actual) {
        if expected != actual {
            return Err(format!(
                "expected event {:#x} of {} but got {:#x} of {}",
                expected.events, expected.data, actual.events, actual.data
            ));
        }
    }
    Ok(())
}
