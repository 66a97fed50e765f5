//! The modules of a crate, one for each file, and what each of them imports.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::{Item, ItemMod};

use super::imports::{self, Import, Path as ModulePath, is_for_tests};
use super::methods::{self, Impl};

/// One crate of the workspace.
#[derive(Debug)]
pub struct Crate {
    pub name: String,
    pub modules: Vec<Module>,
}

/// One file.
#[derive(Debug, Default)]
pub struct Module {
    /// From the root of the crate, which has none.
    pub path: ModulePath,
    pub parent: Option<usize>,
    children: HashMap<String, usize>,
    /// Modules without a file of their own: what is in them belongs to the file.
    inline: HashSet<String>,
    /// Types that it defines.
    pub types: HashSet<String>,
    pub imports: Vec<Import>,
    pub impls: Vec<Impl>,
}

impl Crate {
    /// Reads the crate whose root is the file `root`, without what is for tests only.
    pub fn read(name: &str, root: &Path) -> Result<Self> {
        let mut read = Self {
            name: name.to_owned(),
            modules: Vec::new(),
        };
        let folder = root.parent().context("the root lies in no folder")?;
        read.add(root, folder, Vec::new(), None)?;
        Ok(read)
    }

    fn add(
        &mut self,
        file: &Path,
        folder: &Path,
        path: ModulePath,
        parent: Option<usize>,
    ) -> Result<usize> {
        let source = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let parsed = syn::parse_file(&source).with_context(|| file.display().to_string())?;
        let index = self.modules.len();
        self.modules.push(Module {
            path: path.clone(),
            parent,
            ..Module::default()
        });
        let items = &parsed.items;
        let module = &mut self.modules[index];
        module.imports = imports::of(items);
        module.impls = methods::of(items);
        note_types(items, &mut module.types);
        note_inline(items, &mut module.inline);
        for child in items.iter().filter_map(with_file) {
            let name = child.ident.to_string();
            let (file, below) = locate(folder, child, &name)?;
            let path = [path.as_slice(), std::slice::from_ref(&name)].concat();
            let at = self.add(&file, &below, path, Some(index))?;
            self.modules[index].children.insert(name, at);
        }
        Ok(index)
    }

    /// The module that `path` names something of, seen from module `from`; with the rest of the
    /// path. `None`: it is not of this crate.
    pub fn resolve<'a>(&self, from: usize, path: &'a [String]) -> Option<(usize, &'a [String])> {
        let (first, rest) = path.split_first()?;
        let here = &self.modules[from];
        let start = match first.as_str() {
            "crate" => self.descend(0, rest),
            "self" => self.descend(from, rest),
            "super" => return self.ascend(from, path),
            name if here.children.contains_key(name) => self.descend(from, path),
            _ => return None,
        };
        Some(start)
    }

    fn ascend<'a>(&self, from: usize, path: &'a [String]) -> Option<(usize, &'a [String])> {
        let ups = path
            .iter()
            .take_while(|segment| *segment == "super")
            .count();
        let top = (0..ups).try_fold(from, |at, _| self.modules[at].parent)?;
        Some(self.descend(top, &path[ups..]))
    }

    fn descend<'a>(&self, mut at: usize, mut path: &'a [String]) -> (usize, &'a [String]) {
        while let Some((first, rest)) = path.split_first() {
            let module = &self.modules[at];
            if let Some(&child) = module.children.get(first) {
                at = child;
            } else if !module.inline.contains(first) {
                break;
            }
            path = rest;
        }
        (at, path)
    }

    /// Where what `path` names is defined: re-exports of children are followed.
    pub fn definer(&self, from: usize, path: &[String]) -> Option<usize> {
        let (mut at, rest) = self.resolve(from, path)?;
        let mut name = rest.first()?.clone();
        while let Some((below, original)) = self.re_exported(at, &name) {
            (at, name) = (below, original);
        }
        Some(at)
    }

    /// The descendant of `module` from which it re-exports `name`, and the name there.
    fn re_exported(&self, module: usize, name: &str) -> Option<(usize, String)> {
        let exports = self.modules[module]
            .imports
            .iter()
            .filter(|import| import.is_exported);
        exports
            .filter(|import| import.alias == name)
            .find_map(|import| {
                let (at, rest) = self.resolve(module, &import.path)?;
                self.is_below(at, module).then_some(())?;
                Some((at, rest.first()?.clone()))
            })
    }

    /// Whether `module` is a descendant of `above`.
    pub fn is_below(&self, module: usize, above: usize) -> bool {
        let mut at = self.modules[module].parent;
        while let Some(parent) = at {
            if parent == above {
                return true;
            }
            at = self.modules[parent].parent;
        }
        false
    }

    /// The name of a module for a reader.
    pub fn title(&self, module: usize) -> String {
        match self.modules[module].path.as_slice() {
            [] => format!("{} (root)", self.name),
            path => format!("{}::{}", self.name, path.join("::")),
        }
    }
}

fn with_file(item: &Item) -> Option<&ItemMod> {
    match item {
        Item::Mod(module) if module.content.is_none() && !is_for_tests(&module.attrs) => {
            Some(module)
        }
        _ => None,
    }
}

fn locate(folder: &Path, module: &ItemMod, name: &str) -> Result<(PathBuf, PathBuf)> {
    let below = folder.join(name);
    if let Some(path) = path_attribute(module) {
        return Ok((folder.join(path), below));
    }
    let candidates = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
    let file = candidates.into_iter().find(|file| file.exists());
    Ok((
        file.with_context(|| format!("module {name} has no file in {}", folder.display()))?,
        below,
    ))
}

fn path_attribute(module: &ItemMod) -> Option<String> {
    let attribute = module
        .attrs
        .iter()
        .find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(path),
            ..
        }) => Some(path.value()),
        _ => None,
    }
}

fn note_types(items: &[Item], types: &mut HashSet<String>) {
    for item in items {
        match item {
            Item::Struct(item) => types.insert(item.ident.to_string()),
            Item::Enum(item) => types.insert(item.ident.to_string()),
            Item::Union(item) => types.insert(item.ident.to_string()),
            _ => false,
        };
    }
}

fn note_inline(items: &[Item], inline: &mut HashSet<String>) {
    for item in items {
        if let Item::Mod(ItemMod {
            ident,
            content: Some((_, items)),
            ..
        }) = item
        {
            inline.insert(ident.to_string());
            note_inline(items, inline);
        }
    }
}
