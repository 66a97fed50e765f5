//! How `libmtcp.so` is linked. Its exports need no word here: a cdylib exports its `extern "C"`
//! functions and nothing else, which `tests/library.rs` checks.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmtcp.so.1");
}
