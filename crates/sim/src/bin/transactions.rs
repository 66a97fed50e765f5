//! Runs short transactions between two stacks over memory, for whoever counts what one costs: `transactions COUNT [AT A TIME]`.

use std::process::ExitCode;

use sim::transactions::Transactions;

/// Transactions before those that count are not told apart: run it twice with different counts and take the difference.
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (Some(Ok(count)), concurrency) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: transactions COUNT [AT A TIME]");
        return ExitCode::from(2);
    };
    let concurrency = concurrency.and_then(Result::ok).unwrap_or(64);
    let concurrency = u32::try_from(concurrency).unwrap_or(u32::MAX / 4);
    match Transactions::new(concurrency).and_then(|mut transactions| transactions.run(count)) {
        Ok(turns) => {
            println!("{count} transactions in {turns} turns");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("transactions: {error}");
            ExitCode::FAILURE
        }
    }
}
