//! Which drives an entry goes to, and how much of it each one gets.
//!
//! A striped entry is divided in proportion to what each drive can still take: drives of any sizes
//! fill evenly, and every entry is read at the speed of all of them. What waits for a drive does
//! not change its part: it goes up and down by more than an entry, and a layout made by it stays
//! long after. (Measured on four drives of speeds as their sizes: reads reached 0.81 of the sum
//! where parts followed what waited.)
//!
//! A tier that is full has only what its victims left, and what lies idle between entries. Divided
//! in proportion to that, an entry would lie as its victims did, and parts would drift from the
//! drives' sizes for ever. There each drive's part goes by its size, as far as it has room: what
//! lies idle takes up the difference, and an entry that lies right leaves room for one that does.
//!
//! Whole entries on one drive, and entries smaller than a part, go where least is held and waits,
//! relative to the size of the drive.
//!
//! An entry is read and written whole, by all of its drives at once: so each one's part is in one
//! piece, where it can be, and not interleaved.

/// A tier with room for fewer entries of a kind is full for it: what is free is what others left.
const ROOMY_ENTRIES: u128 = 4;

/// Layout of an entry on several drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EntryLayout {
    /// A part on each drive, of one I/O at least: one entry moves at the speed of all of them.
    #[default]
    Stripe,
    /// All on one drive, unless it is larger than any: a lost drive loses its own entries only, and
    /// fewer entries wait for each other's drives.
    Whole,
}

/// Room of a drive, as one shard sees it. In blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Room {
    /// It may ever hold.
    pub(super) capacity: u64,
    /// It has free and usable at once.
    pub(super) free: u64,
    /// May still come to it.
    pub(super) to_come: u64,
    /// Are on their way to or from it, or wait for it.
    pub(super) waiting: u64,
}

impl Room {
    /// Blocks that it can still take.
    fn space(&self) -> u64 {
        self.free + self.to_come
    }
}

/// Rules by which entries are divided among the drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spread {
    pub(super) layout: EntryLayout,
    /// Smallest part, and what parts are multiples of; ≥ 1.
    pub(super) unit_blocks: u64,
}

impl Spread {
    /// Whether an entry of `blocks` is to lie on one drive, the largest of which holds so many.
    pub(super) fn is_whole(self, blocks: u64, largest_blocks: u64) -> bool {
        self.layout == EntryLayout::Whole && blocks <= largest_blocks
    }

    /// Divides `blocks` ≥ 1 among the drives, into `parts`; false when they do not have the room.
    /// O(drives²).
    pub(super) fn divide(self, blocks: u64, rooms: &[Room], parts: &mut Vec<u64>) -> bool {
        parts.clear();
        parts.resize(rooms.len(), 0);
        let largest = rooms.iter().map(|room| room.capacity).max().unwrap_or(0);
        if self.is_whole(blocks, largest) {
            let fitting = |&index: &usize| rooms[index].free >= blocks;
            let best = (0..rooms.len())
                .filter(fitting)
                .min_by(|&a, &b| level(rooms[a], blocks).cmp_to(level(rooms[b], blocks)));
            if let Some(index) = best {
                parts[index] = blocks;
            }
            return best.is_some();
        }
        if rooms.iter().map(|room| room.free).sum::<u64>() < blocks {
            return false;
        }
        let is_small = blocks < self.unit_blocks;
        if !is_small {
            self.share_out(blocks, rooms, parts);
        }
        let mut left = blocks - parts.iter().sum::<u64>();
        // What rounding left over goes by units, the rest to whoever has room for it.
        let mut units_left = if is_small { 0 } else { rooms.len() };
        while left > 0 {
            let has_more = |&index: &usize| rooms[index].free > parts[index];
            let after = |index: usize| {
                let waiting = if is_small { rooms[index].waiting } else { 0 };
                level(Room { waiting, ..rooms[index] }, parts[index] + self.unit_blocks.min(left))
            };
            let best = (0..rooms.len()).filter(has_more);
            let best = best.min_by(|&a, &b| after(a).cmp_to(after(b)));
            let index = best.expect("so many blocks are free");
            let most = if units_left > 0 { self.unit_blocks.min(left) } else { left };
            units_left = units_left.saturating_sub(1);
            let given = most.min(rooms[index].free - parts[index]);
            parts[index] += given;
            left -= given;
        }
        true
    }

    /// Whole units, in proportion to what each drive can still take; in a full tier to its size.
    fn share_out(self, blocks: u64, rooms: &[Room], parts: &mut [u64]) {
        let space: u128 = rooms.iter().map(|room| u128::from(room.space())).sum();
        let is_full = space < ROOMY_ENTRIES * u128::from(blocks);
        let weight = |room: &Room| match (room.free, is_full) {
            (0, _) => 0,
            (_, true) => u128::from(room.capacity),
            (_, false) => u128::from(room.space()),
        };
        let all: u128 = rooms.iter().map(weight).sum();
        for (part, room) in parts.iter_mut().zip(rooms) {
            // No more than `blocks`.
            let share = (u128::from(blocks) * weight(room) / all) as u64;
            *part = share.min(room.free) / self.unit_blocks * self.unit_blocks;
        }
    }
}

/// Fill level of a drive: what it holds and what waits for it, over its size; a fraction, compared
/// without rounding.
#[derive(Clone, Copy)]
struct Level {
    filled: u128,
    capacity: u128,
}

fn level(room: Room, more: u64) -> Level {
    let held = room.capacity.saturating_sub(room.space());
    let filled = u128::from(held) + u128::from(room.waiting) + u128::from(more);
    Level { filled, capacity: u128::from(room.capacity) }
}

impl Level {
    fn cmp_to(self, other: Level) -> std::cmp::Ordering {
        (self.filled * other.capacity).cmp(&(other.filled * self.capacity))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn room(free: u64, waiting: u64) -> Room {
        Room { capacity: 1_000_000, free, to_come: 0, waiting }
    }

    fn divide(layout: EntryLayout, blocks: u64, rooms: &[Room]) -> Option<Vec<u64>> {
        let mut parts = Vec::new();
        Spread { layout, unit_blocks: 10 }.divide(blocks, rooms, &mut parts).then_some(parts)
    }

    #[test]
    fn idle_drives_are_filled_in_proportion_to_what_they_have_free() {
        let rooms = [room(1_000, 0), room(3_000, 0), room(0, 0)];
        assert_eq!(divide(EntryLayout::Stripe, 400, &rooms), Some(vec![100, 300, 0]));
        // Less than a unit each: all on the one with most.
        assert_eq!(divide(EntryLayout::Stripe, 9, &rooms), Some(vec![0, 9, 0]));
        assert_eq!(divide(EntryLayout::Whole, 400, &rooms), Some(vec![0, 400, 0]));
        assert_eq!(divide(EntryLayout::Stripe, 4_000, &rooms), Some(vec![1_000, 3_000, 0]));
        assert_eq!(divide(EntryLayout::Stripe, 4_001, &rooms), None);
        assert_eq!(divide(EntryLayout::Whole, 3_001, &rooms), None, "no drive has so much");
    }

    #[test]
    fn what_lies_on_one_drive_keeps_away_from_one_that_lags() {
        let rooms = [room(1_000, 0), room(1_000, 200)];
        assert_eq!(divide(EntryLayout::Stripe, 400, &rooms), Some(vec![200, 200]));
        assert_eq!(divide(EntryLayout::Stripe, 9, &rooms), Some(vec![9, 0]));
        assert_eq!(divide(EntryLayout::Whole, 100, &rooms), Some(vec![100, 0]));
        // Whatever waits: where else should it go?
        let full = [room(50, 0), room(1_000, 100_000)];
        assert_eq!(divide(EntryLayout::Stripe, 400, &full), Some(vec![50, 350]));
        assert_eq!(divide(EntryLayout::Whole, 400, &full), Some(vec![0, 400]));
    }

    #[test]
    fn drives_fill_in_proportion_to_their_sizes_also_by_small_entries() {
        for (layout, blocks) in [
            (EntryLayout::Stripe, 3),
            (EntryLayout::Stripe, 17),
            (EntryLayout::Stripe, 470),
            (EntryLayout::Whole, 40),
        ] {
            let mut rooms = [1u64, 2, 3, 4].map(|size| room(size * 10_000, 0));
            rooms.iter_mut().for_each(|room| room.capacity = room.free);
            let mut parts = Vec::new();
            let mut held = 0;
            while held + blocks <= 50_000 {
                let spread = Spread { layout, unit_blocks: 10 };
                assert!(spread.divide(blocks, &rooms, &mut parts));
                rooms.iter_mut().zip(&parts).for_each(|(room, part)| room.free -= part);
                held += blocks;
            }
            for room in rooms {
                let filled = (room.capacity - room.free) as f64 / room.capacity as f64;
                assert!((0.49..0.51).contains(&filled), "{layout:?} {blocks}: {rooms:?}");
            }
        }
    }

    /// Parts were those that the victims had: the drives of an entry were 0.95 as fast together as
    /// they are alone, and no better for any number of entries that were written over.
    #[test]
    fn a_tier_written_over_many_times_keeps_the_drives_in_step() {
        let spread = Spread { layout: EntryLayout::Stripe, unit_blocks: 1 };
        let mut rooms = [1u64, 2, 3, 4].map(|size| room(size * 1_000, 0));
        rooms.iter_mut().for_each(|room| room.capacity = room.free);
        let (mut held, mut parts) = (std::collections::VecDeque::new(), Vec::new());
        for number in 0..5_000 {
            let blocks = 20 + crate::key::mix64(number) % 180;
            while !spread.divide(blocks, &rooms, &mut parts) {
                let victim: Vec<u64> = held.pop_front().unwrap();
                rooms.iter_mut().zip(victim).for_each(|(room, part)| room.free += part);
            }
            rooms.iter_mut().zip(&parts).for_each(|(room, part)| room.free -= part);
            held.push_back(parts.clone());
        }
        // Each drive as fast as it is large, an entry takes as long as the slowest of its parts.
        let (mut moved, mut took) = (0.0, 0.0);
        for parts in &held {
            let each =
                parts.iter().zip(&rooms).map(|(part, room)| *part as f64 / room.capacity as f64);
            took += each.fold(0.0, f64::max) * 10_000.0;
            moved += parts.iter().sum::<u64>() as f64;
        }
        assert!(moved / took > 0.96, "{:.3} of the drives' speed", moved / took);
    }

    #[test]
    fn an_entry_larger_than_any_drive_lies_on_several() {
        let rooms = [Room { capacity: 100, free: 100, to_come: 0, waiting: 0 }; 3];
        assert_eq!(divide(EntryLayout::Whole, 100, &rooms), Some(vec![100, 0, 0]));
        let parts = divide(EntryLayout::Whole, 250, &rooms).unwrap();
        assert!(parts.iter().sum::<u64>() == 250 && parts.iter().all(|&part| part > 0));
    }

    #[test]
    fn what_a_drive_lacks_for_its_part_goes_to_the_others() {
        let rooms = [5, 1_000, 1_000].map(|free| Room { capacity: 1_000, ..room(free, 0) });
        // Full for entries of 600: by size 200 each, of which the first has none. A unit at a time
        // as often as there are drives, then all.
        assert_eq!(divide(EntryLayout::Stripe, 600, &rooms), Some(vec![0, 220, 380]));
        let rooms = [room(0, 0), room(1_000, 0), room(1_000, 0)];
        assert_eq!(divide(EntryLayout::Stripe, 29, &rooms), Some(vec![0, 19, 10]));
    }

    #[test]
    fn parts_go_by_size_only_where_less_than_four_entries_have_room() {
        let rooms =
            [(100, 100), (1_000, 300)].map(|(capacity, free)| Room { capacity, ..room(free, 0) });
        // A quarter and three quarters of what is free; a unit is left over.
        assert_eq!(divide(EntryLayout::Stripe, 100, &rooms), Some(vec![30, 70]));
        assert_eq!(divide(EntryLayout::Stripe, 110, &rooms), Some(vec![10, 100]));
    }

    #[test]
    fn an_entry_of_one_part_does_not_heed_what_waits_and_a_smaller_one_does() {
        let rooms = [room(1_000, 200), room(1_000, 0)];
        assert_eq!(divide(EntryLayout::Stripe, 10, &rooms), Some(vec![10, 0]));
        assert_eq!(divide(EntryLayout::Stripe, 9, &rooms), Some(vec![0, 9]));
    }

    proptest! {
        /// All of it or nothing, never more than a drive has, and nothing only where it must be.
        #[test]
        fn parts_add_up_and_fit(
            blocks in 1..5_000u64,
            is_whole in any::<bool>(),
            unit_blocks in 1..300u64,
            drives in prop::collection::vec((0..3_000u64, 0..9_000u64, 0..2_000u64), 1..9),
        ) {
            let layout = if is_whole { EntryLayout::Whole } else { EntryLayout::Stripe };
            let spread = Spread { layout, unit_blocks };
            let rooms: Vec<Room> = drives
                .iter()
                .map(|&(free, waiting, used)| Room {
                    capacity: free + used,
                    free,
                    to_come: used / 2,
                    waiting,
                })
                .collect();
            let mut parts = Vec::new();
            let is_had = spread.divide(blocks, &rooms, &mut parts);
            let largest = rooms.iter().map(|room| room.capacity).max().unwrap();
            let on_one = spread.is_whole(blocks, largest);
            let free = rooms.iter().map(|room| room.free);
            let can = if on_one { free.max().unwrap() } else { free.sum() } >= blocks;
            prop_assert_eq!(is_had, can);
            if is_had {
                prop_assert_eq!(parts.iter().sum::<u64>(), blocks);
                prop_assert!(parts.iter().zip(&rooms).all(|(part, room)| *part <= room.free));
                let count = parts.iter().filter(|part| **part > 0).count();
                prop_assert!(!on_one || count == 1);
            }
        }
    }
}
