//! Names of entries: built from what they are, so that no two things collide and nothing depends
//! on the shard count. Top byte: the kind; below it two 60-bit numbers.

use crate::contract::Key;

const KIND_SHIFT: u32 = 120;
const FIRST_SHIFT: u32 = 60;
const NUMBER_MASK: u128 = (1 << 60) - 1;

fn key(kind: u8, first: u64, second: u64) -> Key {
    let (first, second) = (u128::from(first), u128::from(second));
    assert!(first <= NUMBER_MASK && second <= NUMBER_MASK, "key parts are 60 bits");
    Key(u128::from(kind) << KIND_SHIFT | first << FIRST_SHIFT | second)
}

/// Entry that a user's `request` wrote (the turn's context).
pub(crate) fn turn(user: u64, request: u64) -> Key {
    key(1, user, request)
}

pub(crate) fn system_prompt(index: u32) -> Key {
    key(2, u64::from(index), 0)
}

/// An entry written for a decode-only run.
pub(crate) fn population(user: u64, index: u32) -> Key {
    key(3, user, u64::from(index))
}

pub(crate) fn chunk(document: u32, chunk: u32) -> Key {
    key(4, u64::from(document), u64::from(chunk))
}

/// A block of a trace of prefix blocks, in one of its cycles.
pub(crate) fn block(cycle: u32, hash_id: u64) -> Key {
    key(5, u64::from(cycle), hash_id)
}

/// An entry of a logical trace.
pub(crate) fn replayed(user: u64) -> Key {
    key(6, user, 0)
}

/// Largest part of a key.
pub(crate) const PART_MAX: u64 = NUMBER_MASK as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_numbers_do_not_collide() {
        let keys = [
            turn(1, 2),
            turn(2, 1),
            system_prompt(1),
            population(1, 2),
            turn(1, 1 << 40),
            chunk(1, 2),
            block(1, 2),
            replayed(1),
        ];
        for (i, a) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|b| a != b));
        }
    }
}
