//! Time until a message from another thread is heard by a shard that sleeps in its ring, and the
//! processor time of threads that have nothing to do.
//!
//! `cargo bench -p ringfall-engine --bench doorbell`; under `cargo test` a smoke.

#![expect(clippy::unwrap_used, reason = "a bench that can't go on fails")]

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ringfall_engine::buffer::Ticket;
use ringfall_engine::clock::{Clock, Nanos, monotonic_now};
use ringfall_engine::metrics::Histogram;
use ringfall_engine::ring::{Ring, RingConfig, RingSetup};
use ringfall_engine::shard::executor::{Executor, hear, sleep_in};

/// Between two messages: long enough for the thread to be asleep again.
const PAUSE: Duration = Duration::from_micros(500);

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    wake(if full { 20_000 } else { 100 });
    idle(if full { 256 } else { 8 }, Duration::from_millis(if full { 5_000 } else { 50 }));
}

/// Makes the thread that calls sleep in a ring of its own, as a shard's does.
fn sleep_in_ring() {
    let setup = RingSetup::new(RingConfig { entries: 8, ..RingConfig::default() }).unwrap();
    let ring: Ring<Ticket> = Ring::over(setup, &[], Clock::Os);
    sleep_in(Rc::new(ring));
}

fn wake(messages: u32) {
    let (sender, inbox) = flume::unbounded::<Nanos>();
    let main = move || async move {
        sleep_in_ring();
        let mut latency = Histogram::new();
        while let Ok(sent) = hear(inbox.recv_async()).await {
            latency.record((monotonic_now() - sent).as_ns());
        }
        latency
    };
    let executor = Executor::spawn("woken", None, Arc::default(), main).unwrap();
    for _ in 0..messages {
        std::thread::sleep(PAUSE);
        sender.send(monotonic_now()).unwrap();
    }
    drop(sender);
    let latency = executor.join_until(Nanos::MAX).unwrap();
    let us = |quantile| latency.quantile_ns(quantile).unwrap_or(0) as f64 / 1e3;
    println!(
        "a message wakes an idle shard in {:.1} µs (P50), {:.1} µs (P99), {messages} messages",
        us(0.5),
        us(0.99)
    );
}

fn idle(shards: u32, length: Duration) {
    let (end, ended): (Vec<_>, Vec<_>) = (0..shards).map(|_| flume::bounded::<()>(0)).unzip();
    let executors: Vec<_> = ended
        .into_iter()
        .map(|ended| {
            let main = move || async move {
                sleep_in_ring();
                let _end_of_the_bench = hear(ended.recv_async()).await;
            };
            Executor::spawn("idle", None, Arc::default(), main).unwrap()
        })
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let before = cpu_seconds();
    std::thread::sleep(length);
    let share = (cpu_seconds() - before) / length.as_secs_f64();
    println!("{shards} idle shards use {:.3} % of a core", share * 100.0);
    drop(end);
    for executor in executors {
        executor.join_until(Nanos::MAX).unwrap();
    }
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
