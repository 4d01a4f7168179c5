//! Memory that the kernel reads from and writes to: one aligned region a shard, cut in equal
//! buffers. And who may have one next.

mod mapping;
mod pool;
mod tickets;

pub use mapping::{Mapping, PageKind};
pub use pool::{Buffer, BufferPool};
pub use tickets::{Acquire, Ticket, Tickets, URGENCY_LEVELS, Urgency};
