//! Object stores as places for bytes: S3, Azure Blob Storage and Google Cloud Storage.
//!
//! Here: parsing URLs, signing and sending requests, spreading them over several endpoints,
//! retrying and counting them, and interpreting the errors of a store. Not here: the contents and
//! purpose of objects, and the rate of requests.
//!
//! Requests run on a few threads of their own ([`Objects`]): a thread that uses a store waits for
//! an answer or is called back, and never runs asynchronous code itself. What is in flight
//! is bounded by `--object-concurrency`.
//!
//! Signing, the lists of parts and the three protocols are the crate `object_store`'s. The
//! connections are ours (`wire`), for three reasons: its own transport, reqwest, brings half as
//! many crates again to build; the answers of a server must be seen before they become text, so
//! that an error can be told by its code and no credential in it is ever shown; and connections
//! are what is counted. Its retries are switched off: only ours can move on to another endpoint
//! and be counted.
//!
//! *Critique.* Proxies (`HTTPS_PROXY`) are not used. The upload of a part that has to be repeated
//! keeps its bytes in memory until it succeeds. The crate lists neither uploads nor their parts: an
//! upload can be continued only by whoever has its [`UploadRecord`].

mod backend;
mod cause;
mod client;
mod counts;
mod profile;
mod requests;
mod tier;
mod tls;
mod upload;
mod wire;

pub use cause::{Cause, ObjectError};
#[cfg(test)]
pub(crate) use client::tests::in_memory;
pub use client::{Objects, OpenError};
/// The bytes of an object: cheap to clone, and whoever made them may be told when the last clone is
/// gone.
pub use hyper::body::Bytes;
pub use profile::{Profile, ProfileFiles};
pub use tier::TierObjects;
/// Handle that ends a request which is under way.
pub use tokio::task::AbortHandle;
pub use upload::{RecordedPart, Upload, UploadRecord};
pub use wire::meaning;
