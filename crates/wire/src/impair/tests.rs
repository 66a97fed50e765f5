use proptest::prelude::*;

use super::*;

fn spec(text: &str) -> Impairments {
    text.parse().unwrap()
}

#[test]
fn a_spec_is_read() {
    let expected = Impairments {
        loss_ppm: 10_000,
        reorder_ppm: 5_000,
        duplicate_ppm: 100,
        corrupt_ppm: 1_000_000,
        delay: Duration::from_millis(5),
        jitter: Duration::from_micros(1500),
        seed: 7,
    };
    let text = "loss=1%, reorder=0.5%,dup=0.01%,corrupt=100%,delay=5ms,jitter=1.5ms,seed=7";
    assert_eq!(spec(text), expected);
    assert!(spec("").is_none() && spec("none").is_none() && spec("seed=9").is_none());
    assert_eq!(spec("delay=1s").delay, Duration::from_secs(1));
    assert_eq!(spec("delay=300us").delay, Duration::from_micros(300));
}

#[test]
fn bad_specs_are_refused_in_one_line() {
    for (text, said) in [
        ("loss", "KEY=VALUE"),
        ("loss=1%,", "KEY=VALUE"),
        ("loss=1", "percentage"),
        ("loss=101%", "percentage"),
        ("loss=-1%", "percentage"),
        ("loss=inf%", "percentage"),
        ("loss=1.2.3%", "percentage"),
        ("loss=%", "percentage"),
        ("delay=5", "unit"),
        ("delay=ms", "unit"),
        ("delay=5m", "unit"),
        ("delay=61s", "60s"),
        ("jitter=1e3ms", "unit"),
        ("seed=x", "seed"),
        ("lag=5ms", "known are"),
        ("loss=1%\n", ""),
    ] {
        match text.parse::<Impairments>() {
            Ok(_) => assert!(said.is_empty(), "{text:?} was taken"),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(said) && !error.contains('\n'), "{error}");
            }
        }
    }
}

/// Share of frames, in percent, for which `what` holds.
fn share(text: &str, what: impl Fn(&Verdict) -> bool) -> f64 {
    let mut impairer = Impairer::new(spec(text), 1);
    let frames = 100_000;
    let hits = (0..frames).filter(|_| what(&impairer.decide(100))).count();
    hits as f64 * 100.0 / f64::from(frames)
}

#[test]
fn rates_are_what_the_spec_says() {
    let near = |share: f64, percent: f64| (share - percent).abs() < 0.3;
    assert!(near(share("loss=3%", |v| v.drop && v.copies == 0), 3.0));
    assert!(near(share("dup=3%", |v| v.copies == 2), 3.0));
    assert!(near(share("corrupt=3%", |v| v.corrupt.is_some()), 3.0));
    assert!(near(share("reorder=3%", |v| v.delay >= REORDER_MIN), 3.0));
    assert_eq!(share("loss=100%", |v| v.drop), 100.0);
    assert_eq!(
        share("none", |v| v.copies != 1 || v.delay > Duration::ZERO),
        0.0
    );
}

#[test]
fn delays_stay_in_their_bounds() {
    let ms = Duration::from_millis;
    let mut plain = Impairer::new(spec("delay=5ms,jitter=2ms"), 3);
    let mut reorder = Impairer::new(spec("delay=5ms,reorder=100%"), 3);
    let mut spread = (ms(100), ms(0));
    for _ in 0..1000 {
        let delay = plain.decide(60).delay;
        assert!((ms(5)..=ms(7)).contains(&delay));
        spread = (spread.0.min(delay), spread.1.max(delay));
        let delay = reorder.decide(60).delay;
        assert!((ms(5) + REORDER_MIN..=ms(10)).contains(&delay));
    }
    assert!(spread.1 - spread.0 > ms(1));
}

#[test]
fn the_seeds_decide() {
    let bad = "loss=10%,dup=10%,corrupt=10%,jitter=1ms,reorder=10%";
    let run = |text: &str, seed| -> Vec<Verdict> {
        let mut impairer = Impairer::new(spec(text), seed);
        (0..200).map(|_| impairer.decide(1500)).collect()
    };
    assert_eq!(run(bad, 1), run(bad, 1));
    assert_ne!(run(bad, 1), run(bad, 2));
    assert_ne!(run(bad, 1), run(&format!("{bad},seed=1"), 1));
}

proptest! {
    #[test]
    fn corruption_changes_a_byte_that_is_there(seed in any::<u64>(), len in 0usize..2000) {
        let corrupt = Impairer::new(spec("corrupt=100%"), seed).decide(len).corrupt;
        match corrupt {
            Some((index, mask)) => prop_assert!(index < len && mask != 0),
            None => prop_assert_eq!(len, 0),
        }
    }

    #[test]
    fn display_then_parse_gives_the_same_spec(
        rates in proptest::array::uniform4(0u32..=1_000_000),
        (delay, jitter) in (0u64..60_000_000, 0u64..60_000_000),
        seed in any::<u64>(),
    ) {
        let [loss_ppm, duplicate_ppm, reorder_ppm, corrupt_ppm] = rates;
        let spec = Impairments {
            loss_ppm, duplicate_ppm, reorder_ppm, corrupt_ppm,
            delay: Duration::from_micros(delay),
            jitter: Duration::from_micros(jitter),
            seed,
        };
        let text = spec.to_string();
        let read = text.parse::<Impairments>();
        prop_assert_eq!(read, Ok(spec), "{}", text);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "[a-z=%,.0-9 ]{0,40}") {
        let _ = text.parse::<Impairments>();
    }
}
