//! `mtcp bench`: one short run of each kind over shared memory, and what programs read of it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::run;
use serde_json::Value;

/// One pair of `what`, unless `more` says otherwise; the object it printed.
fn bench(what: &str, more: &[&str]) -> Value {
    let mut arguments = vec!["bench", what, "--json"];
    for default in [["--pairs", "1"], ["--seconds", "0.1"]] {
        if !more.contains(&default[0]) {
            arguments.extend(default);
        }
    }
    arguments.extend_from_slice(more);
    let output = run(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("'{text}' '{complaint}'"));
    assert!(output.status.success(), "{value}");
    value
}

/// Whether this machine can run it at all.
fn two_processors() -> bool {
    std::thread::available_parallelism().is_ok_and(|count| count.get() >= 2)
}

/// Every side has a positive number under each of `keys`.
fn check(value: &Value, sides: &[&str], keys: &[&str]) {
    for side in sides {
        for key in keys {
            let number = value[*side][*key].as_f64();
            assert!(
                number.is_some_and(|number| number > 0.0),
                "{side} {key}: {value}"
            );
        }
    }
}

#[test]
fn short_has_both_sides_their_ratio_and_the_spread() {
    if !two_processors() {
        return;
    }
    let value = bench("short", &["--pairs", "2", "--concurrency", "50"]);
    let keys = ["connections_per_s", "server_cpu_ns_per_connection"];
    check(&value, &["kernel", "mtcp", "kernel_tuned"], &keys);
    for side in ["kernel", "mtcp", "kernel_tuned"] {
        for key in keys {
            let (side, median) = (&value[side], value[side][key].as_f64().unwrap());
            let (low, high) = (&side["spread"][key]["min"], &side["spread"][key]["max"]);
            assert!(low.as_f64().unwrap() <= median && median <= high.as_f64().unwrap());
            assert_eq!(side["runs"][key].as_array().unwrap().len(), 2);
        }
    }
    for ratio in ["ratio", "ratio_tuned"] {
        assert!(value[ratio].as_f64().unwrap() > 0.0, "{value}");
    }
    assert_eq!(value["ratio"], value["ratios"]["connections_per_s"]);
    assert!(value["noise"]["quiet"].is_boolean());
    assert_eq!(value["cases"][0]["concurrency"], 50);
    assert_eq!(value["pairs"], 2);
}

#[test]
fn every_combination_of_messages_and_sizes_is_a_case() {
    if !two_processors() {
        return;
    }
    let value = bench(
        "short",
        &[
            "--messages",
            "1,8",
            "--size",
            "8192",
            "--concurrency",
            "2",
            "--mode",
            "paired",
            // Time for connections to end on a machine that is busy with other things.
            "--seconds",
            "1",
        ],
    );
    let cases = value["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for (case, messages) in cases.iter().zip([1.0, 8.0]) {
        // Paired mode stands beside inline, as beside the kernel.
        check(
            case,
            &["kernel", "mtcp", "mtcp_inline", "kernel_tuned"],
            &["connections_per_s", "messages_per_s"],
        );
        check(case, &["ratios_inline"], &["connections_per_s"]);
        let side = &case["mtcp"];
        let per_connection =
            side["messages_per_s"].as_f64().unwrap() / side["connections_per_s"].as_f64().unwrap();
        // Those that the ends of the window cut count in part.
        let range = messages / 2.0..messages * 2.0;
        assert!(range.contains(&per_connection), "{case}");
        assert_eq!(case["size"], 8192);
    }
}

/// Daemon and server are two processes: beside inline, on one processor and on two.
#[test]
fn service_mode_stands_beside_inline() {
    if !two_processors() {
        return;
    }
    let one = ["--mode", "service", "--concurrency", "20"];
    let value = bench("short", &one);
    let sides = ["kernel", "mtcp", "mtcp_inline", "kernel_tuned"];
    let keys = [
        "connections_per_s",
        "server_cpu_ns_per_connection",
        "server_process_ns_per_connection",
    ];
    check(&value, &sides, &keys);
    check(&value, &["ratios_inline"], &["connections_per_s"]);
    assert_eq!(value["mode"], "service");
    let cores = &value["cores"];
    assert_eq!(cores["daemon"], cores["server"], "{cores}");
    let two = ["--mode", "service", "--cores", "0,1,1"];
    let value = bench("bulk", &[&two[..], &["--concurrency", "4"]].concat());
    check(&value, &["kernel", "mtcp"], &["gbit_per_s"]);
    assert_eq!(value["cores"]["daemon"], 1);
    let cpu = ["--messages", "4", "--seconds", "1"];
    let value = bench("cpu", &[&one[..], &cpu].concat());
    check(&value, &sides, &["server_cpu_ns_per_message"]);
    let few = ["--rate", "500", "--responses", "3000"];
    let value = bench("latency", &[&one[..], &few].concat());
    for case in value["cases"].as_array().unwrap() {
        check(case, &["kernel", "mtcp"], &["p50_us", "max_us"]);
    }
}

/// A server that resets at once may never have all connections open, which the client waits 20
/// seconds for at most.
#[test]
fn the_window_of_resets_does_not_wait_for_all_to_be_open() {
    if !two_processors() {
        return;
    }
    let began = Instant::now();
    bench("reset", &["--concurrency", "1000"]);
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[test]
fn every_other_kind_has_its_figures() {
    if !two_processors() {
        return;
    }
    let sides = ["kernel", "mtcp"];
    let value = bench("reset", &["--concurrency", "20"]);
    check(&value, &sides, &["connections_per_s"]);
    let value = bench("bulk", &["--concurrency", "4"]);
    check(&value, &sides, &["gbit_per_s", "server_cpu_ns_per_kb"]);
    let value = bench("fairness", &["--concurrency", "20"]);
    check(&value, &sides, &["jain_index"]);
    assert!(value["mtcp"]["jain_index"].as_f64().unwrap() <= 1.0);
    // Long enough for all messages of some connections.
    let cpu = ["--concurrency", "20", "--messages", "4", "--seconds", "1"];
    let value = bench("cpu", &cpu);
    check(&value, &sides, &["server_cpu_ns_per_message"]);
    let loops = [
        "--concurrency",
        "20",
        "--rate",
        "500",
        "--responses",
        "3000",
    ];
    let value = bench("latency", &loops);
    let cases = value["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 5);
    for case in cases {
        check(case, &sides, &["p50_us", "p99_us", "max_us", "mean_us"]);
    }
    let as_many = &cases[4];
    assert_eq!(as_many["responses"], 3000);
    for side in sides {
        // Those of the turn in which it was enough count, too.
        let responses = as_many[side]["responses"].as_f64().unwrap();
        assert!((3000.0..3100.0).contains(&responses), "{as_many}");
    }
}

#[test]
fn a_client_that_waits_for_responses_says_when_they_do_not_come() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = silent.local_addr().unwrap().to_string();
    let client = ["bench-client", "--io", "kernel", "--warm", "0.001"];
    let output = run(&[
        &client[..],
        &["--seconds", "0.1", "--responses", "5", &target],
    ]
    .concat());
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(complaint.contains("only 0 of 5"), "{complaint}");
}

#[test]
fn memory_says_what_a_connection_costs_and_that_it_still_answers() {
    if !two_processors() {
        return;
    }
    let value = bench("memory", &["--concurrency", "4000"]);
    let [idle, closed] = &value["cases"].as_array().unwrap()[..] else {
        panic!("{value}");
    };
    check(
        idle,
        &["kernel", "mtcp"],
        &["bytes_per_connection", "startup_mb"],
    );
    assert_eq!(idle["mtcp"]["answered_percent"], 100.0);
    assert_eq!(idle["kernel"]["answered_percent"], 100.0);
    assert_eq!(closed["state"], "time_wait");
}

/// Root only, as AF_XDP and TAP are; elsewhere it says so.
#[test]
fn links_between_namespaces_are_made_measured_and_removed() {
    // Others may be running the same; what is left of us has the name of a process that is gone.
    let left = || {
        let entries = std::fs::read_dir("/run/netns").into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        let pids = names.filter_map(|name| {
            let rest = name.strip_prefix("mtcp-bench-")?;
            rest.split('-').next().map(str::to_owned)
        });
        pids.filter(|pid| !Path::new("/proc").join(pid).exists())
            .count()
    };
    if !two_processors() {
        return;
    }
    for (what, link, client, steer) in [
        ("short", "afxdp", "kernel", false),
        ("short", "afxdp", "kernel", true),
        ("short", "afxdp", "mtcp", false),
        ("short", "tap", "kernel", false),
        ("bulk", "afxdp", "kernel", false),
    ] {
        let mut arguments = vec!["--link", link, "--client", client, "--concurrency", "10"];
        arguments.extend(steer.then_some("--steer"));
        if !rustix::process::geteuid().is_root() {
            let output = run(&["bench", what, "--link", link, "--client", client]);
            assert_eq!(output.status.code(), Some(2));
            continue;
        }
        let value = bench(what, &arguments);
        assert_eq!(
            (&value["link"], &value["client"], &value["steer"]),
            (&link.into(), &client.into(), &steer.into())
        );
        assert!(value["ratio"].as_f64().unwrap() > 0.0, "{value}");
        if what == "bulk" {
            assert!(value["ratio_no_offload"].as_f64().unwrap() > 0.0, "{value}");
        }
    }
    assert_eq!(left(), 0);
}

#[test]
fn plots_are_written_where_they_are_asked_for() {
    if !two_processors() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let plots = directory.path().join("plots");
    bench(
        "reset",
        &["--concurrency", "5", "--svg", plots.to_str().unwrap()],
    );
    let plot = std::fs::read_to_string(plots.join("reset-connections_per_s-shm-inline.svg"));
    assert!(plot.unwrap().starts_with("<svg"));
}

#[test]
fn tables_have_every_side_and_say_how_quiet_the_machine_was() {
    if !two_processors() {
        return;
    }
    let output = run(&[
        "bench",
        "short",
        "--pairs",
        "1",
        "--seconds",
        "0.1",
        "--concurrency",
        "20",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    for word in [
        "connections/s",
        "kernel, tuned",
        "mTCP / kernel",
        "machine was",
    ] {
        assert!(
            text.to_lowercase().contains(&word.to_lowercase()),
            "{word}: {text}"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    for arguments in [
        &["bench", "nonsense"][..],
        &["bench", "reset", "--messages", "8"],
        &["bench", "short", "--cores", "0"],
        &["bench", "short", "--cores", "0,0"],
        &["bench", "short", "--pairs", "0"],
        &["bench", "short", "--client", "kernel"],
        &["bench", "short", "--link", "tap", "--client", "mtcp"],
        &["bench", "short", "--steer"],
        &["bench", "short", "--cores", "0,1,1"],
        &["bench", "memory", "--mode", "service"],
        &["bench"],
        &["bench", "--all", "--into", "/nonexistent/page"],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    }
}

#[test]
fn the_kernels_side_is_cubic_with_linuxs_settings_and_says_so() {
    if !two_processors() {
        return;
    }
    let value = bench("short", &["--concurrency", "10"]);
    let baseline = &value["baseline"];
    assert_eq!(baseline["congestion"], "cubic", "{baseline}");
    let settings = &baseline["settings"];
    assert!(settings["net.core.default_qdisc"].is_string(), "{baseline}");
    if baseline["own_namespace"] == true {
        // Whatever this machine is tuned to.
        assert_eq!(settings["net.ipv4.tcp_rmem"], "4096 131072 6291456");
        assert_eq!(settings["net.ipv4.tcp_wmem"], "4096 16384 4194304");
    }
}

#[test]
fn the_kernels_side_uses_what_it_is_told_to() {
    if !two_processors() {
        return;
    }
    let value = bench(
        "short",
        &["--concurrency", "10", "--kernel-congestion", "reno"],
    );
    assert_eq!(value["baseline"]["congestion"], "reno", "{value}");
    let output = run(&["bench", "short", "--kernel-congestion", "vegas"]);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && complaint.contains("'vegas' is not available"),
        "{complaint}"
    );
}
