//! What is remembered of conversations: which requests of a user were its earlier turns.
//!
//! At most so many are remembered at once; past that the least recently used one is forgotten:
//! its turns are no longer read back. The user's draws and turn numbers do not depend on that.

use std::collections::BTreeMap;

/// Histories of one shard's users. All operations O(log conversations).
#[derive(Debug)]
pub(crate) struct Conversations {
    limit: usize,
    live: BTreeMap<u32, Live>,
    /// Use counter to user, oldest first.
    by_use: BTreeMap<u64, u32>,
    uses: u64,
    pub(crate) forgotten: u64,
}

#[derive(Debug)]
struct Live {
    used: u64,
    turns: Vec<u64>,
}

impl Conversations {
    pub(crate) fn new(limit: usize) -> Self {
        let (live, by_use) = (BTreeMap::new(), BTreeMap::new());
        Conversations { limit: limit.max(1), live, by_use, uses: 0, forgotten: 0 }
    }

    /// The user's request `number` is turn `turn` of its conversation: the earlier turns still
    /// remembered, oldest first, and from now on this one too.
    pub(crate) fn take_turn(&mut self, user: u32, turn: u32, number: u64) -> Vec<u64> {
        self.uses += 1;
        let uses = self.uses;
        let live = self.live.entry(user).or_insert_with(|| Live { used: 0, turns: Vec::new() });
        self.by_use.remove(&live.used);
        live.used = uses;
        self.by_use.insert(uses, user);
        if turn == 0 {
            live.turns.clear();
        }
        let earlier = live.turns.clone();
        live.turns.push(number);
        if self.live.len() > self.limit
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.live.remove(&oldest);
            self.forgotten += 1;
        }
        earlier
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.live.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_remembered_in_order_until_the_conversation_ends_or_is_forgotten() {
        let mut conversations = Conversations::new(2);
        assert!(conversations.take_turn(1, 0, 10).is_empty());
        assert_eq!(conversations.take_turn(1, 1, 11), [10]);
        assert_eq!(conversations.take_turn(1, 2, 12), [10, 11]);
        assert!(conversations.take_turn(1, 0, 13).is_empty(), "a new conversation");
        conversations.take_turn(2, 0, 20);
        conversations.take_turn(3, 0, 30);
        assert_eq!((conversations.len(), conversations.forgotten), (2, 1));
        assert!(conversations.take_turn(1, 1, 14).is_empty(), "user 1 was forgotten");
        assert_eq!(conversations.take_turn(3, 1, 31), [30]);
    }
}
