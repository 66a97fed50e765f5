//! The methods that a file gives to types.

use syn::visit::{self, Visit};
use syn::{Expr, ImplItem, ImplItemFn, Item, ItemImpl, Type};

use super::imports::is_for_tests;

/// The methods that one `impl` of a file gives to a type.
#[derive(Debug)]
pub struct Impl {
    pub type_name: String,
    pub methods: usize,
    /// Those that do more than to delegate.
    pub busy: Vec<String>,
}

/// A method that delegates has no more statements than that, and no branch or loop.
const MOST_STATEMENTS: usize = 3;

/// All inherent `impl`s of a file.
pub fn of(items: &[Item]) -> Vec<Impl> {
    let impls = items.iter().filter_map(|item| match item {
        Item::Impl(block) if block.trait_.is_none() && !is_for_tests(&block.attrs) => Some(block),
        _ => None,
    });
    impls
        .filter_map(|block| {
            Some(Impl {
                type_name: type_name(block)?,
                methods: methods(block).count(),
                busy: methods(block)
                    .filter(|function| !delegates(function))
                    .map(|function| function.sig.ident.to_string())
                    .collect(),
            })
        })
        .collect()
}

fn methods(block: &ItemImpl) -> impl Iterator<Item = &ImplItemFn> {
    block.items.iter().filter_map(|item| match item {
        ImplItem::Fn(function) if !is_for_tests(&function.attrs) => Some(function),
        _ => None,
    })
}

/// Whether a method leaves what there is to do to others.
fn delegates(function: &ImplItemFn) -> bool {
    let mut branches = Branches(false);
    branches.visit_block(&function.block);
    !branches.0 && function.block.stmts.len() <= MOST_STATEMENTS
}

/// Looks for what decides or repeats.
struct Branches(bool);

impl<'ast> Visit<'ast> for Branches {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        self.0 |= matches!(
            expr,
            Expr::If(_) | Expr::Match(_) | Expr::ForLoop(_) | Expr::While(_) | Expr::Loop(_)
        );
        visit::visit_expr(self, expr);
    }
}

fn type_name(block: &ItemImpl) -> Option<String> {
    match block.self_ty.as_ref() {
        Type::Path(path) => path
            .path
            .segments
            .last()
            .map(|segment| segment.ident.to_string()),
        _ => None,
    }
}
