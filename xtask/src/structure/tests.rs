use std::fs;

use super::circles::circles;
use super::modules::Crate;
use super::spread::{facade_complaint, spreads};

/// Reads a crate of these files, the first of which is its root.
fn read(files: &[(&str, &str)]) -> Crate {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, source) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, source).expect("a file");
    }
    Crate::read("it", &folder.path().join(files[0].0)).expect("a crate")
}

/// The circles, as titles.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let read = read(files);
    let title = |&module: &usize| read.title(module);
    let named = circles(&read)
        .into_iter()
        .map(|circle| circle.iter().map(title).collect::<Vec<_>>().join(" "));
    named.collect()
}

#[test]
fn two_modules_that_use_each_other_are_a_circle() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "pub struct B; fn make() { crate::a::A(B); }"),
    ];
    assert_eq!(found(&files), ["it::a it::b"]);
}

#[test]
fn an_import_one_way_is_none() {
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "pub struct B;"),
    ];
    assert_eq!(found(&files), [""; 0]);
}

#[test]
fn a_parent_may_declare_and_re_export_what_uses_it() {
    let files = [
        ("lib.rs", "mod a; mod user;"),
        (
            "a/mod.rs",
            "mod child; pub use child::Child; pub struct Parent;",
        ),
        ("a/child.rs", "use super::Parent; pub struct Child(Parent);"),
        ("user.rs", "use crate::a::Child;"),
    ];
    assert_eq!(found(&files), [""; 0]);
}

#[test]
fn a_parent_that_needs_a_child_that_needs_it_is_a_circle() {
    let files = [
        ("lib.rs", "mod a;"),
        (
            "a/mod.rs",
            "mod child; pub struct Parent(Box<child::Child>);",
        ),
        ("a/child.rs", "use super::Parent; pub struct Child(Parent);"),
    ];
    assert_eq!(found(&files), ["it::a it::a::child"]);
}

#[test]
fn a_re_export_is_followed_to_what_it_names() {
    // `b` names something of `a::child`, which needs `b`; `a` itself has nothing to do with it.
    let files = [
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod child; pub use child::Child;"),
        ("a/child.rs", "use crate::b::B; pub struct Child(B);"),
        ("b.rs", "pub struct B; fn f(_: &crate::a::Child) {}"),
    ];
    assert_eq!(found(&files), ["it::a::child it::b"]);
}

#[test]
fn tests_are_no_edges_and_macros_are() {
    let tests = [
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod gone;"),
        (
            "a.rs",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; } #[cfg(test)] fn f() { crate::b::g(); }",
        ),
        ("b.rs", "use crate::a::A;"),
    ];
    assert_eq!(found(&tests), [""; 0]);
    let macros = [
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "pub struct A; fn f() { assert_eq!(1, crate::b::ONE); }",
        ),
        ("b.rs", "use crate::a::A; pub const ONE: u8 = 1;"),
    ];
    assert_eq!(found(&macros), ["it::a it::b"]);
}

#[test]
fn methods_are_counted_where_the_type_is_defined() {
    let files = [
        (
            "lib.rs",
            "mod a; mod b; pub struct T; impl T { fn one(&self) {} }",
        ),
        (
            "a.rs",
            "use crate::T; impl T { fn two(&self) {} #[cfg(test)] fn three(&self) {} }",
        ),
        (
            "b.rs",
            "struct T; impl T { fn four(&self) {} } impl Clone for T { fn clone(&self) -> T { T } }",
        ),
    ];
    let spreads = spreads(&read(&files));
    let counts: Vec<_> = spreads
        .iter()
        .map(|(name, spread)| (name.as_str(), spread.methods, spread.files.len()))
        .collect();
    assert_eq!(counts, [("it (root)::T", 2, 2), ("it::b::T", 1, 1)]);
}

#[test]
fn a_method_that_decides_or_repeats_does_not_delegate() {
    let impls = [
        (
            "fn of(&self) -> u32 { let a = &self.a; a.of()? + self.b.of() }",
            "",
        ),
        ("fn of(&self) { if self.a { self.b(); } }", "of"),
        ("fn of(&self) { self.a(|| loop {}) }", "of"),
        (
            "fn of(&self) { self.a(); self.b(); self.c(); self.d(); }",
            "of",
        ),
        ("#[cfg(test)] fn of(&self) { if self.a { self.b(); } }", ""),
    ];
    for (method, busy) in impls {
        let source = format!("pub struct A; impl A {{ {method} }}");
        let read = read(&[("lib.rs", &source)]);
        let spread = &spreads(&read)["it (root)::A"];
        assert_eq!(spread.busy.join(" "), busy, "{method}");
        let complaint = facade_complaint("A", spread).unwrap_or_default();
        assert_eq!(complaint.contains("delegate, as"), !busy.is_empty());
    }
}
