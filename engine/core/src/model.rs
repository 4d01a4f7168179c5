//! A drive as a few numbers: what it takes for an I/O, given what it is doing already.
//!
//! The drive serves one I/O at a time for as long as it occupies what all share (its bus, its
//! controller), and each I/O besides takes a fixed time that overlaps with everybody else's (the
//! flash, the link). So bandwidth grows with depth until the shared part is busy all the time, and
//! latency does from there on, as the two curves of any drive's data sheet: the knee lies where
//! `depth × shared time = shared time + fixed time`.
//!
//! Pure: times in, times out.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::clock::{Nanos, SECOND};
use crate::drive::IoKind;
use crate::key::mix64;
use crate::occupation::Occupation;

/// One direction of a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DirectionModel {
    /// Most bytes a second.
    pub bytes_per_s: f64,
    /// Most I/Os a second, however small.
    pub ios_per_s: f64,
    /// Median time of an I/O besides its share of the two above.
    pub latency: Nanos,
    /// 99th percentile of that time; when equal to `latency`, all I/Os take that.
    pub latency_p99: Nanos,
    /// Bandwidth with a deep queue, where that is another; none for writes that a cache takes.
    pub deep: Option<DeepQueue>,
    /// Bytes a second within a burst, where the drive works in such; none: it moves them at once.
    pub burst_bytes_per_s: Option<f64>,
}

/// Bandwidth of a drive that is slower (or faster) with more bytes in flight: a virtual disk, for
/// one, copies through its host's caches, which a deep queue outgrows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeepQueue {
    /// Bytes in flight, in both directions, up to which the direction's own bandwidth holds.
    pub from_bytes: u64,
    /// Bytes in flight from which on it has `bytes_per_s`, on a straight line in between; more than
    /// `from_bytes`.
    pub to_bytes: u64,
    /// Most bytes a second there.
    pub bytes_per_s: f64,
}

impl DirectionModel {
    /// Most bytes a second with so many bytes in flight.
    fn bytes_per_s_with(&self, in_flight_bytes: u64) -> f64 {
        let Some(deep) = self.deep else { return self.bytes_per_s };
        let beyond = in_flight_bytes.saturating_sub(deep.from_bytes) as f64;
        let share = (beyond / (deep.to_bytes - deep.from_bytes) as f64).min(1.0);
        self.bytes_per_s + (deep.bytes_per_s - self.bytes_per_s) * share
    }

    /// Time that an I/O takes within a burst.
    fn moves_in_burst(&self, bytes: u64) -> Nanos {
        let moves_s = self.burst_bytes_per_s.map_or(0.0, |rate| bytes as f64 / rate);
        Nanos::from_ns_f64(moves_s * SECOND.as_ns_f64())
    }
}

/// Distribution of latencies, by two of its quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySpread {
    /// Median of the latencies.
    pub median: Nanos,
    /// 99th percentile; when equal to the median, all are that.
    pub p99: Nanos,
}

impl LatencySpread {
    /// The latency that stands at a place among all (`draw`, evenly spread over 64 bits): straight
    /// lines through 0.8 of the median, the median, and the 99th percentile. Nothing but sums and
    /// products, so that every machine gets the same.
    pub fn at(self, draw: u64) -> Nanos {
        let tail = self.p99.saturating_sub(self.median).as_ns_f64();
        if tail == 0.0 {
            return self.median;
        }
        // 53 bits are exact.
        let place = (draw >> 11) as f64 / (1u64 << 53) as f64;
        let median = self.median.as_ns_f64();
        let latency = match place {
            ..0.5 => median * (0.8 + 0.4 * place),
            _ => median + tail * (place - 0.5) / 0.49,
        };
        Nanos::from_ns_f64(latency)
    }
}

/// Writes that a drive takes before they are on its flash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WriteCacheModel {
    /// Capacity, bytes; 0: no cache.
    pub bytes: u64,
    /// Bandwidth at which it takes writes, bytes a second; their own limit of I/Os a second holds
    /// too. It drains at the writes' own bandwidth, unless reads share their limit: then while no
    /// read occupies the drive. When it is full, writes wait.
    pub bytes_per_s: f64,
    /// Whether it forgets without power: then a flush waits until all of it is on the flash.
    pub is_volatile: bool,
}

/// Parameters by which a simulated drive decides how long each I/O takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceModel {
    /// Latency and bandwidth of reads.
    pub read: DirectionModel,
    /// Latency and bandwidth of writes.
    pub write: DirectionModel,
    /// Time of a flush after the writes before it.
    pub flush: Nanos,
    /// I/Os that it works on at once; more wait. 0: any number.
    pub parallel_ios: u32,
    /// Share by which an I/O occupies the drive longer when the one before it went the other way:
    /// 0.1 is a tenth.
    pub mixed_penalty: f64,
    /// Whether reads and writes have a shared part each, and so a limit each.
    pub is_duplex: bool,
    /// Most bytes a second of both together, where they have a limit each; none: those limits add
    /// up.
    pub both_bytes_per_s: Option<f64>,
    /// Time between the beginnings of bursts, in which the drive does as fast as it can all that it
    /// would do until the next one. So do the limiters of clouds and of the kernel: the first burst
    /// begins with the first I/O after a pause. Zero: no bursts.
    pub burst_period: Nanos,
    /// Size and speed of the cache that takes writes before they are on the flash.
    pub write_cache: WriteCacheModel,
}

/// State of a drive.
#[derive(Clone, Debug, Default)]
pub struct DeviceState {
    /// When the shared part is free again; of reads and of writes, if each has one, and of both.
    free_at: [Nanos; 3],
    /// Limits of each of these but the last, where the drive works in bursts.
    limiters: [Limiter; 2],
    last: Option<IoKind>,
    /// I/Os taken so far: the next one's draw.
    taken: u64,
    /// When those it works on end.
    working: BinaryHeap<Reverse<Nanos>>,
    /// When those that have not ended do, and their bytes; and the sum of these.
    in_flight: BinaryHeap<Reverse<(Nanos, u64)>>,
    in_flight_bytes: u64,
    /// When all writes taken so far are done.
    written_at: Nanos,
    /// Bytes in the write cache at `cache_at`, and for how long reads had occupied the drive then.
    cached_bytes: f64,
    cache_at: Nanos,
    reads_at: Nanos,
    /// For how long all reads taken so far occupy the shared part.
    reads: Nanos,
    /// When the shared part is occupied; of reads and of writes, if each has one, and of both.
    occupied: [Occupation; 3],
    /// For how long I/Os occupy it by their number rather than their bytes.
    by_number: Nanos,
    /// For how long I/Os occupy it besides because so many are in flight.
    slowed: Nanos,
    /// When I/Os wait for one of the parallel places.
    crowded: Occupation,
}

/// Limit of a drive that works in bursts, on one direction or on both where they share it: what
/// comes is let through at once, up to the limit's share of all slices that have begun. The rule is
/// that of Linux's block throttling (`block/blk-throttle.c`, of 6.15 and later).
#[derive(Clone, Debug, Default)]
struct Limiter {
    /// Beginning of the first slice that counts, and the time after which the next I/O begins a new
    /// one.
    from: Nanos,
    until: Nanos,
    /// Time that what was let through since `from` occupies an even drive.
    used: Nanos,
    /// When the last I/O was let through.
    last: Nanos,
    /// Bursts of what it let through, the one that began last and those to come: when each begins,
    /// and when the drive behind has done all of it.
    bursts: VecDeque<(Nanos, Nanos)>,
}

impl Limiter {
    /// When an I/O is let through that comes at `at` and occupies an even drive for `occupied`.
    fn lets_through(&mut self, at: Nanos, slice: Nanos, occupied: Nanos) -> Nanos {
        let is_first = self.last <= at;
        let mut at = at.max(self.last);
        let next = |time: Nanos| slice * (time / slice + 1);
        match is_first && self.until < at {
            true => (self.from, self.until, self.used) = (at, at + slice, Nanos::ZERO),
            false => self.until = self.until.max(next(at + slice)),
        }
        self.used = self.used.saturating_add(occupied);
        at = at.max(self.from + slice * (self.used.saturating_sub(Nanos::from_ns(1)) / slice));
        (self.last, self.until) = (at, self.until.max(next(at + slice)));
        // What was not used is lost, but for the last slice before this one.
        let past = (at - self.from) / slice;
        if past >= 2 {
            let lost = slice * (past - 1);
            (self.from, self.used) = (self.from + lost, self.used.saturating_sub(lost));
        }
        at
    }

    /// Forgets bursts that no I/O from `now` on has to wait for.
    fn forget(&mut self, now: Nanos) {
        while self.bursts.get(1).is_some_and(|(begin, _)| *begin <= now) {
            self.bursts.pop_front();
        }
    }

    /// When the drive behind has done what was let through by `at`.
    fn done_of(&self, at: Nanos) -> Nanos {
        let before = self.bursts.iter().rev().find(|(begin, _)| *begin <= at);
        before.map_or(Nanos::ZERO, |(_, done)| *done)
    }

    /// Adds an I/O let through at `at` that the drive behind does for `moves`, no earlier than
    /// `free_at`; returns when it is done.
    fn add(&mut self, at: Nanos, free_at: Nanos, moves: Nanos) -> Nanos {
        let before = self.bursts.back().map_or(Nanos::ZERO, |(_, done)| *done);
        let done = at.max(free_at).max(before).saturating_add(moves);
        match self.bursts.back_mut() {
            Some(burst) if at <= burst.1 => burst.1 = done,
            _ => self.bursts.push_back((at, done)),
        }
        done
    }
}

impl DeviceModel {
    /// The same drive, so many times as quick: each of its times is as much shorter, but for the
    /// period of its bursts.
    #[must_use]
    pub fn times_as_quick(self, times: f64) -> DeviceModel {
        let shorter = |time: Nanos| Nanos::from_ns_f64(time.as_ns_f64() / times);
        let quicker = |direction: DirectionModel| DirectionModel {
            bytes_per_s: direction.bytes_per_s * times,
            ios_per_s: direction.ios_per_s * times,
            latency: shorter(direction.latency),
            latency_p99: shorter(direction.latency_p99),
            deep: direction
                .deep
                .map(|deep| DeepQueue { bytes_per_s: deep.bytes_per_s * times, ..deep }),
            burst_bytes_per_s: direction.burst_bytes_per_s.map(|rate| rate * times),
        };
        let write_cache = WriteCacheModel {
            bytes_per_s: self.write_cache.bytes_per_s * times,
            ..self.write_cache
        };
        DeviceModel {
            read: quicker(self.read),
            write: quicker(self.write),
            flush: shorter(self.flush),
            both_bytes_per_s: self.both_bytes_per_s.map(|rate| rate * times),
            write_cache,
            ..self
        }
    }

    /// A drive with these limits, 80 µs to read and 20 µs to write, no interference, no cache.
    pub fn with_bandwidth(read_bytes_per_s: f64, write_bytes_per_s: f64) -> DeviceModel {
        let direction = |bytes_per_s, latency| DirectionModel {
            bytes_per_s,
            // A drive's own for 4 KiB blocks: bandwidth is what binds.
            ios_per_s: bytes_per_s / 4096.0,
            latency,
            latency_p99: latency,
            deep: None,
            burst_bytes_per_s: None,
        };
        DeviceModel {
            read: direction(read_bytes_per_s, Nanos::from_us(80)),
            write: direction(write_bytes_per_s, Nanos::from_us(20)),
            flush: Nanos::ZERO,
            parallel_ios: 0,
            mixed_penalty: 0.0,
            is_duplex: false,
            both_bytes_per_s: None,
            burst_period: Nanos::ZERO,
            write_cache: WriteCacheModel {
                bytes: 0,
                bytes_per_s: write_bytes_per_s,
                is_volatile: false,
            },
        }
    }

    /// A drive that takes no time but `latency`: for runs of which only the order matters.
    pub fn ideal(latency: Nanos) -> DeviceModel {
        // 1 MiB in a thousandth of a nanosecond.
        let mut model = DeviceModel::with_bandwidth(1e18, 1e18);
        for direction in [&mut model.read, &mut model.write] {
            (direction.latency, direction.latency_p99) = (latency, latency);
        }
        model
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// A sentence: which number, and what it may be.
    pub fn check(&self) -> Result<(), String> {
        for (name, direction) in [("read", &self.read), ("write", &self.write)] {
            for (what, value) in
                [("bandwidth", direction.bytes_per_s), ("I/Os a second", direction.ios_per_s)]
            {
                if !(value.is_finite() && value >= 1.0) {
                    return Err(format!("{name}: {what} is {value}: give at least 1"));
                }
            }
            if direction.latency_p99 > 3_600 * SECOND {
                return Err(format!("{name}: a latency of over an hour"));
            }
            if direction.latency_p99 < direction.latency {
                return Err(format!("{name}: a 99th percentile below the median"));
            }
            let Some(deep) = direction.deep else { continue };
            if deep.from_bytes >= deep.to_bytes {
                return Err(format!("{name}: deep: to_mib is to be more than from_mib"));
            }
            if !(deep.bytes_per_s.is_finite() && deep.bytes_per_s >= 1.0) {
                let rate = deep.bytes_per_s;
                return Err(format!("{name}: deep: bandwidth is {rate}: give at least 1"));
            }
        }
        if !(0.0..=100.0).contains(&self.mixed_penalty) {
            return Err(format!("mixed penalty is {}: give 0 to 100", self.mixed_penalty));
        }
        if let Some(rate) = self.both_bytes_per_s.filter(|rate| !(rate.is_finite() && *rate >= 1.0))
        {
            return Err(format!("both directions: bandwidth is {rate}: give at least 1"));
        }
        let cache = &self.write_cache;
        if cache.bytes > 0 && self.write.deep.is_some() {
            return Err(
                "write: deep: a write cache has one bandwidth at any depth: leave out one \
                        of the two"
                    .to_owned(),
            );
        }
        if cache.bytes > 0 && !(cache.bytes_per_s.is_finite() && cache.bytes_per_s >= 1.0) {
            return Err(format!(
                "write cache: bandwidth is {}: give at least 1",
                cache.bytes_per_s
            ));
        }
        Ok(())
    }

    /// Time that an I/O occupies the shared part, ns, when bytes move at `bytes_per_s`.
    fn occupies_ns(direction: &DirectionModel, bytes_per_s: f64, bytes: u64) -> f64 {
        (bytes as f64 / bytes_per_s).max(1.0 / direction.ios_per_s) * SECOND.as_ns_f64()
    }

    /// Takes an I/O at `now`; returns when it is done.
    pub fn serve(&self, state: &mut DeviceState, now: Nanos, kind: IoKind, bytes: u64) -> Nanos {
        let direction = match kind {
            IoKind::Read => &self.read,
            IoKind::Write => &self.write,
            IoKind::Flush => return self.flushed_at(state, now),
        };
        let turned = !self.is_duplex && state.last.is_some_and(|last| last != kind);
        let factor = if turned { 1.0 + self.mixed_penalty } else { 1.0 };
        let part = usize::from(self.is_duplex && kind == IoKind::Write);
        // When a place is free for it.
        let ready = now.max(self.place_free_at(state, now));
        let start = state.free_at[part].max(ready);
        let is_cached = kind == IoKind::Write && self.write_cache.bytes > 0;
        // Whoever comes behind a write that waits for the cache waits too.
        let waits_ns = if is_cached { self.wait_for_cache_ns(state, start, bytes) } else { 0.0 };
        let in_flight_bytes = self.in_flight_bytes(state, now) + bytes;
        let bytes_per_s = match is_cached {
            true => self.write_cache.bytes_per_s,
            false => direction.bytes_per_s_with(in_flight_bytes),
        };
        let moves_ns = factor * Self::occupies_ns(direction, bytes_per_s, bytes);
        if !is_cached && bytes_per_s < direction.bytes_per_s {
            let slowed_ns = moves_ns * (1.0 - bytes_per_s / direction.bytes_per_s);
            state.slowed = state.slowed.saturating_add(Nanos::from_ns_f64(slowed_ns));
        }
        let occupied = Nanos::from_ns_f64(waits_ns + moves_ns);
        if bytes as f64 / bytes_per_s < 1.0 / direction.ios_per_s {
            state.by_number = state.by_number.saturating_add(Nanos::from_ns_f64(moves_ns));
        }
        let free_at = start.saturating_add(occupied);
        state.free_at[part] = free_at;
        state.occupied[part].add(now, start, free_at);
        let both_free_at = self.both_free_at(state, now, start, bytes);
        if kind == IoKind::Read {
            state.reads = state.reads.saturating_add(occupied);
        }
        state.last = Some(kind);
        state.taken += 1;
        let latencies = LatencySpread { median: direction.latency, p99: direction.latency_p99 };
        let latency = latencies.at(mix(state.taken));
        let done = match self.burst_period {
            Nanos::ZERO => free_at,
            slice => {
                state.limiters.iter_mut().for_each(|limiter| limiter.forget(now));
                let at = state.limiters[part].lets_through(ready, slice, occupied);
                // What is limited apart is one drive.
                let others = state.limiters[1 - part].done_of(at);
                state.limiters[part].add(at, others, direction.moves_in_burst(bytes))
            }
        };
        let done = done.max(both_free_at);
        let done = done.saturating_add(latency);
        if self.parallel_ios > 0 {
            state.working.push(Reverse(done));
        }
        if self.has_deep() {
            state.in_flight.push(Reverse((done, bytes)));
            state.in_flight_bytes += bytes;
        }
        if kind == IoKind::Write {
            state.written_at = state.written_at.max(done);
            // The flash is occupied until the cache is empty.
            let drained = state.cached_bytes / self.write.bytes_per_s * SECOND.as_ns_f64();
            let drained_at = state.cache_at.saturating_add(Nanos::from_ns_f64(drained));
            state.occupied[part].add(now, start, drained_at);
        }
        done
    }

    /// When the part that both directions share has moved an I/O that begins at `start`; zero where
    /// they share none.
    fn both_free_at(&self, state: &mut DeviceState, now: Nanos, start: Nanos, bytes: u64) -> Nanos {
        let Some(bytes_per_s) = self.both_bytes_per_s.filter(|_| self.is_duplex) else {
            return Nanos::ZERO;
        };
        let start = start.max(state.free_at[BOTH]);
        let moved = Nanos::from_ns_f64(bytes as f64 / bytes_per_s * SECOND.as_ns_f64());
        state.free_at[BOTH] = start.saturating_add(moved);
        state.occupied[BOTH].add(now, start, state.free_at[BOTH]);
        state.free_at[BOTH]
    }

    fn flushed_at(&self, state: &DeviceState, now: Nanos) -> Nanos {
        let written = state.written_at.max(now);
        let cached = match self.write_cache.is_volatile {
            true => self.cached_bytes(state, written) / self.write.bytes_per_s * SECOND.as_ns_f64(),
            false => 0.0,
        };
        written.saturating_add(Nanos::from_ns_f64(cached)).saturating_add(self.flush)
    }

    /// Whether the bytes in flight matter.
    fn has_deep(&self) -> bool {
        self.read.deep.is_some() || self.write.deep.is_some()
    }

    /// Bytes of the I/Os that have not ended; zero where they don't matter.
    fn in_flight_bytes(&self, state: &mut DeviceState, now: Nanos) -> u64 {
        while let Some(Reverse((_, bytes))) =
            state.in_flight.peek().filter(|Reverse((end, _))| *end <= now)
        {
            state.in_flight_bytes -= bytes;
            state.in_flight.pop();
        }
        state.in_flight_bytes
    }

    /// When fewer than `parallel_ios` are being worked on.
    fn place_free_at(&self, state: &mut DeviceState, now: Nanos) -> Nanos {
        if self.parallel_ios == 0 {
            return Nanos::ZERO;
        }
        while state.working.peek().is_some_and(|Reverse(end)| *end <= now) {
            state.working.pop();
        }
        match state.working.len() < self.parallel_ios as usize {
            true => Nanos::ZERO,
            false => {
                let free_at = state.working.pop().map_or(Nanos::ZERO, |Reverse(end)| end);
                state.crowded.add(now, now, free_at);
                free_at
            }
        }
    }

    /// Bytes in the cache at a time that is not before the last write.
    fn cached_bytes(&self, state: &DeviceState, at: Nanos) -> f64 {
        let passed = at.saturating_sub(state.cache_at);
        let reads = if self.is_duplex { Nanos::ZERO } else { state.reads - state.reads_at };
        let drains_s = passed.saturating_sub(reads).as_secs_f64();
        (state.cached_bytes - drains_s * self.write.bytes_per_s).max(0.0)
    }

    /// Puts a write into the cache; returns the time after `start` until there is room for it, ns.
    fn wait_for_cache_ns(&self, state: &mut DeviceState, start: Nanos, bytes: u64) -> f64 {
        let held = self.cached_bytes(state, start);
        let capacity = self.write_cache.bytes as f64;
        // A write larger than the cache goes through it.
        let excess = (held + (bytes as f64).min(capacity) - capacity).max(0.0);
        let wait_ns = excess / self.write.bytes_per_s * SECOND.as_ns_f64();
        state.cached_bytes = held - excess + bytes as f64;
        state.cache_at = start + Nanos::from_ns_f64(wait_ns);
        state.reads_at = state.reads;
        wait_ns
    }
}

/// Place of the part that both directions share, where they have one each.
const BOTH: usize = 2;

/// Spreads a counter evenly over 64 bits (SplitMix64, Steele et al., OOPSLA 2014).
fn mix(counter: u64) -> u64 {
    mix64(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl DeviceState {
    /// Does nothing for so long.
    pub fn stall(&mut self, now: Nanos, length: Nanos) {
        if length > Nanos::ZERO {
            self.free_at = self.free_at.map(|at| at.max(now).saturating_add(length));
        }
    }

    /// Time that the shared part was occupied until `now`, by I/Os or by what the write cache still
    /// holds; where reads and writes have one each, that of reads, of writes and of both.
    pub fn busy(&self, now: Nanos) -> [Nanos; 3] {
        [0, 1, BOTH].map(|part| self.occupied[part].until(now))
    }

    /// Time that all I/Os taken so far occupy the shared part where the limit of I/Os a second,
    /// rather than the bandwidth, decides it.
    pub fn by_number(&self) -> Nanos {
        self.by_number
    }

    /// Time that all I/Os taken so far occupy the shared part besides, as so many are in flight.
    pub fn slowed(&self) -> Nanos {
        self.slowed
    }

    /// Time that I/Os waited for one of the parallel places until `now`.
    pub fn crowded(&self, now: Nanos) -> Nanos {
        self.crowded.until(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{MICROSECOND, MILLISECOND};
    use crate::units::MIB;

    /// Latency of a read of `with_bandwidth`.
    const LATENCY: Nanos = Nanos::from_us(80);

    /// Bytes a second of `depth` I/Os in a closed loop.
    fn closed_loop(model: &DeviceModel, kinds: &[IoKind], bytes: u64, depth: usize) -> f64 {
        let mut state = DeviceState::default();
        let mut done = std::collections::BinaryHeap::new();
        let count = 20_000;
        let mut end = Nanos::ZERO;
        for index in 0..count {
            let now = match done.len() < depth {
                true => Nanos::ZERO,
                false => done.pop().map_or(Nanos::ZERO, |std::cmp::Reverse(at)| at),
            };
            let kind = kinds[index % kinds.len()];
            let at = model.serve(&mut state, now, kind, bytes);
            done.push(std::cmp::Reverse(at));
            end = end.max(at);
        }
        (count as u64 * bytes) as f64 / end.as_secs_f64()
    }

    #[test]
    fn a_drive_twice_as_quick_takes_half_of_each_time() {
        let mut model = DeviceModel::with_bandwidth(3e9, 1e9);
        model.read.latency_p99 = Nanos::from_us(400);
        model.read.deep = Some(DeepQueue { from_bytes: MIB, to_bytes: 8 * MIB, bytes_per_s: 2e9 });
        (model.flush, model.mixed_penalty) = (MILLISECOND, 0.25);
        model.write_cache =
            WriteCacheModel { bytes: 64 * MIB, bytes_per_s: 4e9, is_volatile: true };
        let ends = |model: DeviceModel| {
            let mut state = DeviceState::default();
            (0..2_000).map(move |index| {
                let kind = if index % 3 == 0 { IoKind::Write } else { IoKind::Read };
                model.serve(&mut state, Nanos::ZERO, kind, MIB).as_ns_f64()
            })
        };
        for (one, twice) in ends(model).zip(ends(model.times_as_quick(2.0))) {
            assert!((one / twice - 2.0).abs() < 1e-4, "{one} {twice}");
        }
        assert_eq!(model.times_as_quick(2.0).flush, MILLISECOND / 2);
    }

    #[test]
    fn bandwidth_grows_with_depth_up_to_the_limit() {
        let model = DeviceModel::with_bandwidth(3e9, 1e9);
        let one = closed_loop(&model, &[IoKind::Read], MIB, 1);
        let alone_s = MIB as f64 / 3e9 + 80e-6;
        assert!((one / (MIB as f64 / alone_s) - 1.0).abs() < 1e-3, "{one}");
        let deep = closed_loop(&model, &[IoKind::Read], MIB, 32);
        assert!((deep / 3e9 - 1.0).abs() < 1e-3, "{deep}");
        let writes = closed_loop(&model, &[IoKind::Write], MIB, 32);
        assert!((writes / 1e9 - 1.0).abs() < 1e-3, "{writes}");
        // Reads and writes share the drive's time: half of each takes the mean of their times.
        let mixed = closed_loop(&model, &[IoKind::Read, IoKind::Write], MIB, 32);
        assert!((mixed / 1.5e9 - 1.0).abs() < 1e-3, "{mixed}");
    }

    #[test]
    fn a_duplex_drive_has_both_limits_at_once() {
        let model = DeviceModel { is_duplex: true, ..DeviceModel::with_bandwidth(1e9, 1e9) };
        let mixed = closed_loop(&model, &[IoKind::Read, IoKind::Write], MIB, 64);
        assert!((mixed / 2e9 - 1.0).abs() < 1e-2, "{mixed}");
        let shared = DeviceModel { both_bytes_per_s: Some(1.5e9), ..model };
        let mixed = closed_loop(&shared, &[IoKind::Read, IoKind::Write], MIB, 64);
        assert!((mixed / 1.5e9 - 1.0).abs() < 1e-2, "{mixed}");
        let reads = closed_loop(&shared, &[IoKind::Read], MIB, 64);
        assert!((reads / 1e9 - 1.0).abs() < 1e-2, "{reads}");
        let mut state = DeviceState::default();
        for kind in [IoKind::Read, IoKind::Write] {
            shared.serve(&mut state, Nanos::ZERO, kind, 15 * MIB);
        }
        let busy_s = 2.0 * 15.0 * MIB as f64 / 1.5e9;
        let [reads, writes, both] = state.busy(SECOND).map(Nanos::as_secs_f64);
        assert!((both / busy_s - 1.0).abs() < 1e-3 && reads < both && writes < both);
    }

    #[test]
    fn bursts_keep_the_rate() {
        let burst_period = 100 * MILLISECOND;
        let model = DeviceModel { burst_period, ..DeviceModel::with_bandwidth(1e9, 1e9) };
        for depth in [1, 64] {
            let rate = closed_loop(&model, &[IoKind::Read], MIB, depth);
            assert!((rate / 1e9 - 1.0).abs() < 1e-2, "{rate}");
        }
        let mut state = DeviceState::default();
        let done: Vec<Nanos> =
            (0..200).map(|_| model.serve(&mut state, Nanos::ZERO, IoKind::Read, MIB)).collect();
        // What fits in the first burst is done at once, the next when that begins.
        assert_eq!((done[0], done[94]), (LATENCY, LATENCY));
        assert_eq!(done[96], burst_period + LATENCY);
    }

    /// All of a burst was done at once, and the first after a pause had the rest of a period that
    /// had begun before it.
    #[test]
    fn a_burst_has_a_speed_and_begins_with_the_first_io_after_a_pause() {
        let (ms, mut state) = (Nanos::from_ms, DeviceState::default());
        let mut model = DeviceModel {
            burst_period: ms(100),
            is_duplex: true,
            ..DeviceModel::with_bandwidth(1e9, 1e9)
        };
        for direction in [&mut model.read, &mut model.write] {
            (direction.latency, direction.latency_p99) = (Nanos::ZERO, Nanos::ZERO);
            direction.burst_bytes_per_s = Some(4e9);
        }
        let mut serve = |at_ms, kind, mb: u64| {
            let done = model.serve(&mut state, ms(at_ms), kind, mb * 1_000_000);
            done.as_ns_f64() / 1e6
        };
        let ends = [60, 40, 20].map(|mb| serve(90, IoKind::Read, mb));
        assert_eq!(ends, [105.0, 115.0, 195.0], "a quarter of a ms for each MB");
        // One drive: a write waits for the reads of this burst, and not for those of the next.
        assert_eq!(serve(90, IoKind::Write, 4), 116.0);
        assert_eq!(serve(150, IoKind::Write, 4), 151.0);
        assert_eq!(serve(190, IoKind::Write, 4), 196.0);
        assert_eq!(serve(390, IoKind::Read, 100), 415.0);
        assert_eq!([100, 100].map(|mb| serve(390, IoKind::Read, mb)), [515.0, 615.0]);
        assert_eq!(serve(400, IoKind::Write, 4), 416.0);
        assert!((closed_loop(&model, &[IoKind::Read], MIB, 4) / 1e9 - 1.0).abs() < 1e-2);
    }

    /// Every slice had begun with nothing, so that a light load waited for what it had not used.
    #[test]
    fn a_burst_has_what_the_slice_before_left() {
        let mut limiter = Limiter::default();
        let ms = Nanos::from_ms;
        let mut at = |at_ms, occupied_ms| {
            let at = limiter.lets_through(ms(at_ms), ms(100), ms(occupied_ms));
            at.as_ns_f64() / 1e6
        };
        assert_eq!([at(0, 4), at(90, 4), at(180, 192)], [0.0, 90.0, 180.0]);
        assert_eq!([at(190, 1), at(190, 100), at(190, 100)], [200.0, 300.0, 400.0]);
        // Of longer ago nothing is left, and of a pause neither.
        assert_eq!([at(450, 1), at(600, 1), at(740, 200)], [450.0, 600.0, 740.0]);
        assert_eq!([at(740, 100), at(740, 1)], [740.0, 800.0]);
        assert_eq!([at(1_500, 100), at(1_500, 1)], [1_500.0, 1_600.0]);
    }

    /// Four places of 8 ms moved seven times as much in bursts as without.
    #[test]
    fn parallel_places_hold_in_bursts_too() {
        let mut model = DeviceModel::with_bandwidth(4e9, 4e9);
        model.parallel_ios = 4;
        for direction in [&mut model.read, &mut model.write] {
            let latency = Nanos::from_ms(8);
            (direction.latency, direction.latency_p99) = (latency, latency);
        }
        let even = closed_loop(&model, &[IoKind::Read], MIB, 64);
        for burst_bytes_per_s in [None, Some(8e9)] {
            model.burst_period = 100 * MILLISECOND;
            model.read.burst_bytes_per_s = burst_bytes_per_s;
            let rate = closed_loop(&model, &[IoKind::Read], MIB, 64);
            assert!((rate / even - 1.0).abs() < 0.05, "{rate} {even}");
        }
    }

    #[test]
    fn small_ios_are_bound_by_their_number() {
        let mut model = DeviceModel::with_bandwidth(3e9, 1e9);
        model.read.ios_per_s = 100_000.0;
        let rate = closed_loop(&model, &[IoKind::Read], 4096, 64);
        assert!((rate / 4096.0 / 100_000.0 - 1.0).abs() < 1e-3, "{rate}");
        let mut state = DeviceState::default();
        for bytes in [4096, MIB] {
            model.serve(&mut state, Nanos::ZERO, IoKind::Read, bytes);
        }
        assert_eq!(state.by_number(), 10 * MICROSECOND, "the large one is bound by its bytes");
    }

    #[test]
    fn parallel_places_bound_what_small_ios_reach() {
        let model = DeviceModel { parallel_ios: 8, ..DeviceModel::with_bandwidth(100e9, 1e9) };
        let rate = closed_loop(&model, &[IoKind::Read], 4096, 64) / 4096.0;
        let one_s = 4096.0 / 100e9 + 80e-6;
        assert!((rate * one_s / 8.0 - 1.0).abs() < 1e-2, "{rate}");
        let mut state = DeviceState::default();
        let ends = (0..16).map(|_| model.serve(&mut state, Nanos::ZERO, IoKind::Read, 4096));
        let first = ends.min().unwrap();
        // The second eight wait for the first.
        let early = 50 * MICROSECOND;
        assert_eq!((state.crowded(early), first > LATENCY), (early, true));
        assert!(state.crowded(SECOND) < first + MICROSECOND && state.busy(SECOND)[0] < MICROSECOND);
    }

    #[test]
    fn latencies_have_the_median_and_the_tail_they_were_given() {
        let mut model = DeviceModel::with_bandwidth(1e15, 1e15);
        (model.read.latency, model.read.latency_p99) = (LATENCY, 200 * MICROSECOND);
        let mut state = DeviceState::default();
        let mut all: Vec<Nanos> = (0..100_000u64)
            .map(|index| {
                let now = index * MICROSECOND;
                model.serve(&mut state, now, IoKind::Read, 4096) - now
            })
            .collect();
        all.sort_unstable();
        let near = |place: usize, ns: f64| (all[place].as_ns_f64() / ns - 1.0).abs() < 0.02;
        assert!(
            near(50_000, 80_000.0) && near(99_000, 200_000.0),
            "{:?} {:?}",
            all[50_000],
            all[99_000]
        );
        assert!(all[0] >= 64 * MICROSECOND);
    }

    #[test]
    fn a_deep_queue_has_a_bandwidth_of_its_own() {
        let deep = DeepQueue { from_bytes: 4 * MIB, to_bytes: 8 * MIB, bytes_per_s: 1e9 };
        let mut model = DeviceModel::with_bandwidth(2e9, 2e9);
        model.read.deep = Some(deep);
        for (depth, expected) in [(1, 1.73e9), (4, 2e9), (6, 1.5e9), (8, 1e9), (32, 1e9)] {
            let rate = closed_loop(&model, &[IoKind::Read], MIB, depth);
            assert!((rate / expected - 1.0).abs() < 0.01, "{depth}: {rate}");
        }
        let mut state = DeviceState::default();
        for _ in 0..8 {
            model.serve(&mut state, Nanos::ZERO, IoKind::Read, MIB);
        }
        // At 1.75, 1.5, 1.25 and 1 GB/s: a byte takes 1/rate - 1/2 longer.
        let longer_s: f64 =
            [1.75e9, 1.5e9, 1.25e9, 1e9].map(|rate| 1.0 / rate - 0.5e-9).iter().sum();
        let slowed_s = state.slowed().as_secs_f64();
        assert!((slowed_s / (longer_s * MIB as f64) - 1.0).abs() < 1e-3, "{slowed_s}");
        // Both directions are in flight, and only one of them minds.
        assert!((closed_loop(&model, &[IoKind::Write], MIB, 32) / 2e9 - 1.0).abs() < 0.01);
        let mixed = closed_loop(&model, &[IoKind::Read, IoKind::Write], MIB, 8);
        assert!((mixed / (2.0 / (1.0 / 1e9 + 1.0 / 2e9)) - 1.0).abs() < 0.01, "{mixed}");
        model.read.deep = Some(DeepQueue { to_bytes: 4 * MIB, ..deep });
        assert!(model.check().unwrap_err().contains("read: deep: to_mib"));
        (model.read.deep, model.write.deep, model.write_cache.bytes) = (None, Some(deep), MIB);
        assert!(model.check().unwrap_err().contains("leave out one"));
    }

    #[test]
    fn turning_round_costs_what_the_model_says() {
        let model = DeviceModel { mixed_penalty: 0.25, ..DeviceModel::with_bandwidth(1e9, 1e9) };
        let alternating = closed_loop(&model, &[IoKind::Read, IoKind::Write], MIB, 32);
        assert!((alternating * 1.25 / 1e9 - 1.0).abs() < 1e-3, "{alternating}");
        let same = closed_loop(&model, &[IoKind::Read], MIB, 32);
        assert!((same / 1e9 - 1.0).abs() < 1e-3, "{same}");
    }

    #[test]
    fn a_write_cache_takes_a_burst_and_then_no_more() {
        let cache = WriteCacheModel { bytes: 64 * MIB, bytes_per_s: 10e9, is_volatile: true };
        let mut model = DeviceModel { write_cache: cache, ..DeviceModel::with_bandwidth(1e9, 1e9) };
        let mut state = DeviceState::default();
        let burst = (0..64)
            .map(|_| model.serve(&mut state, Nanos::ZERO, IoKind::Write, MIB))
            .max()
            .unwrap();
        assert!(burst < SECOND / 100, "64 MiB at 10 GB/s: {burst:?}");
        // The flash is at work while the cache drains.
        let drains = 30 * MILLISECOND;
        assert_eq!(state.busy(drains)[0], drains);
        let sustained = closed_loop(&model, &[IoKind::Write], MIB, 16);
        assert!((sustained / 1e9 - 1.0).abs() < 0.05, "{sustained}");
        // Volatile, it is empty after a flush; what it took at 10 GB/s drained at 1 the while.
        let flushed = model.serve(&mut state, Nanos::ZERO, IoKind::Flush, 0);
        let drained_s = 64.0 * MIB as f64 / 1e9 + 20e-6;
        assert!((flushed.as_secs_f64() / drained_s - 1.0).abs() < 0.02, "{flushed:?}");
        // Draining shares the drive with reads: half a second of each fills a second.
        let mixed = closed_loop(&model, &[IoKind::Read, IoKind::Write], MIB, 16);
        assert!((mixed / 1e9 - 1.0).abs() < 0.1, "{mixed}");
        // ... and no cache makes them more a second.
        model.write.ios_per_s = 1_000.0;
        let small = closed_loop(&model, &[IoKind::Write], 4096, 16) / 4096.0;
        assert!((small / 1_000.0 - 1.0).abs() < 0.01, "{small}");
    }

    #[test]
    fn a_flush_waits_for_the_writes_before_it() {
        let flush = Nanos::from_ns(500);
        let model = DeviceModel { flush, ..DeviceModel::with_bandwidth(1e9, 1e9) };
        let mut state = DeviceState::default();
        let written = model.serve(&mut state, Nanos::from_ns(100), IoKind::Write, MIB);
        assert_eq!(model.serve(&mut state, Nanos::from_ns(200), IoKind::Flush, 0), written + flush);
        assert_eq!(model.serve(&mut state, 10 * SECOND, IoKind::Flush, 0), 10 * SECOND + flush);
        // A MiB at 1 GB/s from 100 on; none of it before.
        let busy_ns = |ns| state.busy(Nanos::from_ns(ns))[0].as_ns();
        assert_eq!([100, 1_100, 1_000_000_000].map(busy_ns), [0, 1_000, MIB]);
    }

    #[test]
    fn numbers_that_no_drive_has_are_named() {
        let good = DeviceModel::with_bandwidth(1e9, 1e9);
        good.check().unwrap();
        for (bad, word) in [
            (DeviceModel { mixed_penalty: f64::NAN, ..good }, "mixed penalty"),
            (DeviceModel { both_bytes_per_s: Some(0.0), ..good }, "both directions"),
            (DeviceModel::with_bandwidth(0.0, 1e9), "read: bandwidth"),
            (DeviceModel::with_bandwidth(1e9, f64::INFINITY), "write: bandwidth"),
        ] {
            assert!(bad.check().unwrap_err().contains(word));
        }
    }
}
