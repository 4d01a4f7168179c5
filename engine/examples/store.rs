//! Stores entries in host memory and in a file, reads them back, and says where they were.
//!
//! `cargo run -p ringfall-engine --example store -- DIRECTORY`; without one, below the system's
//! directory for temporary files.

use std::path::PathBuf;

use ringfall_engine::engine::{Engine, EngineError};
use ringfall_engine::key::EntryKey;
use ringfall_engine::shard::{ReadOutcome, WriteOutcome};
use ringfall_engine::units::{KIB, MIB};

fn main() -> Result<(), EngineError> {
    let default = || std::env::temp_dir().join(format!("ringfall-store-{}", std::process::id()));
    store(std::env::args_os().nth(1).map_or_else(default, PathBuf::from))
}

/// All of it; the tests call this too.
pub fn store(directory: PathBuf) -> Result<(), EngineError> {
    let engine = Engine::builder()
        .directory(directory)
        .shards(2)
        .cpu_bytes(8 * MIB)
        .storage_bytes(64 * MIB)
        .start()?;
    let entries = engine.entries();
    for key in 0..40 {
        match entries.write(EntryKey(key), 500 * KIB)? {
            WriteOutcome::Written { .. } => {}
            other => println!("entry {key} was not written: {other:?}"),
        }
    }
    for key in [0, 20, 39] {
        match entries.read(EntryKey(key))? {
            ReadOutcome::Hit { tier, bytes, times } => {
                let us = times.total.as_ns() / 1_000;
                println!("entry {key}: {bytes} bytes from {} in {us} µs", tier.name());
            }
            other => println!("entry {key}: {other:?}"),
        }
    }
    println!("removed entry 39: {}", entries.remove(EntryKey(39))?);
    for (name, tier) in ["gpu", "cpu", "storage"].into_iter().zip(engine.statistics()?.tiers) {
        println!("{name}: {} entries, {} bytes", tier.entries, tier.bytes);
    }
    engine.stop()
}
