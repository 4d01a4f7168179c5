//! Shards put together: the engine that others build on.
//!
//! It contains the settings and their checks, shards on threads with a way to ask them
//! ([`Engine`]), and shards on the calling thread ([`LocalEngine`]). It does not contain how an
//! entry is read or written (`shard`), or who asks for it.
//!
//! Every shard is made by one function, [`crate::shard::Blueprint::join`]. Three ways lead to it,
//! which differ in who runs the thread: [`Engine`] itself; a simulation or test, step by step
//! ([`EngineBuilder::local`]); a program whose own work lives on the shards' threads and whose
//! commands come by the same inbox as messages ([`EngineBuilder::specs`]).

mod builder;
mod entries;
mod error;
mod local;
mod place;
mod reach;
mod served;
mod threads;

pub use builder::{EngineBuilder, IO_BYTES_MAX, SEGMENT_BYTES_MIN};
pub use entries::{Entries, Pending};
pub use error::{EngineError, SettingsError};
pub use local::{Delivered, LocalEngine, LocalParts};
pub use served::Statistics;
pub use threads::Engine;
