//! Modules of a kernel, in the order in which they can be loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use interop::programs;
use object::{Object, ObjectSection};

/// A module's name and file.
pub type Module = (String, Vec<u8>);

/// These modules of the kernel below `directory`, each after what it needs. A name that no file
/// has is built into the kernel, or unknown to it.
pub fn with_dependencies(directory: &Path, names: &[&str]) -> Vec<Module> {
    let mut files = Vec::new();
    find(&directory.join("kernel"), &mut files);
    let mut loaded = Vec::new();
    for name in names {
        add(name, &files, &mut loaded);
    }
    loaded
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            find(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn add(name: &str, files: &[PathBuf], loaded: &mut Vec<Module>) {
    let name = name.replace('-', "_");
    if loaded.iter().any(|(known, _)| *known == name) {
        return;
    }
    let Some(file) = files
        .iter()
        .find(|file| module_name(file) == Some(name.clone()))
    else {
        return;
    };
    let bytes = contents(file);
    for needed in needs(&bytes) {
        add(&needed, files, loaded);
    }
    loaded.push((name, bytes));
}

/// The name of the module that a file holds.
fn module_name(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_string_lossy().replace('-', "_");
    let (name, compression) = name.split_once(".ko")?;
    matches!(compression, "" | ".xz" | ".zst").then(|| name.to_owned())
}

fn contents(file: &Path) -> Vec<u8> {
    let program = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => return fs::read(file).unwrap(),
    };
    programs::require(&[program]);
    let output = Command::new(program).arg("-dc").arg(file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// What a module says that it needs (`.modinfo`).
fn needs(module: &[u8]) -> Vec<String> {
    let file = object::File::parse(module).unwrap();
    let section = file.section_by_name(".modinfo").unwrap();
    let text = String::from_utf8_lossy(section.data().unwrap()).into_owned();
    let depends = text
        .split('\0')
        .find_map(|line| line.strip_prefix("depends="));
    let names = depends.unwrap_or_default().split(',');
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}
