//! Memory that the kernel reads from and writes to: one aligned region a shard, cut in equal
//! buffers, and who may have one next; and chunks that go from thread to thread.

mod chunk;
mod mapping;
mod pool;
mod tickets;

pub use chunk::{Chunk, ChunkPool};
pub use mapping::{Mapping, PageKind};
pub use pool::{Buffer, BufferPool};
pub use tickets::{Acquire, Ticket, Tickets, URGENCY_LEVELS, Urgency};
