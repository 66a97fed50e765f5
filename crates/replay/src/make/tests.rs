use super::*;
use crate::statistics::{Statistics, Summary};

fn measured(wanted: Wanted) -> Summary {
    let mut statistics = Statistics::new();
    for transaction in Maker::new(wanted).unwrap() {
        transaction.check().unwrap();
        statistics.add(&transaction);
    }
    statistics.summary()
}

/// Within 2% of what was asked for.
fn near(what: &str, found: f64, wanted: f64) {
    assert!(
        (found / wanted - 1.0).abs() <= 0.02,
        "{what}: {found}, not {wanted}"
    );
}

fn check_all(wanted: Wanted) {
    let found = measured(wanted);
    assert_eq!(found.requests, wanted.requests);
    near("seconds", found.seconds, wanted.seconds);
    near("median", found.median_bytes, wanted.median_bytes);
    near("mean", found.mean_bytes, wanted.mean_bytes);
    near("redundancy", found.redundancy, wanted.redundancy);
    near("concurrency", found.concurrency, wanted.concurrency);
    let per_connection = found.requests as f64 / found.connections as f64;
    near("per connection", per_connection, wanted.per_connection);
    let variation = match wanted.arrivals {
        Arrivals::Poisson => 0.95..1.05,
        Arrivals::Uniform => 0.0..0.05,
    };
    assert!(
        variation.contains(&found.arrival_variation),
        "{}",
        found.arrival_variation
    );
    assert!(found.largest_bytes <= wanted.largest_bytes + wanted.largest_bytes / 500);
}

#[test]
fn a_log_has_the_statistics_that_were_asked_for() {
    for seed in [1, 7] {
        check_all(Wanted {
            requests: 50_000,
            concurrency: 500.0,
            seed,
            ..Wanted::default()
        });
    }
    check_all(Wanted {
        requests: 10_000,
        seconds: 3.0,
        median_bytes: 9_000.0,
        mean_bytes: 20_000.0,
        arrivals: Arrivals::Uniform,
        redundancy: 0.2,
        concurrency: 20.0,
        per_connection: 5.0,
        ..Wanted::default()
    });
    check_all(Wanted {
        requests: 20_000,
        seconds: 10.0,
        median_bytes: 300.0,
        mean_bytes: 300.0,
        redundancy: 0.9,
        concurrency: 3.0,
        per_connection: 1.0,
        ..Wanted::default()
    });
}

#[test]
fn a_seed_makes_one_log_and_another_seed_another() {
    let made = |seed| {
        let wanted = Wanted {
            requests: 500,
            seed,
            ..Wanted::default()
        };
        Maker::new(wanted).unwrap().collect::<Vec<_>>()
    };
    assert_eq!(made(7), made(7));
    assert_ne!(made(7), made(8));
}

#[test]
fn transactions_of_a_connection_follow_each_other() {
    let wanted = Wanted {
        requests: 5_000,
        concurrency: 50.0,
        per_connection: 4.0,
        ..Wanted::default()
    };
    let mut free = std::collections::HashMap::new();
    for transaction in Maker::new(wanted).unwrap() {
        if let Some((end_us, kept, client)) = free.get(&transaction.connection) {
            assert!(*end_us <= transaction.start_us && *kept);
            assert_eq!(*client, transaction.client);
        }
        let state = (
            transaction.end_us,
            transaction.keep_alive,
            transaction.client,
        );
        free.insert(transaction.connection, state);
    }
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn what_cannot_be_is_refused() {
    let refused = |wanted| Maker::new(wanted).unwrap_err().0;
    let usual = Wanted::default();
    for (wanted, says) in [
        (
            Wanted {
                requests: 1,
                ..usual
            },
            "fewer than 2",
        ),
        (
            Wanted {
                seconds: f64::NAN,
                ..usual
            },
            "NaN seconds",
        ),
        (
            Wanted {
                mean_bytes: 100.0,
                ..usual
            },
            "median 1700, mean 100",
        ),
        (
            Wanted {
                redundancy: 1.0,
                ..usual
            },
            "redundancy of 1",
        ),
        (
            Wanted {
                concurrency: -1.0,
                ..usual
            },
            "concurrency of -1",
        ),
        (
            Wanted {
                per_connection: 0.5,
                ..usual
            },
            "0.5 transactions",
        ),
        (
            Wanted {
                largest_bytes: 1 << 40,
                ..usual
            },
            "responses of 1099511627776",
        ),
        (
            Wanted {
                requests: 3,
                mean_bytes: 40e6,
                concurrency: 1.0,
                ..usual
            },
            "3 responses with a median of 1700 and a mean of 40000000",
        ),
    ] {
        let cause = refused(wanted);
        assert!(cause.contains(says), "{cause}");
    }
}
