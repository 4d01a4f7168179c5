//! Memory that the kernel reads from and writes to: one aligned region a shard, cut in equal
//! buffers. And who may have one next.

mod admission;
mod mapping;
mod pool;

pub use admission::{Acquire, Admission, Ticket, URGENCY_LEVELS, Urgency};
pub use mapping::{Mapping, PageKind};
pub use pool::{Buffer, BufferPool};
