//! Runs short transactions between two stacks over memory, for whoever counts what one costs: `transactions COUNT [AT A TIME [MESSAGES]]`.

use std::process::ExitCode;

use sim::transactions::Transactions;

/// What is done once is not told apart from what each transaction takes: run it twice with different counts and take the difference.
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let Some(Ok(count)) = arguments.next() else {
        eprintln!("usage: transactions COUNT [AT A TIME [MESSAGES]]");
        return ExitCode::from(2);
    };
    let mut number = |default| match arguments.next() {
        Some(Ok(number)) => u32::try_from(number).unwrap_or(u32::MAX / 4),
        _ => default,
    };
    let (concurrency, messages) = (number(64), number(1));
    match Transactions::new(concurrency, messages)
        .and_then(|mut transactions| transactions.run(count))
    {
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
