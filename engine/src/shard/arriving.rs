//! Keys whose entry is on its way into the index: being written, and waiting for room.

use std::cell::RefCell;

use hashbrown::HashTable;

use crate::key::EntryKey;

/// A set of keys. All operations O(1); keeps its memory, so that a write allocates none.
#[derive(Default)]
pub(super) struct ArrivingKeys {
    keys: RefCell<HashTable<EntryKey>>,
}

impl ArrivingKeys {
    /// Whether an entry of that key is on its way.
    pub(super) fn contains(&self, key: EntryKey) -> bool {
        let keys = self.keys.borrow();
        !keys.is_empty() && keys.find(key.hash64(), |&other| other == key).is_some()
    }

    pub(super) fn insert(&self, key: EntryKey) {
        debug_assert!(!self.contains(key), "one write of a key at a time");
        self.keys.borrow_mut().insert_unique(key.hash64(), key, |key| key.hash64());
    }

    /// Takes a key out that is in it.
    pub(super) fn remove(&self, key: EntryKey) {
        let mut keys = self.keys.borrow_mut();
        let found = keys.find_entry(key.hash64(), |&other| other == key);
        found.expect("a key that arrives was noted").remove();
    }

    pub(super) fn len(&self) -> usize {
        self.keys.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_and_go() {
        let arriving = ArrivingKeys::default();
        (0..100).for_each(|key| arriving.insert(EntryKey(key)));
        (0..100).step_by(2).for_each(|key| arriving.remove(EntryKey(key)));
        assert_eq!(arriving.len(), 50);
        assert!((0..100).all(|key| arriving.contains(EntryKey(key)) == (key % 2 == 1)));
    }
}
