//! One random stream for each (seed, user): nothing is drawn from thread timing.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers, seeded for one user and one purpose.
pub type Stream = Xoshiro256PlusPlus;

/// Purpose of a random stream; streams of different purposes are independent.
#[derive(Clone, Copy, Debug)]
pub enum StreamPurpose {
    /// Persona, class, ranges: drawn once.
    Profile = 1,
    /// Think times and requests.
    Requests = 2,
    /// Prompt lengths, shared by all users.
    Prompts = 3,
    /// One document: its length.
    Document = 4,
    /// One retrieval: document and chunks.
    Retrieval = 5,
    /// One row of a trace: what the trace does not say.
    Row = 6,
    /// Gaps of a paced trace.
    Pace = 7,
    /// Users by whom those of all are counted.
    Sample = 8,
}

/// The stream of `id` (a user, or 0 for what is shared) for one purpose.
pub fn stream(seed: u64, purpose: StreamPurpose, id: u64) -> Stream {
    let mixed =
        mix64(seed ^ mix64((purpose as u64) << 56 ^ id.wrapping_add(0x9e37_79b9_7f4a_7c15)));
    Xoshiro256PlusPlus::seed_from_u64(mixed)
}

/// The finaliser of `splitmix64` (Steele, Lea, Flood 2014).
pub const fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
