//! The methods that a file gives to types.

use syn::{ImplItem, Item, ItemImpl, Type};

use super::imports::is_for_tests;

/// The methods that one `impl` of a file gives to a type.
#[derive(Debug)]
pub struct Impl {
    pub type_name: String,
    pub methods: usize,
}

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
                methods: methods(block),
            })
        })
        .collect()
}

fn methods(block: &ItemImpl) -> usize {
    let methods = block
        .items
        .iter()
        .filter(|item| matches!(item, ImplItem::Fn(function) if !is_for_tests(&function.attrs)));
    methods.count()
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
