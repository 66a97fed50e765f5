//! The paths that a file names, in `use` and anywhere else.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemFn, ItemMod, ItemUse, Macro, UseTree, Visibility};

/// The segments of a path.
pub type Path = Vec<String>;

/// One path that a file names.
#[derive(Debug)]
pub struct Import {
    pub path: Path,
    /// The name it goes by here.
    pub alias: String,
    /// It is a `use` that others see.
    pub is_exported: bool,
}

/// All paths of a file, without what is for tests only.
pub fn of(items: &[Item]) -> Vec<Import> {
    let mut finder = Finder::default();
    items.iter().for_each(|item| finder.visit_item(item));
    finder.found
}

/// Whether an item exists in tests only.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .any(|attribute| {
            attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|condition| condition == "test")
        })
}

#[derive(Default)]
struct Finder {
    found: Vec<Import>,
}

impl Finder {
    fn note(&mut self, path: Path, alias: Option<String>, is_exported: bool) {
        let alias = alias.or_else(|| path.last().cloned()).unwrap_or_default();
        self.found.push(Import {
            path,
            alias,
            is_exported,
        });
    }

    fn note_tree(&mut self, tree: &UseTree, mut before: Path, is_exported: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.note_tree(&path.tree, before, is_exported);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.note_tree(tree, before.clone(), is_exported);
                }
            }
            UseTree::Name(name) if name.ident == "self" => self.note(before, None, is_exported),
            UseTree::Name(name) => {
                before.push(name.ident.to_string());
                self.note(before, None, is_exported);
            }
            UseTree::Rename(rename) => {
                before.push(rename.ident.to_string());
                self.note(before, Some(rename.rename.to_string()), is_exported);
            }
            UseTree::Glob(_) => {
                before.push("*".to_owned());
                self.note(before, None, is_exported);
            }
        }
    }

    /// The arguments of a macro are no syntax tree: its paths are found by their first word.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut is_open = false;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) if path.is_empty() || is_open => {
                    path.push(ident.to_string());
                    is_open = false;
                    continue;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => {
                    is_open = true;
                    continue;
                }
                TokenTree::Group(group) => self.note_tokens(group.stream()),
                _ => {}
            }
            self.note_if_path(&mut path);
            is_open = false;
        }
        self.note_if_path(&mut path);
    }

    fn note_if_path(&mut self, path: &mut Path) {
        if path.len() > 1 {
            self.note(std::mem::take(path), None, false);
        }
        path.clear();
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if !is_for_tests(&item.attrs) {
            let is_exported = !matches!(item.vis, Visibility::Inherited);
            self.note_tree(&item.tree, Path::new(), is_exported);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let segments = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string());
            self.note(segments.collect(), None, false);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.note_tokens(invocation.tokens.clone());
        visit::visit_macro(self, invocation);
    }

    /// Who may see something is no import either.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    /// Documentation is no import.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}
