//! Answering what other shards ask.

use std::rc::Rc;

use super::measure::Direction;
use super::message::{Answer, AskId, AskOrigin, GateName, Message};
use super::{ReadOutcome, Shard, WriteOutcome};
use crate::key::ShardId;

impl Shard {
    /// Takes a message. `true`: a permit of the request gate, for whoever serves requests here.
    pub fn deliver(self: &Rc<Self>, message: Message) -> bool {
        match message {
            Message::Read { ask, from, key } => {
                let shard = Rc::clone(self);
                self.spawn(async move {
                    let outcome = shard.read_here(key, shard.clock.now()).await;
                    shard.answer(from, ask, Answer::Read(outcome));
                });
            }
            Message::Look { ask, from, key } => {
                let shard = Rc::clone(self);
                self.spawn(async move {
                    let is_there = shard.arrived(key).await.is_some();
                    shard.answer(from, ask, Answer::Look(is_there));
                });
            }
            Message::Write { ask, from, key, bytes, mode } => {
                let shard = Rc::clone(self);
                self.spawn(async move {
                    let begun = shard.clock.now();
                    let outcome = shard.write_here((key, bytes), mode, begun).await;
                    shard.answer(from, ask, Answer::Write(outcome));
                });
            }
            Message::Remove { key } => {
                let _was_there = self.remove(key);
            }
            Message::Evict { ask, from, need } => {
                self.make_room_for_other(need);
                self.answer(from, ask, Answer::Evicted);
            }
            Message::Answer { ask, answer } => {
                let answer = self.count_answer(ask, answer);
                self.asks.answer(ask, answer);
            }
            Message::Granted(GateName::Request) => return true,
            Message::Granted(gate) => self.turn_granted(gate),
            Message::Room => self.changed.notify_all(),
        }
        false
    }

    /// Counts an operation that another shard has done for this one, whether or not anybody still
    /// waits for it: from when it was begun here.
    fn count_answer(&self, ask: AskId, answer: Answer) -> Answer {
        let AskOrigin { begun, bytes: written } = self.asks.asked(ask);
        match answer {
            Answer::Read(ReadOutcome::Hit { tier, bytes, times }) => {
                let times = times.as_asked(begun, self.clock.now());
                self.measure.operation(tier, Direction::Read, bytes, times);
                Answer::Read(ReadOutcome::Hit { tier, bytes, times })
            }
            Answer::Write(WriteOutcome::Written { tier, times }) => {
                let times = times.as_asked(begun, self.clock.now());
                self.measure.operation(tier, Direction::Write, written, times);
                Answer::Write(WriteOutcome::Written { tier, times })
            }
            other => other,
        }
    }

    /// Tells another shard that a permit of `gate` is its own now.
    pub fn hand_over(&self, to: ShardId, gate: GateName) {
        // A shard that has ended waits for nothing.
        let _delivered = self.links.send(to, Message::Granted(gate));
    }

    fn answer(&self, to: ShardId, ask: AskId, answer: Answer) {
        // A shard that has ended no longer wants to know.
        let _delivered = self.links.send(to, Message::Answer { ask, answer });
    }
}
