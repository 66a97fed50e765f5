//! What is installed, and what it exports.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Lab, install, pkg_config, prefix, root, run, succeed, words};

/// Names that the headers declare as functions.
fn declared() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for header in ["mtcp_api.h", "mtcp_epoll.h"] {
        let text = fs::read_to_string(prefix().join("include").join(header)).unwrap();
        for line in text
            .lines()
            .filter(|line| line.ends_with(");") && !line.starts_with("typedef"))
        {
            let name = line.split('(').next().unwrap();
            names.insert(name.rsplit([' ', '*']).next().unwrap().to_owned());
        }
    }
    assert_eq!(names.len(), 38, "{names:?}");
    names
}

/// What is exported: beside that, what programs for the original take without a header.
fn exported() -> BTreeSet<String> {
    let mut names = declared();
    names.insert("GetNumCPUs".to_owned());
    names
}

/// Names that `nm` lists with these flags as defined.
fn defined(flags: &[&str], file: &Path) -> BTreeSet<String> {
    let output = succeed(
        Command::new("nm")
            .args(flags)
            .arg("--defined-only")
            .arg(file),
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter(|line| line.split_whitespace().count() == 3)
        .filter_map(|line| line.split_whitespace().last())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_shared_library_exports_the_api_only() {
    assert_eq!(
        defined(&["-D"], &prefix().join("lib/libmtcp.so")),
        exported()
    );
}

#[test]
fn the_static_library_exports_the_api_only() {
    assert_eq!(
        defined(&["-g"], &prefix().join("lib/libmtcp.a")),
        exported()
    );
}

#[test]
fn the_shared_library_has_its_name() {
    let output = succeed(
        Command::new("readelf")
            .arg("-d")
            .arg(prefix().join("lib/libmtcp.so")),
    );
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("Library soname: [libmtcp.so.1]")
    );
    assert!(prefix().join("lib/libmtcp.so.1").exists());
}

/// With libmtcp.a beside the shared libraries of the system, and with nothing shared at all.
#[test]
fn programs_link_statically() {
    let lab = Lab::new();
    let is_ours = |flag: &String| flag == "-lmtcp";
    let flags = pkg_config(&["--cflags", "--libs", "--static"]);
    assert!(flags.iter().any(is_ours));
    for (name, all) in [("ours", false), ("all", true)] {
        let program = lab.dir.path().join(name);
        let mut command = Command::new("cc");
        let source = root().join("tests/c/alone.c");
        command.arg("-o").arg(&program).arg(source);
        if all {
            command.arg("-static").args(&flags);
        } else {
            let ours = |flag| if is_ours(flag) { "-l:libmtcp.a" } else { flag };
            command.args(flags.iter().map(ours));
        }
        succeed(&mut command);
        let needed = words(&succeed(Command::new("readelf").arg("-d").arg(&program)).stdout);
        let has = |what: &str| needed.iter().any(|word| word.contains(what));
        assert!(!has("libmtcp"), "{needed:?}");
        assert_eq!(has("NEEDED"), !all, "{needed:?}");
        let conf = lab.conf("alone.conf", 2, "");
        run(lab.command(&program).arg(conf));
    }
}

/// A program for the original is several files that define the same variables in a header, and has
/// GetNumCPUs or takes ours; with our library shared or static.
#[test]
fn programs_for_the_original_link() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write(
        "all.h",
        "#include <mtcp_api.h>\nstruct mtcp_conf mcfg;\nint GetNumCPUs();\n",
    );
    write(
        "main.c",
        "#include \"all.h\"\nint main(int argc, char **argv)\n\
         { (void)argv; mtcp_getconf(&mcfg); return GetNumCPUs() == (argc > 1 ? -7 : mcfg.num_cores + EXPECTED) ? 0 : 1; }\n",
    );
    write("theirs.c", "#include \"all.h\"\n");
    write(
        "own.c",
        "#include \"all.h\"\nint GetNumCPUs() { return -7; }\n",
    );
    let online = succeed(Command::new("getconf").arg("_NPROCESSORS_ONLN")).stdout;
    let processors = words(&online).concat();
    let flags = pkg_config(&["--cflags", "--libs", "--static"]);
    for library in ["-lmtcp", "-l:libmtcp.a"] {
        for other in ["theirs.c", "own.c"] {
            let program = dir.path().join("program");
            let mut command = Command::new("cc");
            command
                .current_dir(dir.path())
                .arg(format!("-DEXPECTED={processors}"))
                .arg(format!("-Wl,-rpath,{}", prefix().join("lib").display()))
                .args(["-o", "program", "main.c", other])
                .args(
                    flags
                        .iter()
                        .map(|flag| if flag == "-lmtcp" { library } else { flag }),
                );
            succeed(&mut command);
            let mut command = Command::new(&program);
            if other == "own.c" {
                command.arg("own");
            }
            run(&mut command);
        }
    }
}

#[test]
fn packages_install_below_another_root() {
    let dir = tempfile::tempdir().unwrap();
    install(Path::new("/opt/mtcp"), dir.path().to_str().unwrap());
    let installed = dir.path().join("opt/mtcp");
    for file in [
        "lib/libmtcp.so.1.0.0",
        "lib/libmtcp.a",
        "include/mtcp_api.h",
        "include/mtcp_epoll.h",
    ] {
        assert!(installed.join(file).is_file(), "{file}");
    }
    let text = fs::read_to_string(installed.join("lib/pkgconfig/libmtcp.pc")).unwrap();
    assert!(text.starts_with("prefix=/opt/mtcp\n"), "{text}");
    assert!(
        text.contains(&format!("Version: {}\n", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
}
