//! The extent allocator against a map of every block (tests only).

use proptest::prelude::*;

use super::allocator::{ExtentAllocator, SpaceFigures};
use super::extent::{Extent, ExtentList, ExtentListBuilder};
use super::spaces::Spaces;
use crate::drive::DriveId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Block {
    Absent,
    Free,
    Used,
}

struct Bitmap(Vec<Block>);

impl Bitmap {
    fn set(&mut self, start: u64, blocks: u64, from: Block, to: Block) {
        for block in &mut self.0[start as usize..(start + blocks) as usize] {
            assert_eq!(*block, from);
            *block = to;
        }
    }

    fn free(&self) -> u64 {
        self.0.iter().filter(|&&block| block == Block::Free).count() as u64
    }

    /// Runs of free blocks, cut at segment borders.
    fn free_runs(&self, segment_blocks: u64) -> Vec<u64> {
        let segments = self.0.chunks(segment_blocks as usize);
        let runs = segments.flat_map(|segment| segment.split(|&block| block != Block::Free));
        runs.map(|run| run.len() as u64).filter(|&len| len > 0).collect()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Lease { number: u64, blocks: u64 },
    Allocate { blocks: u64 },
    Free { nth: usize },
    TakeBack,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..12u64, 1..80u64).prop_map(|(number, blocks)| Op::Lease { number, blocks }),
        8 => (1..30u64).prop_map(|blocks| Op::Allocate { blocks }),
        2 => (1..300u64).prop_map(|blocks| Op::Allocate { blocks }),
        8 => (0..64usize).prop_map(|nth| Op::Free { nth }),
        1 => Just(Op::TakeBack),
    ]
}

fn figures_are_those_of(
    allocator: &ExtentAllocator,
    bitmap: &Bitmap,
    live: &[ExtentList],
    segment_blocks: u64,
) -> Result<(), TestCaseError> {
    let runs = bitmap.free_runs(segment_blocks);
    let figures = allocator.figures();
    prop_assert_eq!(figures.free_blocks, bitmap.free());
    prop_assert_eq!(figures.free_extents, runs.len() as u64);
    prop_assert_eq!(figures.largest_free_blocks, runs.into_iter().max().unwrap_or(0));
    let extents = live.iter().map(|list| list.as_slice().len() as u64).sum::<u64>();
    prop_assert_eq!(figures.live_extents, extents);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn it_equals_a_map_of_every_block(
        segment_blocks in 1..70u64,
        ops in prop::collection::vec(op(), 1..150),
    ) {
        let mut allocator = ExtentAllocator::new(DriveId(0), segment_blocks);
        let mut bitmap = Bitmap(vec![Block::Absent; 12 * segment_blocks as usize]);
        let mut live: Vec<ExtentList> = Vec::new();
        for op in ops {
            match op {
                Op::Lease { number, blocks } => {
                    // An engine has one short segment at most.
                    let short = bitmap.0.chunks(segment_blocks as usize).any(|segment| {
                        segment[0] != Block::Absent && segment.contains(&Block::Absent)
                    });
                    let blocks = if short { segment_blocks } else { blocks.min(segment_blocks) };
                    let start = number * segment_blocks;
                    let range = start as usize..(start + segment_blocks) as usize;
                    if bitmap.0[range].iter().all(|&block| block == Block::Absent) {
                        allocator.add_segment(number, blocks);
                        bitmap.set(start, blocks, Block::Absent, Block::Free);
                    }
                }
                Op::Allocate { blocks } => {
                    let fits = bitmap.free() >= blocks;
                    let largest = bitmap.free_runs(segment_blocks).into_iter().max().unwrap_or(0);
                    let list = allocator.allocate(blocks);
                    prop_assert_eq!(list.is_some(), fits);
                    if let Some(list) = list {
                        prop_assert_eq!(list.blocks(), blocks);
                        // A good fit is found whenever one exists with 1/16 to spare.
                        if largest > blocks + blocks / 16 {
                            prop_assert_eq!(list.as_slice().len(), 1);
                        }
                        for extent in list.as_slice() {
                            bitmap.set(
                                extent.start_block, extent.blocks, Block::Free, Block::Used,
                            );
                        }
                        live.push(list);
                    }
                }
                Op::Free { nth } if nth < live.len() => {
                    let list = live.swap_remove(nth);
                    list.as_slice().iter().for_each(|&extent| allocator.free(extent));
                    for extent in list.as_slice() {
                        bitmap.set(extent.start_block, extent.blocks, Block::Used, Block::Free);
                    }
                }
                Op::Free { .. } => {}
                Op::TakeBack => {
                    let runs = bitmap.free_runs(segment_blocks);
                    let taken = allocator.take_back_segment();
                    prop_assert!(taken.is_some() || !runs.contains(&segment_blocks));
                    if let Some((number, blocks)) = taken {
                        let start = number * segment_blocks;
                        bitmap.set(start, blocks, Block::Free, Block::Absent);
                    }
                }
            }
            figures_are_those_of(&allocator, &bitmap, &live, segment_blocks)?;
        }
        for list in live.drain(..) {
            list.as_slice().iter().for_each(|&extent| allocator.free(extent));
        }
        let figures = allocator.figures();
        prop_assert_eq!(figures.free_blocks, figures.leased_blocks, "a leak");
        prop_assert_eq!(figures.free_segments, figures.leased_segments, "not joined");
    }

    #[test]
    fn a_double_free_is_caught(sizes in prop::collection::vec(1..20u64, 2..10), nth in 0..10usize) {
        let mut allocator = ExtentAllocator::new(DriveId(3), 64);
        for number in 0..4 {
            allocator.add_segment(number, 64);
        }
        let lists: Vec<_> = sizes.iter().map(|&n| allocator.allocate(n).unwrap()).collect();
        let twice = lists[nth % lists.len()].as_slice()[0];
        allocator.free(twice);
        let second = std::panic::AssertUnwindSafe(|| allocator.free(twice));
        prop_assert!(std::panic::catch_unwind(second).is_err());
    }
}

#[test]
fn an_entry_larger_than_segments_is_contiguous_in_fresh_space() {
    let mut allocator = ExtentAllocator::new(DriveId(0), 16);
    for number in 0..8 {
        allocator.add_segment(number, 16);
    }
    let list = allocator.allocate(100).unwrap();
    assert_eq!(list.as_slice().len(), 1);
    assert_eq!(list.blocks(), 100);
}

/// The free pieces of 5, 20 and 40 blocks, in segments of 64 that are otherwise in use.
fn with_pieces() -> ExtentAllocator {
    let mut allocator = ExtentAllocator::new(DriveId(3), 64);
    for (number, piece) in [(300, 5), (5, 20), (700, 40)] {
        allocator.add_segment(number, 64);
        allocator.allocate(64 - piece).unwrap();
    }
    allocator
}

/// Blocks of each extent, and the segment that it lies in.
fn places(list: &ExtentList) -> Vec<(u64, u64)> {
    let place = |start_block| (start_block - DriveId(3).first_block()) / 64;
    list.as_slice().iter().map(|extent| (extent.blocks, place(extent.start_block))).collect()
}

/// A good fit leaves the larger pieces whole, whatever they are.
#[test]
fn an_allocation_takes_the_smallest_piece_that_surely_fits() {
    for (blocks, number) in [(5, 300), (4, 300), (6, 5), (20, 5), (21, 700), (33, 700), (40, 700)] {
        let list = with_pieces().allocate(blocks).unwrap();
        assert_eq!(places(&list), [(blocks, number)], "{blocks} blocks");
    }
}

#[test]
fn an_allocation_in_pieces_takes_the_largest_first() {
    let list = with_pieces().allocate(58).unwrap();
    assert_eq!(places(&list), [(40, 700), (18, 5)]);
    let list = with_pieces().allocate(65).unwrap();
    assert_eq!(places(&list), [(40, 700), (20, 5), (5, 300)]);
    assert!(with_pieces().allocate(66).is_none());
}

/// The last segment of a drive is short, and may be the only one that is wholly free.
#[test]
fn a_short_segment_is_a_piece_like_others() {
    let with_short = |blocks| {
        let mut allocator = with_pieces();
        allocator.add_segment(900, blocks);
        allocator
    };
    for (short, expected) in [
        (10, [(40, 700), (20, 5), (4, 300)].as_slice()),
        (22, &[(40, 700), (22, 900), (2, 300)]),
        (30, &[(40, 700), (24, 900)]),
    ] {
        assert_eq!(places(&with_short(short).allocate(64).unwrap()), expected, "{short} blocks");
    }
}

#[test]
fn an_entry_of_a_segment_lies_in_a_whole_one_although_a_short_one_comes_first() {
    let mut allocator = ExtentAllocator::new(DriveId(3), 64);
    allocator.add_segment(2, 30);
    allocator.add_segment(7, 64);
    assert_eq!(places(&allocator.allocate(64).unwrap()), [(64, 7)]);
}

#[test]
fn a_free_extent_has_the_memory_of_one_before_it() {
    let mut allocator = with_pieces();
    let nodes = allocator.node_count();
    for _ in 0..10 {
        let list = allocator.allocate(4).unwrap();
        list.as_slice().iter().for_each(|&extent| allocator.free(extent));
    }
    assert_eq!(allocator.node_count(), nodes);
}

#[test]
fn extents_are_counted_and_given_back_on_any_drive() {
    let mut allocator = with_pieces();
    assert_eq!((allocator.used_blocks(), allocator.live_extents()), (192 - 65, 3));
    let list = allocator.allocate(65).unwrap();
    assert_eq!((allocator.used_blocks(), allocator.free_blocks()), (192, 0));
    assert_eq!(allocator.live_extents(), 6);
    list.as_slice().iter().for_each(|&extent| allocator.free(extent));
    assert_eq!((allocator.live_extents(), allocator.figures().free_extents), (3, 3));
    assert_eq!(allocator.figures().largest_free_blocks, 40);
}

#[test]
fn lists_keep_each_extent_in_order_and_join_only_those_that_touch() {
    let extent = |start_block, blocks| Extent { start_block, blocks };
    let built = |extents: &[Extent]| {
        let mut list = ExtentListBuilder::default();
        extents.iter().for_each(|&extent| list.push(extent));
        (list.len(), list.finish())
    };
    let apart = [extent(10, 2), extent(20, 3), extent(30, 4), extent(5, 1)];
    for count in 0..=4 {
        let (len, list) = built(&apart[..count]);
        assert_eq!((len, list.as_slice()), (count, &apart[..count]));
        assert_eq!(list.only(), (count == 1).then_some(apart[0]));
        assert_eq!(list.is_empty(), count == 0);
    }
    let (len, list) = built(&[extent(10, 2), extent(12, 8), extent(20, 1), extent(30, 1)]);
    assert_eq!((len, list.as_slice()), (2, &[extent(10, 11), extent(30, 1)][..]));
}

#[test]
fn the_figures_of_several_drives_are_their_sum_and_their_largest_piece() {
    let mut spaces = Spaces::new(2, 64);
    for (drive, segments) in [(0, 1), (1, 3)] {
        (0..segments).for_each(|number| spaces.on_mut(drive).add_segment(number, 64));
    }
    let list = spaces.allocate(&[60, 70]);
    let figures = SpaceFigures {
        leased_blocks: 256,
        free_blocks: 126,
        free_extents: 3,
        largest_free_blocks: 64,
        live_extents: 2,
        leased_segments: 4,
        free_segments: 1,
    };
    assert_eq!(spaces.figures(), figures);
    spaces.free(&list);
    assert_eq!((spaces.figures().live_extents, spaces.figures().free_segments), (0, 4));
}
