//! Object stores as settings name them: what a URL means, and how requests are to be made.

mod options;
mod url;

pub use options::{
    Balance, CONCURRENCY_MAX, Checksum, ObjectOptions, PART_BYTES, PARTS_MAX, PathStyle,
    RETRIES_MAX, TIMEOUT_S_MAX,
};
pub use url::{ObjectUrl, Place, Scheme};
