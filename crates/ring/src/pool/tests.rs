use proptest::prelude::*;

use super::*;

const KIB: usize = 1 << 10;

#[test]
fn classes_are_the_documented_ones() {
    let sizes: Vec<u32> = (0..8).map(class_bytes).collect();
    let documented = [2, 8, 32, 128, 512, 2048, 8192, 32_768].map(|kib| kib << 10);
    assert_eq!(sizes, documented);
    for (class, &size) in sizes.iter().enumerate() {
        assert_eq!(class_for(size), Some(class));
        assert_eq!(class_for(size - 1), Some(class));
        assert_eq!(class_for(size + 1), (class < 7).then_some(class + 1));
    }
    assert_eq!((class_for(0), class_for(u32::MAX)), (Some(0), None));
}

#[test]
fn hands_out_all_of_it_and_no_more() {
    // 8 MiB + 2 MiB + 2 * 8 KiB + 2 KiB: the last, incomplete block is used too.
    let bytes = (8 << 20) + (2 << 20) + 18 * KIB;
    let mut pool = Pool::new(bytes, 8 << 20, PagePolicy::Small).unwrap();
    let mut blocks = Vec::new();
    while let Some(block) = pool.allocate(1) {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), bytes / (2 * KIB));
    assert_eq!((pool.in_use(), pool.high_water()), (bytes, bytes));
    let mut offsets: Vec<usize> = blocks.iter().map(Block::offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!(offsets.len(), blocks.len());
    assert!(offsets.iter().all(|offset| offset + 2 * KIB <= bytes));
    blocks.into_iter().for_each(|block| pool.free(block));
    assert!(pool.is_empty());
}

#[test]
fn memory_moves_between_the_classes() {
    let mut pool = Pool::new(8 << 20, 8 << 20, PagePolicy::Small).unwrap();
    for _ in 0..3 {
        let small: Vec<_> = (0..4096).map(|_| pool.allocate(2048).unwrap()).collect();
        assert!(pool.allocate(1).is_none());
        small.into_iter().for_each(|block| pool.free(block));
        let all = pool.allocate(8 << 20).unwrap();
        assert!(pool.allocate(1).is_none());
        pool.free(all);
    }
    assert_eq!(pool.high_water(), 8 << 20);
}

#[test]
fn the_last_freed_is_the_next_handed_out() {
    let mut pool = Pool::new(1 << 20, 1 << 20, PagePolicy::Small).unwrap();
    let _first = pool.allocate(2048).unwrap();
    let second = pool.allocate(2048).unwrap();
    let offset = second.offset();
    pool.free(second);
    assert_eq!(
        pool.allocate(2048).map(|block| block.offset()),
        Some(offset)
    );
}

#[test]
fn odd_sizes_and_foreign_blocks_do_no_harm() {
    let mut tiny = Pool::new(0, 8 << 20, PagePolicy::Small).unwrap();
    assert_eq!(tiny.capacity(), 2 * KIB);
    assert!(tiny.allocate(2049).is_none());
    let mut large = Pool::new(4 << 20, 32 << 10, PagePolicy::Small).unwrap();
    assert!(
        large.allocate(33 << 10).is_none(),
        "above the largest block"
    );
    let blocks: Vec<_> = (0..64).map(|_| large.allocate(32 << 10).unwrap()).collect();
    assert!(tiny.bytes(blocks.last().unwrap()).is_empty());
    blocks.into_iter().for_each(|block| tiny.free(block));
    assert!(tiny.is_empty());
    assert!(tiny.allocate(1).is_some() && tiny.allocate(1).is_none());
    assert!(Pool::new(usize::MAX, 1, PagePolicy::Small).is_err());
}

proptest! {
    /// Blocks never overlap, bytes stay what their owner wrote, accounts are right, and nothing leaks.
    #[test]
    fn blocks_are_disjoint(kib in 1usize..3000, max_class in 0usize..7,
                           ops in prop::collection::vec((any::<prop::sample::Index>(), 0u32..23, any::<bool>()), 1..120)) {
        let mut pool = Pool::new(kib * KIB, class_bytes(max_class), PagePolicy::Small).unwrap();
        let mut held: Vec<(Block, u8)> = Vec::new();
        let mut tag = 0u8;
        for (pick, bits, allocate) in ops {
            if allocate {
                if let Some(mut block) = pool.allocate(1 << bits) {
                    prop_assert!(block.capacity() >= 1 << bits);
                    tag = tag.wrapping_add(1);
                    pool.bytes_mut(&mut block).fill(tag);
                    held.push((block, tag));
                }
            } else if !held.is_empty() {
                let (block, tag) = held.swap_remove(pick.index(held.len()));
                let bytes = pool.bytes(&block);
                prop_assert!(bytes.len() == block.capacity() as usize);
                prop_assert!(bytes.iter().all(|&byte| byte == tag));
                pool.free(block);
            }
            let sum: usize = held.iter().map(|(block, _)| block.capacity() as usize).sum();
            prop_assert_eq!(pool.in_use(), sum);
        }
        held.into_iter().for_each(|(block, _)| pool.free(block));
        prop_assert!(pool.is_empty());
        let mut rest = 0;
        while let Some(block) = pool.allocate(1) { rest += block.capacity() as usize; }
        prop_assert_eq!(rest, pool.capacity());
    }
}
