//! Runs short transactions between two stacks over memory, for whoever counts what one costs:
//! `transactions COUNT [AT A TIME [MESSAGES [STACKS]]]`.

use std::process::ExitCode;

use sim::transactions::side_by_side;

/// What is done once is not told apart from what each transaction takes: run it twice with
/// different counts and take the difference.
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let Some(Ok(count)) = arguments.next() else {
        eprintln!("usage: transactions COUNT [AT A TIME [MESSAGES [STACKS]]]");
        return ExitCode::from(2);
    };
    let mut number = |default| match arguments.next() {
        Some(Ok(number)) => u32::try_from(number).unwrap_or(u32::MAX / 4),
        _ => default,
    };
    let (concurrency, messages, stacks) = (number(64), number(1), number(1));
    let stacks = u8::try_from(stacks.max(1)).unwrap_or(u8::MAX);
    match side_by_side(stacks, concurrency, messages, count) {
        Ok(done) => {
            println!("{done} transactions");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("transactions: {error}");
            ExitCode::FAILURE
        }
    }
}
