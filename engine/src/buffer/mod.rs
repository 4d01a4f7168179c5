//! Memory that the kernel reads from and writes to: one aligned region a shard, cut in equal
//! buffers, and who may have one next; memory of others that is written from where it is; and
//! chunks that go from thread to thread.

mod aligned;
mod mapping;
mod memory;
mod nodes;
mod pool;
mod reserved;
mod tickets;

pub use aligned::AlignedBytes;
pub use mapping::{Mapping, PageKind, SMALL_PAGES};
pub use memory::{IoMemory, Lender, MemoryPlace};
pub use nodes::NumaNodes;
pub use pool::{Buffer, BufferPool, Chunk, ChunkPool};
pub use reserved::{reserved_peak_bytes, reset_reserved_peak};
pub use tickets::{Acquire, Ticket, Tickets};
