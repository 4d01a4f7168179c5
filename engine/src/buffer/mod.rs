//! Memory that the kernel reads from and writes to: one aligned region a shard, cut in equal
//! buffers. And who may have one next; and memory of others that is written from where it is.

mod aligned;
mod mapping;
mod memory;
mod pool;
mod tickets;

pub use aligned::AlignedBytes;
pub use mapping::{Mapping, PageKind};
pub use memory::{IoMemory, Lender, MemoryPlace};
pub use pool::{Buffer, BufferPool};
pub use tickets::{Acquire, Ticket, Tickets, URGENCY_LEVELS, Urgency};
