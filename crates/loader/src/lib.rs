//! A program before it runs: where it is, and whether a library that is loaded into it would see
//! its calls.

#![forbid(unsafe_code)]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_NEEDED, DT_STRSZ, DT_STRTAB, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::read::{ReadCache, ReadRef, StringTable};
use rustix::process::{getegid, geteuid};

type Header = FileHeader64<Endianness>;

/// Interpreters of scripts that are scripts themselves: as many as Linux follows.
const MOST_SCRIPTS: usize = 4;
const SET_UID: u32 = 0o4000;
/// With the right of the group to execute.
const SET_GID: u32 = 0o2010;
const THREAD_SANITIZER: &str = "libtsan.so";
/// Where file capabilities are (capabilities(7)).
const CAPABILITIES: &str = "security.capability";

/// What the dynamic linker will do with a program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Linked {
    /// `None`: nothing, it is static.
    interpreter: Option<Vec<u8>>,
    needed: Vec<Vec<u8>>,
    machine: u16,
    /// Go's linker made it, whose programs make system calls of their own, also where C code is
    /// linked in (cgo).
    is_go: bool,
}

/// The file that exec(3) takes for this word.
fn find(word: &OsStr) -> Option<PathBuf> {
    if word.as_bytes().contains(&b'/') {
        return Some(word.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path)
        .map(|directory| directory.join(word))
        .find(|file| file.is_file() && is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The file that runs for this word: behind scripts their interpreter, behind `env` what that
/// finds.
pub fn resolve(word: &OsStr) -> Option<PathBuf> {
    let mut file = find(word)?;
    for _ in 0..MOST_SCRIPTS {
        match interpreter_of_script(&file) {
            Some(next) => file = next,
            None => break,
        }
    }
    Some(file)
}

fn interpreter_of_script(file: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    let start = BufReader::new(File::open(file).ok()?).take(256);
    let mut start = start;
    start.read_until(b'\n', &mut line).ok()?;
    let line = line.strip_prefix(b"#!")?;
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let interpreter = Path::new(OsStr::from_bytes(words.next()?));
    let is_env = interpreter.file_name() == Some(OsStr::new("env"));
    let named = words
        .find(|word| !word.starts_with(b"-"))
        .filter(|_| is_env);
    match named {
        Some(word) => find(OsStr::from_bytes(word)),
        None => Some(interpreter.to_owned()),
    }
}

fn linked<'a, R: ReadRef<'a>>(data: R) -> Option<Linked> {
    let header = Header::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let mut linked = Linked {
        machine: header.e_machine(endian),
        ..Linked::default()
    };
    let segments = header.program_headers(endian, data).ok()?;
    for segment in segments {
        if let Ok(Some(interpreter)) = segment.interpreter(endian, data) {
            linked.interpreter = Some(interpreter.to_vec());
        }
        if let Ok(Some(mut notes)) = segment.notes(endian, data) {
            while let Ok(Some(note)) = notes.next() {
                linked.is_go |= note.name() == b"Go";
            }
        }
        if let Ok(Some(entries)) = segment.dynamic(endian, data) {
            let find = |address, size| {
                segments
                    .iter()
                    .find_map(|part| part.data_range(endian, data, address, size).ok().flatten())
            };
            linked.needed = needed(endian, entries, find);
        }
    }
    Some(linked)
}

/// The libraries that it names.
fn needed<'a>(
    endian: Endianness,
    entries: &[object::elf::Dyn64<Endianness>],
    find: impl Fn(u64, u64) -> Option<&'a [u8]>,
) -> Vec<Vec<u8>> {
    let value = |tag: i64| {
        let mut of = entries.iter().filter(|entry| entry.tag(endian) == tag);
        of.next().map(|entry| entry.d_val(endian))
    };
    let (Some(at), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else {
        return Vec::new();
    };
    let bytes = find(at, size).unwrap_or_default();
    let strings = StringTable::new(bytes, 0, bytes.len() as u64);
    let named = entries
        .iter()
        .filter(|entry| entry.tag(endian) == DT_NEEDED);
    named
        .filter_map(|entry| entry.string(endian, strings).ok())
        .map(<[u8]>::to_vec)
        .collect()
}

fn read(file: &Path) -> Option<Linked> {
    linked(&ReadCache::new(File::open(file).ok()?))
}

/// Why no library can be loaded into this program. `None`: one can, as far as is known.
pub fn obstacle(file: &Path) -> Option<String> {
    let Linked {
        interpreter,
        machine,
        is_go,
        ..
    } = read(file)?;
    let own = read(Path::new("/proc/self/exe")).unwrap_or_default();
    let name = file.display();
    match interpreter {
        None => return Some(format!("{name} is linked statically")),
        _ if is_go => {
            return Some(format!(
                "{name} is a Go program, which makes system calls past the C library"
            ));
        }
        _ if machine != own.machine => {
            return Some(format!("{name} is for another kind of processor"));
        }
        Some(other) if base(&other) != base(&own.interpreter.unwrap_or_default()) => {
            let other = String::from_utf8_lossy(&other).into_owned();
            return Some(format!("{name} has another C library ({other})"));
        }
        Some(_) => {}
    }
    gains_rights(file)
        .map(|what| format!("{name} {what}, so that the linker loads no library into it"))
}

fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// By what a program has other rights than who starts it.
fn gains_rights(file: &Path) -> Option<&'static str> {
    let status = std::fs::metadata(file).ok()?;
    let mode = status.mode();
    if mode & SET_UID != 0 && status.uid() != geteuid().as_raw() {
        return Some("is set-user-ID");
    }
    if mode & SET_GID == SET_GID && status.gid() != getegid().as_raw() {
        return Some("is set-group-ID");
    }
    let capable = rustix::fs::getxattr(file, CAPABILITIES, &mut [0u8; 64][..]).is_ok();
    (capable && !geteuid().is_root()).then_some("has file capabilities")
}

/// Options that ThreadSanitizer needs where one of its libraries is among these: the library's own
/// threads and locks, which are not instrumented, are no races of the program. What the user says
/// comes after, and wins.
pub fn sanitizer_options(needed: &[String], users: Option<OsString>) -> Option<OsString> {
    let has = needed.iter().any(|name| name.starts_with(THREAD_SANITIZER));
    has.then(|| {
        let mut options = OsString::from("ignore_noninstrumented_modules=1 die_after_fork=0");
        if let Some(users) = users {
            options.push(" ");
            options.push(users);
        }
        options
    })
}

/// Sanitizers' libraries that the program needs, which have to come before all others.
pub fn sanitizers(file: &Path) -> Vec<String> {
    let named = read(file).unwrap_or_default().needed;
    named
        .into_iter()
        .filter_map(|name| String::from_utf8(name).ok())
        .filter(|name| {
            ["libasan.so", THREAD_SANITIZER, "libclang_rt.asan"]
                .iter()
                .any(|known| name.starts_with(known))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    fn script(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn scripts_lead_to_what_runs_them() {
        for (text, name) in [
            ("#!/bin/sh\n", "sh"),
            ("#! /usr/bin/env -S cat -n\n", "cat"),
        ] {
            let script = script(text);
            let found = resolve(script.path().as_os_str()).unwrap();
            assert_eq!(found.file_name(), Some(OsStr::new(name)));
            assert_eq!(obstacle(&found), None, "{text}");
        }
        assert_eq!(resolve(OsStr::new("no-such-program-here")), None);
    }

    #[test]
    fn this_program_is_within_reach_and_a_static_one_is_not() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(obstacle(&own), None);
        let linked = read(&own).unwrap();
        assert!(
            linked
                .needed
                .iter()
                .any(|name| name.starts_with(b"libc.so"))
        );
        // The first program header that names an interpreter says that there is none.
        let mut bytes = std::fs::read(&own).unwrap();
        let header = Header::parse(&bytes[..]).unwrap();
        let (start, size) = (header.e_phoff.get(Endianness::Little), 56);
        for at in 0..usize::from(header.e_phnum.get(Endianness::Little)) {
            let at = start as usize + at * size;
            if bytes[at..at + 4] == 3u32.to_le_bytes() {
                bytes[at..at + 4].fill(0);
            }
        }
        let file = script("");
        std::fs::write(file.path(), &bytes).unwrap();
        assert!(
            obstacle(file.path())
                .unwrap()
                .ends_with("is linked statically")
        );
    }

    #[test]
    fn programs_that_gain_rights_are_told() {
        let own = std::env::current_exe().unwrap();
        let copy = script("");
        std::fs::copy(own, copy.path()).unwrap();
        std::fs::set_permissions(copy.path(), std::fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(obstacle(copy.path()), None, "it is ours");
        if geteuid().is_root() {
            std::os::unix::fs::chown(copy.path(), Some(65534), None).unwrap();
            std::fs::set_permissions(copy.path(), std::fs::Permissions::from_mode(0o4755)).unwrap();
            assert!(obstacle(copy.path()).unwrap().contains("set-user-ID"));
        }
    }
}
