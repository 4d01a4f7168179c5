//! Memory of conversations: which requests of a user were its earlier turns.
//!
//! The number remembered at once is bounded: past it the least recently used conversation is
//! forgotten, and its turns are no longer read back. The user's draws and turn numbers do not
//! depend on that.

use std::collections::BTreeMap;

/// Place of a request in its conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// This one, from 0.
    Number(u32),
    /// The next one, whichever that is (a trace's session).
    Next,
    /// There is no conversation.
    Alone,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PastTurn {
    /// The user's request that wrote it.
    pub(crate) number: u64,
    pub(crate) tokens: u32,
}

/// Histories of one shard's users. All operations O(log conversations).
#[derive(Debug)]
pub(crate) struct Conversations {
    limit: usize,
    turns_max: usize,
    live: BTreeMap<u64, Live>,
    /// Use counter to user, oldest first.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    pub(crate) forgotten: u64,
}

#[derive(Debug)]
struct Live {
    used: u64,
    turns: Vec<PastTurn>,
}

impl Conversations {
    pub(crate) fn new(limit: usize, turns_max: usize) -> Self {
        let (live, by_use) = (BTreeMap::new(), BTreeMap::new());
        Conversations { limit: limit.max(1), turns_max, live, by_use, uses: 0, forgotten: 0 }
    }

    /// The user's request `own` is turn `turn` of its conversation: the earlier turns still
    /// remembered, oldest first, and from now on this one too.
    pub(crate) fn take_turn(&mut self, user: u64, turn: Turn, own: PastTurn) -> Vec<PastTurn> {
        if turn == Turn::Alone {
            return Vec::new();
        }
        self.uses += 1;
        let uses = self.uses;
        let live = self.live.entry(user).or_insert_with(|| Live { used: 0, turns: Vec::new() });
        self.by_use.remove(&live.used);
        live.used = uses;
        self.by_use.insert(uses, user);
        // A session has no end of its own: it begins anew after as many turns as a drawn one may
        // have.
        let over = turn == Turn::Next && live.turns.len() >= self.turns_max;
        if turn == Turn::Number(0) || over {
            live.turns.clear();
        }
        let earlier = live.turns.clone();
        live.turns.push(own);
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
        let mut conversations = Conversations::new(2, 50);
        let mut take = |user, turn, number| {
            let own = PastTurn { number, tokens: 1 };
            let earlier = conversations.take_turn(user, Turn::Number(turn), own);
            let numbers = earlier.iter().map(|turn| turn.number).collect::<Vec<_>>();
            (numbers, conversations.len(), conversations.forgotten)
        };
        assert!(take(1, 0, 10).0.is_empty());
        assert_eq!(take(1, 1, 11).0, vec![10]);
        assert_eq!(take(1, 2, 12).0, vec![10, 11]);
        assert!(take(1, 0, 13).0.is_empty(), "a new conversation");
        take(2, 0, 20);
        let (_, live, forgotten) = take(3, 0, 30);
        assert_eq!((live, forgotten), (2, 1));
        assert!(take(1, 1, 14).0.is_empty(), "user 1 was forgotten");
        assert_eq!(take(3, 1, 31).0, vec![30]);
    }

    #[test]
    fn a_session_goes_on_until_it_is_too_long_and_a_single_request_has_no_past() {
        let mut conversations = Conversations::new(9, 3);
        let own = |number| PastTurn { number, tokens: 100 + number as u32 };
        let lengths: Vec<usize> = (0..8)
            .map(|number| conversations.take_turn(7, Turn::Next, own(number)).len())
            .collect();
        assert_eq!(lengths, [0, 1, 2, 0, 1, 2, 0, 1]);
        assert!(conversations.take_turn(7, Turn::Alone, own(9)).is_empty());
        assert_eq!(conversations.take_turn(7, Turn::Next, own(10)), [own(6), own(7)]);
    }
}
