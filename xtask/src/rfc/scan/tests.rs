use super::*;

fn found(text: &str) -> Vec<(u32, String)> {
    ids(text)
}

fn one(rfc: u32, id: &str) -> (u32, String) {
    (rfc, id.to_owned())
}

#[test]
fn both_forms_of_a_tag() {
    assert_eq!(found("// RFC 9293 MUST-23: x"), [one(9293, "MUST-23")]);
    assert_eq!(found("(RFC 5961 §3.2-1)."), [one(5961, "§3.2-1")]);
    assert_eq!(found("RFC 7323 §A-2"), [one(7323, "§A-2")]);
}

#[test]
fn several_tags_of_one_rfc_and_of_two() {
    assert_eq!(
        found("RFC 9293 MUST-24, SHLD-5 and MAY-6, RFC 5961 §5-1."),
        [
            one(9293, "MUST-24"),
            one(9293, "SHLD-5"),
            one(9293, "MAY-6"),
            one(5961, "§5-1")
        ]
    );
}

#[test]
fn other_words_may_stand_between() {
    assert_eq!(
        found("RFC 9293 §3.5 figure 7, §3.10.7.3 fourth, MUST-10"),
        [one(9293, "MUST-10")]
    );
    assert_eq!(found("RFC 9293 §3.2: MUST-7."), [one(9293, "MUST-7")]);
}

#[test]
fn sections_and_steps_alone_are_no_tags() {
    for text in [
        "RFC 9293 §3.10.7.4, fifth",
        "RFC 6298 §5.1, §5.3",
        "RFC 8985 §6.2 step 4",
        "RFC 6582 §3.2 step 3-4",
        "RFC MUST-1",
        "RFC 9293 MUST",
        "RFC 9293 MUST-x",
        "MUST-1 of RFC 9293",
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn only_comments_count() {
    assert_eq!(scan("crates/a/src/x.rs", "let s = \"RFC 1 §1-1\";"), []);
    assert_eq!(scan("crates/a/src/x.rs", "f(); // RFC 1 §1-1").len(), 1);
    assert_eq!(scan("tests/pkt/x.pkt", "# RFC 1 §1-1").len(), 1);
    assert_eq!(scan("tests/c/x.c", "/* RFC 1 §1-1 */").len(), 1);
}

#[test]
fn what_is_a_test() {
    let kind = |file: &str, source: &str| scan(file, source)[0].kind;
    let tag = "// RFC 1 §1-1";
    assert_eq!(kind("crates/core/src/x.rs", tag), Kind::Code);
    for file in [
        "crates/core/src/tcp/tests/x.rs",
        "crates/core/src/x/tests.rs",
        "crates/sim/tests/x.rs",
        "tests/pkt/x.pkt",
        "tests/veth/tests/x.rs",
    ] {
        assert_eq!(kind(file, tag), Kind::Test, "{file}");
    }
}

#[test]
fn a_module_of_tests_ends_with_its_brace() {
    let source = "\
// RFC 1 §1-1
fn code() {}
#[cfg(test)]
#[allow(x)]
mod tests {
    // RFC 1 §1-2
    fn test() {
    }
}
// RFC 1 §1-3
#[cfg(test)]
mod far;
// RFC 1 §1-4
";
    let kinds: Vec<_> = scan("crates/a/src/x.rs", source)
        .into_iter()
        .map(|tag| tag.kind)
        .collect();
    assert_eq!(kinds, [Kind::Code, Kind::Test, Kind::Code, Kind::Code]);
}

#[test]
fn the_item_is_what_follows_or_what_surrounds() {
    let source = "\
/// RFC 1 §1-1: doc.
#[inline]
pub(crate) fn declared() {
    // RFC 1 §1-2
    let x = 1;
}
// RFC 1 §1-3
const LIMIT: u32 = 1;
/// RFC 1 §1-4
pub const fn fixed() {}
// RFC 1 §1-5
";
    let items: Vec<_> = scan("crates/a/src/x.rs", source)
        .into_iter()
        .map(|tag| tag.item.unwrap_or_default())
        .collect();
    assert_eq!(items, ["declared", "declared", "LIMIT", "fixed", "fixed"]);
}
