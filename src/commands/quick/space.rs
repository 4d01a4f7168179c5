//! Space that quick's measured run would have by choice, and why it has less.

use ringfall_host::{human, human_apart};

use super::FREE_PERCENT;

/// Space by choice, before it is known what the disk has room for and the drive writes.
#[derive(Clone, Copy)]
pub(super) struct FirstSpace {
    pub(super) bytes: u64,
    /// Whether it is that of the answer to stand beside.
    pub(super) is_of_other: bool,
    /// Part of the free space that may be used, bytes.
    pub(super) room_bytes: u64,
}

impl FirstSpace {
    /// Sentence on a run that has `taken_bytes`, on a drive that writes `written_bytes` in the time
    /// for filling them; none where neither room nor drive makes it less than by choice.
    pub(super) fn told(&self, taken_bytes: u64, written_bytes: u64) -> Option<String> {
        if taken_bytes >= self.bytes {
            return None;
        }
        let room = (self.room_bytes < self.bytes).then(|| {
            let room = human(self.room_bytes);
            format!("there is room for {room} ({FREE_PERCENT} % of what is free)")
        });
        let is_slow = written_bytes < self.bytes.min(self.room_bytes);
        let slow = is_slow.then(|| {
            let written = human(written_bytes);
            format!("the drive writes {written} in a sixth of --time (--space takes more)")
        });
        let reasons: Vec<String> = room.into_iter().chain(slow).collect();
        if reasons.is_empty() {
            return None;
        }
        let (taken, first) = human_apart(taken_bytes, self.bytes);
        let first = match self.is_of_other {
            true => format!("the {first} of the answer beside it"),
            false => format!("the usual {first}"),
        };
        let why = reasons.join(", and ");
        Some(format!("the run had {taken} of space rather than {first}: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::GIB;

    use super::*;

    /// It shrank from 6.0 to 3.8 GiB without a word.
    #[test]
    fn a_space_that_is_not_the_first_choice_is_told_with_both_sizes_and_the_reason() {
        let first = FirstSpace { bytes: 6 * GIB, is_of_other: false, room_bytes: 90 * GIB };
        let little = FirstSpace { room_bytes: 4 * GIB, ..first };
        let beside = FirstSpace { is_of_other: true, ..little };
        let smaller = GIB * 15 / 4;
        for (space, written_bytes, told) in [
            (
                little,
                9 * GIB,
                "the run had 3.8 GiB of space rather than the usual 6.0 GiB: there is room for \
                 4.0 GiB (90 % of what is free)",
            ),
            (
                beside,
                9 * GIB,
                "the run had 3.8 GiB of space rather than the 6.0 GiB of the answer beside it: \
                 there is room for 4.0 GiB (90 % of what is free)",
            ),
            (
                first,
                smaller,
                "the run had 3.8 GiB of space rather than the usual 6.0 GiB: the drive writes 3.8 \
                 GiB in a sixth of --time (--space takes more)",
            ),
            (
                little,
                smaller,
                "the run had 3.8 GiB of space rather than the usual 6.0 GiB: there is room for \
                 4.0 GiB (90 % of what is free), and the drive writes 3.8 GiB in a sixth of \
                 --time (--space takes more)",
            ),
        ] {
            assert_eq!(space.told(smaller, written_bytes).as_deref(), Some(told));
        }
        assert_eq!(first.told(6 * GIB, 9 * GIB), None);
        // Rounded down to a step.
        assert_eq!(first.told(5 * GIB, 9 * GIB), None);
    }
}
