//! Names of ICMP types and codes.

type Codes = &'static [(u8, &'static str)];

/// Type number, name, and the names of its codes.
type Types = &'static [(u8, &'static str, Codes)];

const V4: Types = &[
    (0, "echo_reply", &[]),
    (3, "unreachable", UNREACHABLE),
    (4, "source_quench", &[]),
    (5, "redirect", &[]),
    (8, "echo_request", &[]),
    (
        11,
        "time_exceeded",
        &[
            (0, "exceeded_hop_limit"),
            (0, "ttl_exceeded_in_transit"),
            (1, "exceeded_frag_time"),
        ],
    ),
    (12, "parameter_problem", &[]),
];

const UNREACHABLE: Codes = &[
    (0, "net_unreachable"),
    (1, "host_unreachable"),
    (2, "protocol_unreachable"),
    (3, "port_unreachable"),
    (4, "frag_needed"),
    (5, "source_route_failed"),
    (6, "net_unknown"),
    (7, "host_unknown"),
    (8, "source_host_isolated"),
    (9, "net_prohibited"),
    (10, "host_prohibited"),
    (11, "net_unreachable_for_tos"),
    (12, "host_unreachable_for_tos"),
    (13, "packet_filtered"),
    (14, "precedence_violation"),
    (15, "precedence_cutoff"),
];

const V6: Types = &[
    (
        1,
        "unreachable",
        &[
            (0, "no_route"),
            (0, "net_unreachable"),
            (1, "admin_prohibited"),
            (2, "not_neighbour"),
            (3, "address_unreachable"),
            (4, "port_unreachable"),
        ],
    ),
    (2, "packet_too_big", &[]),
    (
        3,
        "time_exceeded",
        &[(0, "exceeded_hop_limit"), (1, "exceeded_frag_time")],
    ),
    (
        4,
        "parameter_problem",
        &[
            (0, "header_field"),
            (1, "unknown_next_header"),
            (2, "unknown_option"),
        ],
    ),
    (128, "echo_request", &[]),
    (129, "echo_reply", &[]),
];

/// The numbers of a type and a code; a code may be a number itself.
pub(super) fn numbers(v6: bool, kind: &str, code: Option<&str>) -> Result<(u8, u8), String> {
    let types = if v6 { V6 } else { V4 };
    let Some((kind, _, codes)) = types.iter().find(|(_, name, _)| *name == kind) else {
        return Err(format!("unknown ICMP type '{kind}'"));
    };
    let Some(code) = code else {
        return Ok((*kind, 0));
    };
    let known = codes.iter().find(|(_, name)| *name == code);
    let number = known.map(|(number, _)| *number).or(code.parse().ok());
    let number = number.ok_or_else(|| format!("unknown ICMP code '{code}'"))?;
    Ok((*kind, number))
}

/// The names of a type and a code.
pub(super) fn names(v6: bool, kind: u8, code: u8) -> (String, Option<String>) {
    let types = if v6 { V6 } else { V4 };
    let Some((_, name, codes)) = types.iter().find(|(number, ..)| *number == kind) else {
        return (format!("type_{kind}"), Some(code.to_string()));
    };
    let known = codes.iter().find(|(number, _)| *number == code);
    (
        (*name).to_owned(),
        known.map(|(_, name)| (*name).to_owned()),
    )
}
