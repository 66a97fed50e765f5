use proptest::prelude::*;

use super::*;

const KIB: usize = 1 << 10;
/// A largest block. Miri takes a thousand times as long.
const LARGEST: usize = if cfg!(miri) { 32 * KIB } else { 8 << 20 };
/// Blocks of 2 KiB in it.
const SMALL: usize = LARGEST / (2 * KIB);
/// Pools of the random test, KiB.
const POOLS: usize = if cfg!(miri) { 64 } else { 3000 };

#[test]
fn classes_are_the_documented_ones() {
    let sizes: Vec<u32> = (0..9).map(class_bytes).collect();
    let documented = [1, 4, 16, 64, 256, 1024, 4096, 16_384, 65_536].map(|blocks| blocks << 9);
    assert_eq!(sizes, documented);
    for (class, &size) in sizes.iter().enumerate() {
        assert_eq!(class_for(size), Some(class));
        assert_eq!(class_for(size - 1), Some(class));
        assert_eq!(class_for(size + 1), (class < 8).then_some(class + 1));
    }
    assert_eq!((class_for(0), class_for(u32::MAX)), (Some(0), None));
}

#[test]
fn hands_out_all_of_it_and_no_more() {
    // Blocks of 8 and 2 MiB, two of 8 KiB, one of 2 KiB, one of 512: the last, incomplete block is
    // used too.
    let bytes = LARGEST + LARGEST / 4 + 18 * KIB + 512;
    let mut pool = Pool::new(bytes, LARGEST as u32, PagePolicy::Small).unwrap();
    let mut blocks = Vec::new();
    while let Some(block) = pool.allocate(1) {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), bytes / 512);
    assert_eq!((pool.in_use(), pool.high_water()), (bytes, bytes));
    let mut offsets: Vec<usize> = blocks.iter().map(Block::offset).collect();
    offsets.sort_unstable();
    offsets.dedup();
    assert_eq!(offsets.len(), blocks.len());
    assert!(offsets.iter().all(|offset| offset + 512 <= bytes));
    blocks.into_iter().for_each(|block| pool.free(block));
    assert!(pool.is_empty());
}

#[test]
fn a_descriptor_says_where_a_block_is_and_how_large() {
    for class in 0..9 {
        // The last one of the largest pool, 1 TiB.
        let last = u32::try_from((1_u64 << 40) / u64::from(class_bytes(class)) - 1).unwrap();
        for index in [0, 1, 2, 3, last / 2, last] {
            let block = Block::new(class, index).unwrap();
            let same = Block::from_descriptor(block.descriptor()).unwrap();
            assert_eq!((same.class(), same.index()), (class, index));
            assert_eq!(same.capacity(), class_bytes(class));
            let offset = index as usize * class_bytes(class) as usize;
            assert_eq!(same.offset(), offset, "class {class}, index {index}");
        }
        assert!(Block::new(class, last + 1).is_none(), "class {class}");
    }
    assert!(Block::from_descriptor(0).is_none());
}

#[test]
fn memory_moves_between_the_classes() {
    let mut pool = Pool::new(LARGEST, LARGEST as u32, PagePolicy::Small).unwrap();
    for _ in 0..3 {
        let small: Vec<_> = (0..SMALL).map(|_| pool.allocate(2048).unwrap()).collect();
        assert!(pool.allocate(1).is_none());
        small.into_iter().for_each(|block| pool.free(block));
        let all = pool.allocate(LARGEST as u32).unwrap();
        assert!(pool.allocate(1).is_none());
        pool.free(all);
    }
    assert_eq!(pool.high_water(), LARGEST);
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
    assert_eq!(tiny.capacity(), 512);
    assert!(tiny.allocate(513).is_none());
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
    /// A ledger that is told which blocks are in use gives out all others, and no byte twice.
    #[test]
    fn a_ledger_goes_on_for_another(kib in 1usize..POOLS, max_class in 0usize..7,
                                    ops in prop::collection::vec((any::<prop::sample::Index>(), 0u32..23, any::<bool>()), 1..120)) {
        let bytes = kib * KIB;
        let mut before = Pool::new(bytes, class_bytes(max_class), PagePolicy::Small).unwrap();
        let mut held: Vec<Block> = Vec::new();
        for (pick, bits, allocate) in ops {
            if allocate {
                held.extend(before.allocate(1 << bits));
            } else if !held.is_empty() {
                before.free(held.swap_remove(pick.index(held.len())));
            }
        }
        let mut pool = Pool::new(bytes, class_bytes(max_class), PagePolicy::Small).unwrap();
        for block in &held {
            prop_assert!(pool.ledger.claim(block));
            prop_assert!(!pool.ledger.claim(block), "twice");
        }
        prop_assert_eq!(pool.in_use(), before.in_use());
        while let Some(block) = pool.allocate(1) {
            held.push(block);
        }
        let mut ranges: Vec<_> = held.iter().map(Block::range).collect();
        ranges.sort_by_key(|range| range.start);
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        prop_assert_eq!(ranges.last().map(|range| range.end), Some(pool.capacity()));
        held.into_iter().for_each(|block| pool.free(block));
        prop_assert!(pool.is_empty());
    }

    /// A word that is no block of this pool claims nothing, and does no harm.
    #[test]
    fn any_word_may_be_claimed(kib in 1usize..POOLS, words in prop::collection::vec(any::<u32>(), 1..60)) {
        let mut pool = Pool::new(kib * KIB, 256 << 10, PagePolicy::Small).unwrap();
        let mut held = Vec::new();
        for word in words {
            let block = Block::from_descriptor(word % (4 * kib as u32).next_power_of_two());
            held.extend(block.filter(|block| pool.ledger.claim(block)));
        }
        let capacity = pool.capacity();
        prop_assert!(held.iter().all(|block| block.range().end <= capacity));
        held.into_iter().for_each(|block| pool.free(block));
        prop_assert!(pool.is_empty());
    }

    /// Blocks never overlap, bytes stay what their owner wrote, accounts are right, and nothing
    /// leaks.
    #[test]
    fn blocks_are_disjoint(kib in 1usize..POOLS, max_class in 0usize..7,
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
