//! Recorded conversations, by their lengths in tokens: 8 bytes a turn, whatever the text was.

use crate::digest::Digest;

/// Lengths of one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TurnTokens {
    /// Number of tokens of the question.
    pub context_tokens: u32,
    /// Number of tokens of the answer.
    pub generate_tokens: u32,
}

/// Conversations of at least one turn each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dataset {
    turns: Vec<TurnTokens>,
    /// Where each conversation's turns end.
    ends: Vec<u32>,
}

impl Dataset {
    /// Adds a conversation; one without turns is not kept. `false` when no more fit (2^32 turns).
    pub fn push(&mut self, turns: &[TurnTokens]) -> bool {
        let Ok(end) = u32::try_from(self.turns.len() + turns.len()) else { return false };
        if !turns.is_empty() {
            self.turns.extend_from_slice(turns);
            self.ends.push(end);
        }
        true
    }

    /// Number of conversations in the dataset.
    pub fn len(&self) -> u32 {
        // At most as many as there are turns.
        self.ends.len() as u32
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Turns of all conversations.
    pub fn turns_in_all(&self) -> u64 {
        self.turns.len() as u64
    }

    /// Digest of all conversations.
    pub fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        digest.add(self.ends.iter().copied().map(u64::from));
        for turn in &self.turns {
            digest.add([turn.context_tokens, turn.generate_tokens].map(u64::from));
        }
        digest
    }

    fn begin(&self, conversation: u32) -> u32 {
        conversation.checked_sub(1).map_or(0, |before| self.ends[before as usize])
    }

    /// Turns of one.
    ///
    /// # Panics
    /// When there is no such conversation.
    pub fn turns(&self, conversation: u32) -> u32 {
        self.ends[conversation as usize] - self.begin(conversation)
    }

    /// One turn.
    ///
    /// # Panics
    /// When there is no such turn.
    pub fn turn(&self, conversation: u32, turn: u32) -> TurnTokens {
        assert!(turn < self.turns(conversation), "conversation {conversation} has no turn {turn}");
        self.turns[(self.begin(conversation) + turn) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_found_by_conversation() {
        let turn = |n| TurnTokens { context_tokens: n, generate_tokens: n + 1 };
        let mut dataset = Dataset::default();
        for turns in [vec![turn(1), turn(2)], vec![], vec![turn(3)]] {
            assert!(dataset.push(&turns));
        }
        assert_eq!((dataset.len(), dataset.turns_in_all()), (2, 3));
        assert_eq!((dataset.turns(0), dataset.turns(1)), (2, 1));
        assert_eq!((dataset.turn(0, 1), dataset.turn(1, 0)), (turn(2), turn(3)));
        let mut other = Dataset::default();
        for turns in [vec![turn(1)], vec![turn(2), turn(3)]] {
            assert!(other.push(&turns));
        }
        assert!(other.digest() != dataset.digest() && dataset.digest() == dataset.digest());
    }
}
