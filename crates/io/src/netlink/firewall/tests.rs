use std::collections::HashMap;

use super::message::attribute;
use super::rule::Expression;
use super::set::{Element, Set, Sets};
use super::verdict::Verdict;
use super::*;

const TABLE: &str = "t";

fn word(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

fn part(name: &str, data: &[Vec<u8>]) -> Expression {
    Expression {
        name: name.into(),
        data: data.concat(),
    }
}

fn be(kind: u16, number: u32) -> Vec<u8> {
    attribute(kind, &number.to_be_bytes())
}

/// `NFTA_DATA_VALUE` in an attribute.
fn datum(kind: u16, value: &[u8]) -> Vec<u8> {
    attribute(kind, &attribute(1, value))
}

fn payload(base: u32, offset: u32, length: u32) -> Expression {
    part(
        "payload",
        &[be(1, 1), be(2, base), be(3, offset), be(4, length)],
    )
}

fn cmp(op: u32, value: &[u8]) -> Expression {
    part("cmp", &[be(1, 1), be(2, op), datum(3, value)])
}

fn verdict(code: i32, chain: &str) -> Expression {
    let mut inner = be(1, code.cast_unsigned());
    inner.extend(attribute(2, &word(chain)));
    part(
        "immediate",
        &[be(1, 0), attribute(2, &attribute(2, &inner))],
    )
}

fn dport(port: u16) -> [Expression; 2] {
    [payload(2, 2, 2), cmp(0, &port.to_be_bytes())]
}

/// `tcp dport PORT` and a verdict.
fn on(port: u16, code: i32) -> Vec<Expression> {
    [dport(port).to_vec(), vec![verdict(code, "")]].concat()
}

fn key(chain: &str) -> Chain {
    (NFPROTO_INET, TABLE.into(), chain.into())
}

fn firewall(drops: bool, chains: &[(&str, Vec<Vec<Expression>>)]) -> Firewall {
    Firewall {
        interface: "eth0".into(),
        index: 3,
        entrances: vec![(key("in"), drops)],
        chains: chains
            .iter()
            .map(|(name, rules)| (key(name), rules.clone()))
            .collect(),
        sets: Sets::default(),
        legacy: false,
    }
}

fn is_open(firewall: &Firewall, port: u16) -> bool {
    let local = SocketAddr::from(([10, 0, 0, 2], port));
    let closed = firewall.closes(local);
    assert!(closed.as_deref().is_none_or(|name| name == "inet t in"));
    closed.is_none()
}

const DROP: i32 = 0;
const ACCEPT: i32 = 1;
const JUMP: i32 = -3;
const RETURN: i32 = -5;

#[test]
fn a_port_that_a_rule_drops_is_closed_and_others_are_open() {
    let firewall = firewall(false, &[("in", vec![on(6379, DROP)])]);
    assert!(!is_open(&firewall, 6379) && is_open(&firewall, 80));
    let rejects = [dport(80).to_vec(), vec![part("reject", &[])]].concat();
    let firewall = super::tests::firewall(false, &[("in", vec![rejects])]);
    assert!(!is_open(&firewall, 80) && is_open(&firewall, 81));
}

#[test]
fn a_policy_drops_what_no_rule_accepts() {
    let firewall = firewall(true, &[("in", vec![on(80, ACCEPT)])]);
    assert!(is_open(&firewall, 80) && !is_open(&firewall, 443));
}

#[test]
fn what_holds_for_some_senders_only_does_not_open_a_port() {
    let from = vec![payload(1, 12, 4), cmp(0, &[192, 0, 2, 1])];
    let trusted = [from.clone(), on(22, ACCEPT)].concat();
    assert!(!is_open(&firewall(true, &[("in", vec![trusted])]), 22));
    let banned = [from, vec![verdict(DROP, "")]].concat();
    assert!(!is_open(&firewall(false, &[("in", vec![banned])]), 22));
    let limited = [vec![part("limit", &[])], on(22, ACCEPT)].concat();
    assert!(!is_open(&firewall(true, &[("in", vec![limited])]), 22));
}

#[test]
fn a_new_connection_is_new_and_comes_by_its_interface() {
    let state = |bits: u32| {
        let mask = part(
            "bitwise",
            &[
                be(1, 1),
                be(2, 1),
                be(3, 4),
                datum(4, &bits.to_ne_bytes()),
                datum(5, &[0; 4]),
            ],
        );
        vec![part("ct", &[be(1, 1), be(2, 0)]), mask, cmp(1, &[0; 4])]
    };
    let rule = |bits, code| [state(bits), vec![verdict(code, "")]].concat();
    let (invalid, established) = (1, 2 | 4);
    let usual = vec![
        rule(invalid, DROP),
        rule(established, ACCEPT),
        on(80, ACCEPT),
    ];
    let usual = firewall(true, &[("in", usual)]);
    assert!(is_open(&usual, 80) && !is_open(&usual, 81));
    let mut name = b"lo".to_vec();
    name.resize(16, 0);
    let by = |op| {
        vec![
            part("meta", &[be(1, 1), be(2, 6)]),
            cmp(op, &name),
            verdict(DROP, ""),
        ]
    };
    assert!(is_open(&firewall(false, &[("in", vec![by(0)])]), 80));
    assert!(!is_open(&firewall(false, &[("in", vec![by(1)])]), 80));
}

#[test]
fn jumps_come_back_and_circles_end() {
    let chains = [
        ("in", vec![vec![verdict(JUMP, "services")], on(81, ACCEPT)]),
        (
            "services",
            vec![
                on(80, ACCEPT),
                on(82, DROP),
                vec![verdict(RETURN, "")],
                on(81, DROP),
            ],
        ),
    ];
    let firewall = firewall(true, &chains);
    let open: Vec<u16> = (80..84).filter(|port| is_open(&firewall, *port)).collect();
    assert_eq!(open, [80, 81]);
    let circle = super::tests::firewall(false, &[("in", vec![vec![verdict(JUMP, "in")]])]);
    assert!(!is_open(&circle, 80));
}

#[test]
fn sets_and_maps_are_looked_up() {
    let element = |port: u16, ends, verdict| Element {
        key: port.to_be_bytes().into(),
        verdict,
        ends,
        rest: false,
    };
    let look_up = |map: &[Vec<u8>]| {
        let words = [&[attribute(1, &word("s")), be(2, 1)], map].concat();
        vec![payload(2, 2, 2), part("lookup", &words)]
    };
    let with = |set, rule: Vec<Expression>| Firewall {
        sets: Sets::with((NFPROTO_INET, TABLE, "s"), set),
        ..firewall(true, &[("in", vec![rule])])
    };
    let ports = Set {
        intervals: true,
        elements: vec![
            element(0, true, None),
            element(80, false, None),
            element(90, true, None),
        ],
    };
    let ranges = with(ports, [look_up(&[]), vec![verdict(ACCEPT, "")]].concat());
    let open: Vec<u16> = [79, 80, 89, 90]
        .into_iter()
        .filter(|port| is_open(&ranges, *port))
        .collect();
    assert_eq!(open, [80, 89]);
    let map = Set {
        intervals: false,
        elements: vec![
            element(80, false, Some(Verdict::Accept)),
            element(81, false, Some(Verdict::Drop)),
        ],
    };
    let mapped = with(map, look_up(&[be(3, 0)]));
    assert!(is_open(&mapped, 80) && !is_open(&mapped, 81) && !is_open(&mapped, 82));
}

#[test]
fn matches_of_iptables_are_read() {
    let tcp = |from: u16, to: u16| {
        let ports: Vec<u8> = [0, u16::MAX, from, to]
            .iter()
            .flat_map(|port| port.to_ne_bytes())
            .collect();
        let info = [ports, vec![0; 4]].concat();
        part("match", &[attribute(1, &word("tcp")), attribute(3, &info)])
    };
    let rule = vec![tcp(80, 89), verdict(ACCEPT, "")];
    let firewall = firewall(true, &[("in", vec![rule])]);
    assert!(is_open(&firewall, 80) && is_open(&firewall, 89) && !is_open(&firewall, 90));
}

#[test]
fn tables_of_another_family_are_not_asked() {
    let mut firewall = firewall(true, &[]);
    firewall.entrances[0].0.0 = NFPROTO_IPV6;
    assert!(is_open(&firewall, 80));
    assert!(firewall.closes("[fd00::2]:80".parse().unwrap()).is_some());
    firewall.chains = HashMap::new();
    firewall.legacy = true;
    assert!(firewall.closes("10.0.0.2:80".parse().unwrap()).is_some());
}

#[test]
fn what_is_cut_short_is_no_rule() {
    let whole = on(80, DROP);
    for expression in whole {
        for length in 0..expression.data.len() {
            let data = expression.data[..length].to_vec();
            let cut = Expression {
                name: expression.name.clone(),
                data,
            };
            let _ = is_open(&firewall(false, &[("in", vec![vec![cut]])]), 80);
        }
    }
}
