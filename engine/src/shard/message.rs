//! Messages between shards: plain values, so that a simulation can carry them too.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::slab::Slab;
use crate::clock::Nanos;
use crate::error::IoError;
use crate::key::{EntryKey, ShardId, Tier};
use crate::placement::Ask;
#[cfg(doc)]
use crate::placement::StorageEviction;

/// Duration of an operation, and when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OperationTimes {
    /// From its beginning to `ended`.
    pub total: Nanos,
    /// First submit to last completion (CPU tier: making the bytes in its memory, or reading them).
    pub device: Nanos,
    /// Part of `total` before a write's tier had room for it, or before a faster tier had room for
    /// a read, where hits move up.
    pub room: Nanos,
    /// When it ended, on the clock of the shard that asked: when its last completion was seen, if
    /// nothing was left to do with what that brought. Who goes on at once need not look at the
    /// clock again for the next operation ([`super::Shard::read_from`]).
    pub ended: Nanos,
}

impl OperationTimes {
    /// The times for the shard that asked another: from when it began to ask until it had the
    /// answer.
    pub(super) fn as_asked(self, begun: Nanos, ended: Nanos) -> OperationTimes {
        OperationTimes { total: ended.saturating_sub(begun), ended, ..self }
    }
}

/// Result of a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// The whole entry was read.
    Hit {
        /// Where it was.
        tier: Tier,
        /// Its size.
        bytes: u64,
        /// Times of the read.
        times: OperationTimes,
    },
    /// There is no such entry.
    Miss,
    /// An I/O failed or the content was wrong.
    Failed(IoError),
}

/// Result of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriteOutcome {
    /// The whole entry was written.
    Written {
        /// Where it went.
        tier: Tier,
        /// Times of the write.
        times: OperationTimes,
    },
    /// [`WriteMode::IfAbsent`], and it was there.
    AlreadyThere,
    /// The engine has no storage tier, and the entry fits in no tier above it: it is dropped, as
    /// one that is evicted from the last tier is.
    DroppedWithoutStorage,
    /// Storage is full, and nothing leaves it ([`StorageEviction::Never`]): the entry is not
    /// stored.
    StorageFull,
    /// Larger than the whole storage tier.
    Refused {
        /// Size of that tier; 0 once every drive is lost.
        limit_bytes: u64,
    },
    /// An I/O failed; the entry is gone.
    Failed(IoError),
}

/// Action of a write when the key is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteMode {
    /// Replace the entry with a new version.
    Replace,
    /// Leave it.
    IfAbsent,
}

/// Names a question of the asking shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskId(pub u64);

/// From one shard to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Read an entry of yours.
    Read {
        /// To answer to.
        ask: AskId,
        /// Who asks.
        from: ShardId,
        /// Key of the entry.
        key: EntryKey,
    },
    /// Say whether an entry of yours is there.
    Look {
        /// To answer to.
        ask: AskId,
        /// Who asks.
        from: ShardId,
        /// Key of the entry.
        key: EntryKey,
    },
    /// Write an entry that is yours by name.
    Write {
        /// To answer to.
        ask: AskId,
        /// Who asks.
        from: ShardId,
        /// Key of the entry.
        key: EntryKey,
        /// Its size.
        bytes: u64,
        /// Action when it is there.
        mode: WriteMode,
    },
    /// Forget an entry of yours; nobody waits for an answer.
    Remove {
        /// Which.
        key: EntryKey,
    },
    /// Yours is the oldest entry of this tier: let it go.
    Evict {
        /// To answer to.
        ask: AskId,
        /// Who asks.
        from: ShardId,
        /// Which tier needs room, and how much.
        need: Ask,
    },
    /// The answer to a question.
    Answer {
        /// Which question.
        ask: AskId,
        /// The answer.
        answer: Answer,
    },
    /// A permit of an engine-wide gate is yours now.
    Granted(GateName),
    /// A tier may have room again: whoever waits, look again.
    Room,
}

/// An answer to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// To [`Message::Read`].
    Read(ReadOutcome),
    /// To [`Message::Look`]: whether it is there.
    Look(bool),
    /// To [`Message::Write`].
    Write(WriteOutcome),
    /// To [`Message::Evict`]: its leaving is decided.
    Evicted,
}

/// Gates that the whole engine shares: each lets only so many operations through at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateName {
    /// The right to decide evictions in a tier.
    Baton(Tier),
    /// The right to wait for physical space in a tier.
    Door(Tier),
    /// The bound on writes that allocate at once.
    Allocation,
    /// The bound on requests that are served at once.
    Request,
}

/// Carries messages to other shards.
pub trait Links {
    /// Sends; false when that shard has ended.
    fn send(&self, to: ShardId, message: Message) -> bool;
}

/// Operation behind a question of a shard's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskOrigin {
    /// When the operation began for which it is asked.
    pub begun: Nanos,
    /// Bytes of the entry that is to be written; 0 for other questions.
    pub bytes: u64,
}

enum AskState {
    Waiting(Option<Waker>),
    Abandoned,
    Answered(Answer),
}

struct Question {
    state: AskState,
    asked: AskOrigin,
}

/// Questions without an answer yet. All operations O(1).
#[derive(Default)]
pub struct Asks(RefCell<Slab<Question>>);

impl Asks {
    /// A new question and the future of its answer.
    pub fn open(self: &Rc<Self>, asked: AskOrigin) -> (AskId, Answered) {
        let question = Question { state: AskState::Waiting(None), asked };
        let id = AskId(self.0.borrow_mut().insert(|_| question));
        (id, Answered { asks: Rc::clone(self), id, collected: false })
    }

    /// Questions without an answer, and answers that nobody has collected.
    pub fn open_count(&self) -> usize {
        self.0.borrow().len()
    }

    /// Operation behind a question without an answer.
    #[must_use]
    pub fn asked(&self, id: AskId) -> AskOrigin {
        let mut questions = self.0.borrow_mut();
        questions.get_mut(id.0).expect("an answer comes to a question that was asked").asked
    }

    /// Delivers the answer to a question and wakes whoever awaits it; no one may be left to.
    pub fn answer(&self, id: AskId, answer: Answer) {
        let waker = {
            let mut questions = self.0.borrow_mut();
            let question = questions.get_mut(id.0);
            let question = question.expect("an answer comes once, to a question that was asked");
            match std::mem::replace(&mut question.state, AskState::Answered(answer)) {
                AskState::Waiting(waker) => waker,
                AskState::Abandoned => {
                    questions.remove(id.0);
                    None
                }
                AskState::Answered(_) => unreachable!("an answer comes once"),
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The future of an answer. Dropping it early is safe.
pub struct Answered {
    asks: Rc<Asks>,
    id: AskId,
    collected: bool,
}

impl Future for Answered {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let asks = Rc::clone(&self.asks);
        let mut questions = asks.0.borrow_mut();
        let question = questions.get_mut(self.id.0).expect("this future holds the question");
        if let AskState::Waiting(waker) = &mut question.state {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        self.collected = true;
        match questions.remove(self.id.0).map(|question| question.state) {
            Some(AskState::Answered(answer)) => Poll::Ready(answer),
            _ => unreachable!("this future holds the question"),
        }
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        if self.collected {
            return;
        }
        let mut questions = self.asks.0.borrow_mut();
        let question = questions.get_mut(self.id.0).expect("this future holds the question");
        if matches!(question.state, AskState::Answered(_)) {
            questions.remove(self.id.0);
        } else {
            question.state = AskState::Abandoned;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_find_their_question_also_when_nobody_waits() {
        let asks = Rc::new(Asks::default());
        let (first, first_answer) = asks.open(AskOrigin::default());
        let (second, mut second_answer) = asks.open(AskOrigin::default());
        drop(first_answer);
        asks.answer(first, Answer::Evicted);
        asks.answer(second, Answer::Read(ReadOutcome::Miss));
        let cx = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(answer) = Pin::new(&mut second_answer).poll(cx) else { panic!() };
        assert_eq!(answer, Answer::Read(ReadOutcome::Miss));
        let (third, _answer) = asks.open(AskOrigin::default());
        assert!(third != first && third != second, "slots are reused, names are not");
    }
}
