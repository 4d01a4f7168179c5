//! An engine on the calling thread, in which nothing happens by itself: tasks run and messages
//! arrive one at a time, when the caller says so. For simulations, which have a clock and devices
//! of their own, and for tests.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use crate::clock::Clock;
use crate::device::Device;
use crate::error::SetupError;
use crate::key::ShardId;
use crate::shard::local::LocalRuntime;
use crate::shard::{Blueprint, Content, EngineShared, Links, Message, Seat, Shard};
use crate::tier::cpu::CpuPool;

/// The world around a [`LocalEngine`].
pub struct LocalParts<'a> {
    /// Clock that the engine reads; in a simulation, the simulated one.
    pub clock: Clock,
    /// Memory of the CPU tier, populated.
    pub cpu: Arc<CpuPool>,
    /// The device of each shard.
    pub device: &'a mut dyn FnMut(ShardId) -> Rc<dyn Device>,
    /// Whether entries have bytes; asked for each shard.
    pub content: &'a dyn Fn() -> Content,
}

type Mail = Rc<RefCell<VecDeque<(ShardId, Message)>>>;

struct MailLinks(Mail);

impl Links for MailLinks {
    fn send(&self, to: ShardId, message: Message) -> bool {
        self.0.borrow_mut().push_back((to, message));
        true
    }
}

/// A message that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivered {
    /// The shard that the message has reached.
    pub to: ShardId,
    /// Whether it was a permit to serve a request, which is for whoever serves requests there.
    pub is_request_permit: bool,
}

/// See the module. Made by [`super::EngineBuilder::local`].
pub struct LocalEngine {
    runtime: LocalRuntime,
    shards: Vec<Rc<Shard>>,
    shared: Arc<EngineShared>,
    mail: Mail,
    /// Whether each shard takes no message for now.
    deaf: RefCell<Vec<bool>>,
}

impl LocalEngine {
    pub(super) fn new(
        blueprint: &Blueprint,
        parts: LocalParts<'_>,
    ) -> Result<LocalEngine, SetupError> {
        let (runtime, mail) = (LocalRuntime::default(), Mail::default());
        let mut shards = Vec::with_capacity(usize::from(blueprint.shards));
        for index in 0..blueprint.shards {
            let (id, spawner) = (ShardId(index), runtime.clone());
            shards.push(blueprint.join(Seat {
                id,
                device: (parts.device)(id),
                clock: parts.clock.clone(),
                content: (parts.content)(),
                links: Box::new(MailLinks(Rc::clone(&mail))),
                spawn: Box::new(move |task| {
                    spawner.spawn_of_shard(task);
                }),
            })?);
        }
        let deaf = RefCell::new(vec![false; shards.len()]);
        Ok(LocalEngine { runtime, shards, shared: Arc::clone(&blueprint.shared), mail, deaf })
    }

    /// Runs its tasks, and the caller's.
    pub fn runtime(&self) -> &LocalRuntime {
        &self.runtime
    }

    /// Runs its tasks and has its devices move until no task is ready; messages between shards are
    /// the caller's to deliver.
    pub fn run_ready(&self) {
        while self.runtime.run_ready() > 0 {
            self.shards.iter().for_each(|shard| shard.kick());
        }
    }

    /// Its shards, by their ids.
    pub fn shards(&self) -> &[Rc<Shard>] {
        &self.shards
    }

    /// State that the shards share.
    pub fn shared(&self) -> &Arc<EngineShared> {
        &self.shared
    }

    /// Has messages to that shard wait, as those to a thread that is stuck do, or arrive again.
    pub fn set_deaf(&self, shard: ShardId, is_deaf: bool) {
        self.deaf.borrow_mut()[shard.index()] = is_deaf;
    }

    /// Delivers the message that was sent first of those to shards that hear; none when there is
    /// none.
    pub fn deliver_one(&self) -> Option<Delivered> {
        let (to, message) = {
            let (mut mail, deaf) = (self.mail.borrow_mut(), self.deaf.borrow());
            let place = mail.iter().position(|(to, _)| !deaf[to.index()])?;
            mail.remove(place)?
        };
        let is_request_permit = self.shards[to.index()].deliver(message);
        Some(Delivered { to, is_request_permit })
    }
}
