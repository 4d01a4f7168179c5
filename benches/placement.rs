//! Admitting and evicting with few and with many entries: every step is O(1), so ten million
//! entries should cost what a hundred thousand do, but for cache misses. And the whole shard over a
//! device that does nothing: operations a second of metadata alone.
//!
//! `cargo bench -p ringfall-engine --bench placement`; under `cargo test` a smoke.

#![expect(clippy::unwrap_used, reason = "a bench that can't go on fails")]

use std::rc::Rc;
use std::sync::Arc;

use ringfall_doubles::MemoryDevice;
use ringfall_engine::clock::{Clock, Nanos, monotonic_now};
use ringfall_engine::engine::{Engine, LocalParts};
use ringfall_engine::fill::VerifyMode;
use ringfall_engine::key::{EntryKey, ShardId};
use ringfall_engine::placement::{
    Admission, AdmitState, BudgetConfig, Placement, SharedBudgets, Watermarks,
};
use ringfall_engine::shard::{Content, Durability, WriteMode};
use ringfall_engine::tier::cpu::CpuPool;
use ringfall_engine::units::BLOCK_BYTES;

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let (few, many, steps) =
        if full { (100_000, 10_000_000, 2_000_000) } else { (1_000, 10_000, 10_000) };
    let few_rate = placement(few, steps);
    let many_rate = placement(many, steps);
    println!("placement, write + evict: {few_rate:.2} M/s with {few} entries, {many_rate:.2} M/s");
    println!("  with {many}; ratio {:.2}", many_rate / few_rate);
    let rates: Vec<f64> = (0..5).map(|_| shard(few, steps / 10)).collect();
    let mut sorted = rates;
    sorted.sort_by(f64::total_cmp);
    println!(
        "shard over a null device: {:.2} M operations/s a core (median; {:.2}..{:.2})",
        sorted[2], sorted[0], sorted[4]
    );
}

fn budgets(entries: u64) -> Arc<SharedBudgets> {
    SharedBudgets::new(&BudgetConfig {
        shards: 1,
        gpu_bytes: 0,
        cpu_bytes: 0,
        storage_blocks: entries,
        segment_blocks: 256,
        slot_blocks: 1,
        watermarks: Watermarks::default(),
    })
}

/// Millions of writes a second, each evicting one, into a storage tier of `entries` blocks.
fn placement(entries: u64, steps: u64) -> f64 {
    let mut placement: Placement<()> = Placement::new(budgets(entries), ShardId(0));
    let mut now = Nanos::from_ns(1);
    let mut write = |key: u64| {
        now += Nanos::from_ns(1);
        let mut state = AdmitState::new(4096);
        let grant = loop {
            match placement.admit(&mut state) {
                Admission::Granted(grant) => break grant,
                Admission::NeedBaton(tier) => {
                    assert!(placement.shared().baton(tier).try_acquire());
                    state.baton_acquired(tier);
                }
                Admission::Evict(_deleted) => {}
                other => unreachable!("{other:?}"),
            }
        };
        if let Some(tier) = state.take_baton() {
            let _nobody_waits = placement.shared().baton(tier).release();
        }
        let id = placement.insert_writing(EntryKey(u128::from(key)), grant, (), now);
        placement.write_done(id, now);
        while placement.take_wakeup().is_some() {}
    };
    (0..entries).for_each(&mut write);
    let began = monotonic_now();
    (entries..entries + steps).for_each(&mut write);
    steps as f64 / (monotonic_now() - began).as_secs_f64() / 1e6
}

/// Millions of operations a second: a write that evicts, and a read of it.
fn shard(entries: u64, steps: u64) -> f64 {
    let engine = Engine::builder()
        .seed(1)
        .storage_bytes(entries * BLOCK_BYTES)
        .segment_bytes(256 * BLOCK_BYTES)
        .io_bytes(BLOCK_BYTES)
        .queue_depth(64)
        .verify(VerifyMode::Off)
        .durability(Durability::None)
        .local(LocalParts {
            clock: Clock::Os,
            cpu: CpuPool::new(0).unwrap(),
            device: &mut |_shard| Rc::new(MemoryDevice::null(Clock::Os)),
            content: &Content::default,
        })
        .unwrap();
    let (runtime, shard) = (engine.runtime(), Rc::clone(&engine.shards()[0]));
    shard.measure().open(Nanos::ZERO, Nanos::MAX);
    let began = monotonic_now();
    runtime.spawn(Box::pin(async move {
        for key in 0..steps {
            let (home, key) = (shard.id(), EntryKey(u128::from(key)));
            shard.write(home, key, 4096, WriteMode::Replace).await;
            shard.read(home, key).await;
        }
    }));
    engine.run_ready();
    assert_eq!(runtime.task_count(), 0, "all operations ended");
    2.0 * steps as f64 / (monotonic_now() - began).as_secs_f64() / 1e6
}
