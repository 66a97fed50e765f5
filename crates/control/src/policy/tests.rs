use std::net::Ipv6Addr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fuzzing;

struct Passwd;

impl Names for Passwd {
    fn user(&self, name: &str) -> Option<u32> {
        (name == "www-data").then_some(33)
    }

    fn group(&self, name: &str) -> Option<u32> {
        (name == "web").then_some(50)
    }
}

fn read(text: &str) -> Settings {
    Settings::read(text, "daemon.conf", &Passwd).unwrap()
}

fn user(uid: u32) -> Credentials {
    Credentials {
        pid: 1,
        uid,
        gid: uid,
        groups: vec![uid],
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn without_rules_it_is_as_the_kernel_has_it() {
    let policy = Policy::default();
    let (root, other) = (user(0), user(1000));
    assert!(policy.allows_attach(&other).is_ok());
    assert!(policy.allows_listen(&root, ip("10.0.0.2"), 80).is_ok());
    let error = policy
        .allows_listen(&other, ip("10.0.0.2"), 80)
        .unwrap_err();
    assert_eq!(error.errno(), Errno::ACCESS);
    assert_eq!(
        error.to_string(),
        "user 1000 may not listen at 10.0.0.2:80: have the daemon's administrator add 'listen = USER 10.0.0.2 80'"
    );
    assert!(policy.allows_listen(&other, ip("10.0.0.2"), 1024).is_ok());
    let policy = policy.with_unprivileged_ports(80);
    assert!(policy.allows_listen(&other, ip("10.0.0.2"), 80).is_ok());
    assert!(policy.allows_listen(&other, ip("10.0.0.2"), 79).is_err());
}

#[test]
fn a_port_that_a_rule_names_is_for_those_whom_it_names() {
    let policy = read("listen = www-data,@web 10.0.0.2 80,443\nlisten = 7 * 6379").policy;
    let (www, other) = (user(33), user(1000));
    let of_web = Credentials {
        groups: vec![4, 50],
        ..user(1001)
    };
    for who in [&www, &of_web, &user(0)] {
        assert!(policy.allows_listen(who, ip("10.0.0.2"), 443).is_ok());
        // As a socket of IPv6 says it.
        let mapped = "10.0.0.2".parse::<std::net::Ipv4Addr>().unwrap();
        let mapped = mapped.to_ipv6_mapped().into();
        assert!(policy.allows_listen(who, mapped, 443).is_ok());
    }
    assert!(policy.allows_listen(&other, ip("10.0.0.2"), 443).is_err());
    assert!(policy.allows_listen(&www, ip("10.0.0.3"), 80).is_err());
    // The rule has one address.
    assert!(policy.allows_listen(&www, ip("0.0.0.0"), 80).is_err());
    assert!(policy.allows_listen(&user(7), ip("0.0.0.0"), 6379).is_ok());
    for address in ["0.0.0.0", "::", "10.0.0.2", "fd00::1"] {
        assert!(policy.allows_listen(&www, ip(address), 6379).is_err());
    }
}

#[test]
fn a_wildcard_takes_what_a_rule_keeps_for_others() {
    let policy = read("listen = 7 10.0.0.2 8080").policy;
    let other = user(1000);
    assert!(policy.allows_listen(&other, ip("10.0.0.3"), 8080).is_ok());
    assert!(policy.allows_listen(&other, ip("0.0.0.0"), 8080).is_err());
    let unspecified = Ipv6Addr::UNSPECIFIED.into();
    assert!(policy.allows_listen(&other, unspecified, 8080).is_err());
    assert!(policy.allows_listen(&other, ip("fd00::1"), 8080).is_ok());
}

#[test]
fn addresses_to_connect_from() {
    let policy = read("connect = www-data 10.0.0.0/24").policy;
    let from = |text: &str| text.parse::<SocketAddr>().unwrap();
    let allows = |uid, text| policy.allows_connect(&user(uid), from(text)).is_ok();
    assert!(allows(33, "10.0.0.2:0") && allows(0, "10.0.0.2:0"));
    assert!(!allows(1000, "10.0.0.2:0"));
    assert!(allows(1000, "10.0.1.2:0") && allows(1000, "0.0.0.0:0"));
    assert!(!allows(33, "10.0.0.2:80") && allows(33, "10.0.0.2:8080"));
}

#[test]
fn who_may_attach() {
    let policy = read("attach = www-data\nattach = @web").policy;
    assert!(policy.allows_attach(&user(33)).is_ok());
    assert!(policy.allows_attach(&user(0)).is_ok());
    let error = policy.allows_attach(&user(1000)).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("user 1000 may not use this daemon: ")
    );
    let policy = read("attach = none").policy;
    assert!(policy.allows_attach(&user(33)).is_err());
}

#[test]
fn budgets_are_the_users_else_the_groups_else_everyones() {
    let policy = read(
        "connections = everyone 10\nconnections = @web 20\nconnections = @60 30\nconnections = 33 5\nmemory everyone 64M",
    )
    .policy;
    assert_eq!(policy.budget(&user(1000)).connections, 10);
    let of_web = Credentials {
        groups: vec![50, 60],
        ..user(1001)
    };
    assert_eq!(policy.budget(&of_web).connections, 30);
    let www = Credentials {
        groups: vec![50, 60],
        ..user(33)
    };
    assert_eq!(policy.budget(&www).connections, 5);
    assert_eq!(policy.budget(&www).memory, 64 << 20);
    assert_eq!(policy.budget(&www).events, Budget::default().events);
}

#[test]
fn other_lines_are_the_stacks_and_keep_their_numbers() {
    let settings = read("io = tap:t0 # a link\nuser = mtcp\n# listen\n\naddr 10.0.0.2/24");
    assert_eq!(settings.user.as_deref(), Some("mtcp"));
    assert_eq!(
        settings.others,
        "io = tap:t0 # a link\n\n# listen\n\naddr 10.0.0.2/24\n"
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let table = [
        (
            "\nlisten = www-data 10.0.0.2",
            "daemon.conf:2: listen: 'www-data 10.0.0.2' is not WHO ADDRESSES PORTS",
        ),
        (
            "attach = gone",
            "daemon.conf:1: attach: there is no user 'gone': see 'getent passwd', or write @GROUP",
        ),
        (
            "attach = @gone",
            "daemon.conf:1: attach: there is no group 'gone': see 'getent group'",
        ),
        (
            "attach =",
            "daemon.conf:1: attach: has no value: write attach = WHO",
        ),
        (
            "listen = 7 here 80",
            "daemon.conf:1: listen: 'here' is no address: write *, 10.0.0.2, 10.0.0.0/24 or fd00::2",
        ),
        (
            "listen = 7 10.0.0.0/33 80",
            "daemon.conf:1: listen: the network part of '10.0.0.0/33' is not 0 to 32 bits",
        ),
        (
            "listen = 7 * 90-80",
            "daemon.conf:1: listen: '90-80' is no port: write *, 80, or 8000-8999, and a comma between several",
        ),
        (
            "memory = 7 much",
            "daemon.conf:1: memory: 'much' is no number: write 1000, or 64M",
        ),
        (
            "memory = 7 99999999999G",
            "daemon.conf:1: memory: '99999999999G' is no number: write 1000, or 64M",
        ),
    ];
    for (text, expected) in table {
        let error = Settings::read(text, "daemon.conf", &Passwd).unwrap_err();
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

/// `docs/daemon.md` has a row for each key.
#[test]
fn keys_are_documented() {
    let docs = include_str!("../../../../docs/daemon.md");
    for key in KEYS {
        let row = format!(
            "| `{} = {}` | {} | {} |\n",
            key.name, key.syntax, key.default, key.doc
        );
        assert!(docs.contains(&row), "docs/daemon.md lacks the row:\n{row}");
    }
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("*".to_owned()),
        (0..4u8).prop_map(|host| format!("10.0.0.{}", host + 1)),
        (24..=32u8).prop_map(|length| format!("10.0.0.1/{length}")),
        Just("fd00::1".to_owned()),
    ]
}

fn who() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("everyone".to_owned()),
        Just("none".to_owned()),
        (1..5u32).prop_map(|uid| uid.to_string()),
        (1..5u32).prop_map(|gid| format!("@{gid}")),
    ]
}

fn rule() -> impl Strategy<Value = String> {
    (who(), address(), 1..2000u16, 0..2000u16).prop_map(|(who, address, port, more)| {
        format!("listen = {who} {address} {port}-{}\n", port + more)
    })
}

fn place() -> impl Strategy<Value = (IpAddr, u16)> {
    let ip = prop_oneof![
        Just(ip("10.0.0.1")),
        Just(ip("10.0.0.3")),
        Just(ip("0.0.0.0")),
        Just(ip("::")),
        Just(ip("fd00::1")),
    ];
    (ip, 1..4000u16)
}

fn asks() -> impl Strategy<Value = Credentials> {
    (1..5u32, vec(1..5u32, 0..3)).prop_map(|(uid, groups)| Credentials {
        groups,
        ..user(uid)
    })
}

proptest! {
    #[test]
    fn root_may_all(rules in vec(rule(), 0..5), (address, port) in place()) {
        let policy = read(&rules.concat()).policy;
        prop_assert!(policy.allows_listen(&user(0), address, port).is_ok());
    }

    /// A rule gives to those whom it names, and takes from all others.
    #[test]
    fn a_rule_only_gives_to_whom_it_names(
        rules in vec(rule(), 0..5), more in rule(), (address, port) in place(), who in asks(),
    ) {
        let before = read(&rules.concat()).policy;
        let after = read(&format!("{}{more}", rules.concat())).policy;
        let named = names(&after.listen.last().unwrap().who, &who);
        let allows = |policy: &Policy| policy.allows_listen(&who, address, port).is_ok();
        if !named {
            prop_assert!(allows(&before) || !allows(&after));
        } else if !address.is_unspecified() {
            prop_assert!(!allows(&before) || allows(&after));
        }
    }

    /// Who may listen at all addresses may listen at each.
    #[test]
    fn a_wildcard_is_no_way_around(rules in vec(rule(), 0..5), (address, port) in place(), who in asks()) {
        let policy = read(&rules.concat()).policy;
        if policy.allows_listen(&who, ip("::"), port).is_ok() {
            prop_assert!(policy.allows_listen(&who, address, port).is_ok());
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        fuzzing::policy(text.as_bytes());
    }

    #[test]
    fn lines_like_ours_are_read_or_refused(
        words in vec(prop_oneof![Just("listen"), Just("memory"), Just("="), Just("*"), Just("7"), Just("@7"),
            Just("10.0.0.0/8"), Just("80-90"), Just(","), Just("18446744073709551615G"), Just("\n"), Just("::/0")], 0..12),
    ) {
        fuzzing::policy(words.join(" ").as_bytes());
    }
}
