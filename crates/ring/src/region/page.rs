//! Pages of memory.

pub(super) const HUGE_PAGE: usize = 2 << 20;
pub(super) const PAGE: usize = 4096;

/// Which pages to ask for; also which were had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PagePolicy {
    /// 2 MB pages if the administrator reserved enough (`vm.nr_hugepages`), else as `Transparent`.
    Huge,
    /// Normal pages which the kernel may join to 2 MB pages (`MADV_HUGEPAGE`): fewer TLB misses,
    /// but the first byte touched in 2 MB may cost all of them.
    #[default]
    Transparent,
    /// Normal pages, 4 KB.
    Small,
}
