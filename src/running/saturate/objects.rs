//! The limits of an object store: a sweep over sizes of objects and requests in flight, first PUT,
//! then GET of what was put.
//!
//! One thread keeps so many requests in flight, makes the content of each object just before it is
//! sent, and notes when answers come; the store's own threads do the rest. Objects have fresh
//! content each, so a store that recognises duplicates has no use of it.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

use ringfall_core::fill::{ContentName, fill};
use ringfall_core::key::{EntryKey, mix64};
use ringfall_core::metrics::Histogram;
use ringfall_host::CostSnapshot;
use ringfall_host::interrupt::Interrupt;

use super::{OBJECT_LIMITS_VERSION, ObjectLimits, ObjectPoint, unix_now_s};
use crate::objects::{Bytes, ObjectError, Objects};

/// Which loads a search for an object store's limits tries, and for how long.
#[derive(Clone, Debug)]
pub struct ObjectSweep {
    /// Sizes of objects, bytes; multiples of 4 KiB.
    pub sizes: Vec<u64>,
    /// Numbers of requests in flight to try, each in turn.
    pub in_flight: Vec<u32>,
    /// Duration of each point's measurement.
    pub point: Duration,
    /// Points whose objects in flight take more memory than this, bytes, are left out.
    pub buffer_bytes_max: u64,
    /// Bytes of objects of one size that are kept for reading.
    pub range_bytes: u64,
    /// Random seed of the content and of the order of reads.
    pub seed: u64,
}

/// Told which operation is measured on objects of which size, how many of them in flight, and its
/// bytes a second once it has been.
pub type ObjectWatcher<'a> = &'a mut dyn FnMut(&str, u64, u32, Option<f64>);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ObjectSweepError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] ObjectError),
    /// Objects are there already.
    #[error(
        "{url} is not empty (it holds {name}, for one): give a prefix that nothing uses, such as \
         {url}/ringfall"
    )]
    NotEmpty {
        /// The place.
        url: String,
        /// An object there.
        name: String,
    },
    /// A signal.
    #[error("interrupted before the limits were found; nothing was written")]
    Interrupted,
}

/// Ends a wait for answers in which none came, to look at signals.
const LOOK: Duration = Duration::from_millis(100);
/// Part of a point that is left out at its beginning, while requests in flight build up.
const RAMP_SHARE: u32 = 5;

/// Sweeps, and removes what it wrote, also when it fails.
pub fn sweep(
    objects: &Objects,
    plan: &ObjectSweep,
    interrupt: &Interrupt,
    watcher: ObjectWatcher<'_>,
) -> Result<ObjectLimits, ObjectSweepError> {
    if let Some((name, _)) = objects.list(1)?.pop() {
        return Err(ObjectSweepError::NotEmpty { url: objects.url().to_string(), name });
    }
    let began = Instant::now();
    let mut limits = ObjectLimits {
        ringfall_object_limits: OBJECT_LIMITS_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_s: unix_now_s(),
        place: objects.url().to_string(),
        seconds: 0.0,
        points: Vec::new(),
        left_out: Vec::new(),
        counts: objects.counts(),
    };
    for (index, &object_bytes) in plan.sizes.iter().enumerate() {
        let group = index as u64;
        let mut bench = Bench {
            objects,
            plan,
            interrupt,
            object_bytes,
            group,
            kept_max: (plan.range_bytes / object_bytes).max(1),
            put: 0,
            begun: 0,
            random: plan.seed ^ group << 32 ^ 0x9E37_79B9_7F4A_7C15,
            buffers: Vec::new(),
        };
        let measured = bench.measure_all(watcher, &mut limits);
        let removed = objects.remove_all((0..bench.put).map(|object| bench.name(object)));
        measured?;
        removed?;
    }
    Ok(ObjectLimits { seconds: began.elapsed().as_secs_f64(), counts: objects.counts(), ..limits })
}

/// PUT or GET.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    Put,
    Get,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Verb::Put => "PUT",
            Verb::Get => "GET",
        }
    }
}

/// An answer: its buffer, when its request was sent, and what came of it.
struct Answer {
    buffer: Option<Vec<u8>>,
    sent: Instant,
    outcome: Result<(), ObjectError>,
}

struct Bench<'a> {
    objects: &'a Objects,
    plan: &'a ObjectSweep,
    interrupt: &'a Interrupt,
    object_bytes: u64,
    /// Number of the size: names its objects.
    group: u64,
    /// Most objects that are kept.
    kept_max: u64,
    /// Objects that were put, from 0 on.
    put: u64,
    /// Objects whose PUT was begun, in all.
    begun: u64,
    /// State of the generator of reads.
    random: u64,
    buffers: Vec<Vec<u8>>,
}

impl Bench<'_> {
    fn measure_all(
        &mut self,
        watcher: ObjectWatcher<'_>,
        limits: &mut ObjectLimits,
    ) -> Result<(), ObjectSweepError> {
        let plan = self.plan;
        for verb in [Verb::Put, Verb::Get] {
            for &in_flight in &plan.in_flight {
                let bytes = self.object_bytes * u64::from(in_flight);
                if bytes > plan.buffer_bytes_max {
                    limits.left_out.push(format!(
                        "{} of {} bytes, {in_flight} in flight: {bytes} bytes of memory, \
                         --io-buffer-mb allows {}",
                        verb.name(),
                        self.object_bytes,
                        plan.buffer_bytes_max
                    ));
                    continue;
                }
                watcher(verb.name(), self.object_bytes, in_flight, None);
                let point = self.measure(verb, in_flight)?;
                watcher(verb.name(), self.object_bytes, in_flight, Some(point.bytes_per_s));
                limits.points.push(point);
            }
        }
        Ok(())
    }

    /// One point. All requests that it began are answered when it returns.
    fn measure(&mut self, verb: Verb, in_flight: u32) -> Result<ObjectPoint, ObjectSweepError> {
        let (tell, told) = sync_channel(in_flight as usize);
        let began = Instant::now();
        let ramp = self.plan.point / RAMP_SHARE;
        let (open, close) = (began + ramp, began + ramp + self.plan.point);
        let mut latency = Histogram::new();
        let (mut flying, mut failed, mut cost) = (0, None, None);
        let retries = self.objects.counts().retries.total();
        let mut last = open;
        loop {
            let now = Instant::now();
            if now >= open && cost.is_none() {
                cost = CostSnapshot::now();
            }
            // However slow the store, one answer is waited for.
            let is_over = now >= close && latency.count() > 0;
            let goes_on = failed.is_none() && !self.interrupt.is_set() && !is_over;
            while goes_on && flying < in_flight {
                self.start(verb, &tell);
                flying += 1;
            }
            if flying == 0 {
                break;
            }
            let Ok(answer) = told.recv_timeout(LOOK) else { continue };
            flying -= 1;
            let at = Instant::now();
            match answer.outcome {
                Ok(()) if at >= open && (at <= close || latency.count() == 0) => {
                    latency.record(at.duration_since(answer.sent).as_nanos() as u64);
                    last = at;
                }
                Ok(()) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
            self.buffers.extend(answer.buffer);
        }
        if let Some(error) = failed {
            return Err(error.into());
        }
        if self.interrupt.is_set() {
            return Err(ObjectSweepError::Interrupted);
        }
        let seconds = last.max(close).duration_since(open).as_secs_f64();
        let cost = cost.zip(CostSnapshot::now()).map(|(before, after)| before.until(&after));
        let requests = latency.count();
        let bytes = requests * self.object_bytes;
        let us = |quantile| latency.quantile_ns(quantile).map_or(0.0, |ns| ns as f64 / 1e3);
        Ok(ObjectPoint {
            operation: verb.name().to_owned(),
            object_bytes: self.object_bytes,
            in_flight,
            seconds,
            requests,
            bytes_per_s: bytes as f64 / seconds,
            requests_per_s: requests as f64 / seconds,
            latency_p50_us: us(0.5),
            latency_p99_us: us(0.99),
            cpu_s_per_gib: cost.and_then(|cost| cost.cpu_s_per_gib(bytes)),
            retries: self.objects.counts().retries.total() - retries,
        })
    }

    fn name(&self, object: u64) -> String {
        format!("{:03}/{object:08}", self.group)
    }

    fn start(&mut self, verb: Verb, tell: &SyncSender<Answer>) {
        let bytes = self.object_bytes as usize;
        let mut buffer = self.buffers.pop().unwrap_or_else(|| vec![0; bytes]);
        let tell = tell.clone();
        // The channel has a place for each request in flight; who listens waits for all of them.
        let answer = move |answer| drop(tell.try_send(answer));
        match verb {
            Verb::Put => {
                let object = self.begun % self.kept_max;
                let version = (self.begun / self.kept_max) as u32;
                let key = EntryKey(u128::from(self.group) << 64 | u128::from(object));
                fill(&mut buffer, &ContentName { seed: self.plan.seed, key, version }, 0);
                self.begun += 1;
                self.put = self.put.max(object + 1);
                let (content, sent) = (Bytes::from(buffer), Instant::now());
                let kept = content.clone();
                self.objects.start_put(&self.name(object), content, move |outcome| {
                    // Where a connection that failed still holds it, a new one is made.
                    let buffer = kept.is_unique().then(|| Vec::from(kept));
                    answer(Answer { buffer, sent, outcome });
                });
            }
            Verb::Get => {
                let object = self.next_random() % self.put;
                let sent = Instant::now();
                self.objects.start_get(
                    &self.name(object),
                    0,
                    bytes,
                    buffer,
                    move |buffer, outcome| {
                        answer(Answer { buffer: Some(buffer), sent, outcome });
                    },
                );
            }
        }
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix64(self.random)
    }
}
