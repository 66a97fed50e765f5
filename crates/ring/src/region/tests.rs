use super::*;

/// Resident bytes of this process.
#[cfg(not(miri))]
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * PAGE
}

#[test]
fn regions_are_zero_writable_and_rounded() {
    for policy in [PagePolicy::Huge, PagePolicy::Transparent, PagePolicy::Small] {
        for bytes in [0, 1, PAGE, HUGE_PAGE + 1] {
            let mut region = Region::new(bytes, policy).unwrap();
            assert!(region.len() >= bytes.max(1) && region.len().is_multiple_of(PAGE));
            assert_eq!(region.as_ptr() as usize % PAGE, 0);
            assert!(region.as_slice().iter().all(|&byte| byte == 0));
            region.as_mut_slice().fill(7);
            assert_eq!(region.as_slice().last(), Some(&7));
        }
    }
}

#[test]
#[cfg(not(miri))]
fn large_regions_are_aligned_and_cost_nothing_until_touched() {
    let before = resident();
    let region = Region::new(8 << 30, PagePolicy::Transparent).unwrap();
    if region.kind() == PagePolicy::Transparent {
        assert_eq!(region.as_ptr() as usize % HUGE_PAGE, 0);
    }
    let column = Column::<[u64; 8]>::new(1 << 24, PagePolicy::Transparent).unwrap();
    assert_eq!(column.len(), 1 << 24);
    assert!(resident() < before + (256 << 20));
}

#[test]
fn impossible_sizes_are_errors() {
    for policy in [PagePolicy::Huge, PagePolicy::Transparent, PagePolicy::Small] {
        for bytes in [usize::MAX, isize::MAX as usize, usize::MAX - HUGE_PAGE] {
            let error = Region::new(bytes, policy).unwrap_err().to_string();
            assert!(error.contains(&bytes.to_string()), "{error}");
        }
    }
    assert!(Column::<u64>::with_capacity(usize::MAX / 4, PagePolicy::Small).is_err());
}

#[test]
fn columns_grow_to_their_capacity() {
    let mut column = Column::with_capacity(3, PagePolicy::Small).unwrap();
    assert!(column.is_empty());
    for value in [10u16, 11, 12] {
        column.push(value).unwrap();
    }
    assert_eq!(column.push(13), Err(13));
    assert_eq!(*column, [10, 11, 12]);
    column[1] = 21;
    assert_eq!(column.swap_remove(0), Some(10));
    assert_eq!(*column, [12, 21]);
    assert_eq!(column.swap_remove(1), Some(21));
    assert_eq!(column.swap_remove(1), None);
    assert_eq!(column.pop(), Some(12));
    assert_eq!(column.pop(), None);
    assert!(column.resize(3, 5) && !column.resize(4, 5));
    assert_eq!(*column, [5, 5, 5]);
    assert!(column.resize(1, 9));
    assert_eq!(*column, [5]);
    column.prefetch(0);
    column.prefetch(99);
    assert_eq!(
        *Column::filled(2, 'x', PagePolicy::Small).unwrap(),
        ['x'; 2]
    );
    assert_eq!(
        Column::<[u8; 0]>::new(9, PagePolicy::Small).unwrap().len(),
        9
    );
}

#[cfg(not(miri))]
mod shared {
    use std::os::fd::OwnedFd;

    use proptest::prelude::*;

    use super::*;

    fn dup(shared: &Shared) -> OwnedFd {
        shared.fd().try_clone_to_owned().unwrap()
    }

    #[test]
    fn a_sealed_region_is_seen_by_the_receiver() {
        let ours = Shared::create("ring-test", 10_000).unwrap();
        ours.seal().unwrap();
        let theirs = Shared::from_fd(dup(&ours), 10_000).unwrap();
        assert_eq!(theirs.len(), 10_000);
        assert!(ours.write_at(4_090, b"across a page"));
        let mut seen = [0; 13];
        assert!(theirs.read_at(4_090, &mut seen));
        assert_eq!(&seen, b"across a page");
        assert!(rustix::fs::ftruncate(ours.fd(), 0).is_err());
    }

    #[test]
    fn what_could_be_taken_away_is_refused() {
        let ours = Shared::create("ring-test", 5_000).unwrap();
        let error = Shared::from_fd(dup(&ours), 1 << 20).unwrap_err();
        assert!(error.to_string().contains("sealed"), "{error}");
        ours.seal().unwrap();
        assert!(ours.seal().is_err());
        let error = Shared::from_fd(dup(&ours), 4_999).unwrap_err();
        assert!(error.to_string().contains("5000"), "{error}");
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Shared::from_fd(file.into(), usize::MAX).is_err());
        assert!(Shared::create("ring-test", 0).is_err());
    }

    /// No child has what is kept from children, nor unmaps what lies there instead; nor can anyone
    /// execute the memory.
    #[test]
    fn shared_memory_is_kept_from_children_and_from_being_executed() {
        let mut ours = Shared::create("ring-test", 2 * PAGE).unwrap();
        assert!(ours.keep_from_children());
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let at = format!("{:x}-", ours.as_ptr() as usize);
        let from = maps.find(&format!("\n{at}")).map_or(0, |from| from + 1);
        let flags = maps[from..]
            .lines()
            .find(|line| line.starts_with("VmFlags:"));
        let flags: Vec<_> = flags.unwrap().split_whitespace().collect();
        assert!(flags.contains(&"dc"), "{flags:?}");
        assert!(flags.contains(&"nr"), "no room is set aside: {flags:?}");
        let mode = rustix::fs::fstat(ours.fd()).unwrap().st_mode;
        let seals = rustix::fs::fcntl_get_seals(ours.fd()).unwrap();
        let sealed = seals.contains(rustix::fs::SealFlags::EXEC);
        assert!(!sealed || mode & 0o111 == 0, "{mode:o}");
    }

    #[test]
    fn nothing_outside_is_reached() {
        let shared = Shared::create("ring-test", 100).unwrap();
        assert!(!shared.write_at(99, b"xy") && !shared.write_at(usize::MAX, b"x"));
        assert!(!shared.read_at(101, &mut []) && !shared.read_at(0, &mut [0; 101]));
        assert!(shared.read_at(100, &mut []) && shared.write_at(99, b"x"));
    }

    proptest! {
        #[test]
        fn copies_any_range(offset in 0usize..64, bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let shared = Shared::create("ring-test", 128).unwrap();
            prop_assert!(shared.write_at(offset, &bytes));
            let mut all = [0; 128];
            prop_assert!(shared.read_at(0, &mut all));
            let mut expected = [0; 128];
            expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
            prop_assert_eq!(all, expected);
            let mut part = vec![1; bytes.len()];
            prop_assert!(shared.read_at(offset, &mut part));
            prop_assert_eq!(part, bytes);
        }
    }
}

#[test]
#[cfg(not(miri))]
fn a_shrunk_column_gives_its_memory_back() {
    let bytes = 128 << 20;
    for policy in [PagePolicy::Transparent, PagePolicy::Small] {
        let mut column = Column::<u64>::with_capacity(bytes / 8, policy).unwrap();
        assert!(column.resize(bytes / 8, 7));
        let full = resident();
        column.shrink(1000);
        assert!(resident() + bytes / 2 < full, "{policy:?}");
        assert_eq!((column.len(), column.last()), (1000, Some(&7)));
        // Nothing to give back.
        column.shrink(2000);
        assert!(column.resize(bytes / 8, 9));
        assert_eq!((column[999], column[1000], column.last()), (7, 9, Some(&9)));
    }
}

#[test]
#[should_panic(expected = "beyond the region")]
fn what_is_not_of_the_region_is_not_given_back() {
    let mut region = Region::new(PAGE, PagePolicy::Small).unwrap();
    region.give_back(0..2 * PAGE);
}

/// Whether there is memory behind the page at `at` (proc_pid_pagemap(5)).
#[cfg(not(miri))]
fn is_present(at: *const u8) -> bool {
    use std::os::unix::fs::FileExt;

    let map = std::fs::File::open("/proc/self/pagemap").unwrap();
    let mut entry = [0; 8];
    map.read_exact_at(&mut entry, (at as usize / PAGE * 8) as u64)
        .unwrap();
    u64::from_ne_bytes(entry) >> 63 == 1
}

#[test]
#[cfg(not(miri))]
fn memory_is_there_as_far_as_asked_for() {
    let mut column = Column::<u64>::with_capacity(1 << 20, PagePolicy::Small).unwrap();
    column.push(7).unwrap();
    column.prefault(1 << 10);
    let page =
        |column: &Column<u64>, n: usize| is_present(column.as_ptr().wrapping_add(n << 9).cast());
    assert!(page(&column, 0) && page(&column, 1));
    assert!(!page(&column, 2));
    assert_eq!(*column, [7]);
    column.prefault(usize::MAX);
    assert!(page(&column, 2) && page(&column, (1 << 11) - 1));
    assert_eq!(*column, [7]);
}
