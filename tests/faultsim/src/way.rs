//! The way between GPU memory and the drives past host memory, in systems that have one: what
//! begins there is done by the simulated drives, and goes wrong as their other I/Os do.

use std::sync::Arc;

use ringfall_core::drive::IoKind;
use ringfall_doubles::ByHand;
use ringfall_engine::ring::IoRequest;

use ringfall_running::run::World;

/// See the module.
pub(super) struct Way(Arc<ByHand>);

impl Way {
    pub(super) fn new(by_hand: Arc<ByHand>) -> Way {
        Way(by_hand)
    }

    /// Gives the drives what has begun, and tells the shards of what has ended.
    pub(super) fn carry(&self, world: &World) {
        for handed in self.0.take_begun() {
            let io = handed.io;
            let request = IoRequest {
                kind: if io.is_write { IoKind::Write } else { IoKind::Read },
                offset_bytes: io.offset_bytes,
                // As any I/O, 64 MiB at most.
                length_bytes: handed.length_bytes as u32,
                buffer_offset: 0,
            };
            // Shards are opened in their order, and where one finds no memory to land in, and opens
            // no queue, those after it do not either.
            let shard = handed.queue;
            let drive = &world.drives[io.drive];
            drive.submit_for(shard, request, Box::new(|transfer| handed.end(transfer)));
        }
        world.drivers.iter().for_each(|driver| driver.shard().collect_direct());
    }
}
