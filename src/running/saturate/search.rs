//! Which load to try next: a search for the best I/O size and depth, not a sweep over all.
//!
//! Pure: figures in, points out. Depth is doubled until two doublings in a row bring nothing; a
//! probe far below a shallower one is no such doubling: it is repeated, and where it stays so low,
//! the climb goes on past it, for three depths in a row at most. Then the neighbouring sizes are
//! tried with as many bytes in flight, in the direction that is better, until it is not. The best
//! point is measured once more, for longer; where that is less than what another point had
//! promised, that one is too, and the best of them is the answer.

use ringfall_model::facts::SUNK_SHARE;
use serde::{Deserialize, Serialize};

/// Goal of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// Most bytes a second.
    Bandwidth,
    /// Most I/Os a second.
    Iops,
}

/// Sizes and depths that may be tried.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Smallest and largest I/O, bytes.
    pub io_bytes: (u32, u32),
    /// Largest depth over all threads.
    pub depth_max: u32,
    /// Most bytes in flight: the buffers' memory.
    pub in_flight_bytes_max: u64,
    /// Size of the range that I/Os go to, bytes; it holds one for each thread.
    pub range_bytes: u64,
    /// Threads that share the depth.
    pub threads: u32,
}

impl Bounds {
    /// Whether the range has room for an I/O of each thread that the depth keeps busy.
    fn range_holds(&self, point: Point) -> bool {
        let busy = u64::from(self.threads.min(point.depth).max(1));
        u64::from(point.io_bytes) * busy <= self.range_bytes
    }
}

/// A load to try: the size of its I/Os and how many of them are in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Size of an I/O, bytes.
    pub io_bytes: u32,
    /// Number of I/Os in flight, all threads together.
    pub depth: u32,
}

/// Next step of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SearchStep {
    /// Try this, briefly.
    Probe(Point),
    /// Measure this until it is steady: it is the best.
    Confirm(Point),
    /// The search is over.
    Done,
}

/// Size at which bandwidth is looked for first: the run's own default I/O.
const BANDWIDTH_IO_BYTES: u32 = 1 << 20;
/// A gain of less is none.
const GAIN_MIN: f64 = 0.02;
/// Doublings in a row without gain that end the climb.
const FLAT_MAX: u32 = 2;
/// Probes in a row far below a shallower one that end the climb, unsettled: three points.
const SUNK_MAX: u32 = 6;
/// The knee is the smallest depth with this much of the best.
const KNEE_SHARE: f64 = 0.95;
/// Points measured for longer, at most.
const CONFIRMED_MAX: usize = 3;
/// Steps between sizes: four times as much.
const SIZE_STEP: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SearchPhase {
    Climb {
        flat: u32,
        /// Probes in a row that were far below a shallower one, two of each point.
        sunk: u32,
    },
    /// Sizes above or below the best so far.
    Sizes {
        up: bool,
    },
    Confirm,
    Done,
}

/// The search for one goal and direction.
#[derive(Clone, Debug)]
pub struct Search {
    bounds: Bounds,
    phase: SearchPhase,
    next: Point,
    seen: Vec<(Point, f64)>,
    confirmed: Vec<(Point, f64)>,
}

impl Search {
    /// A search that has tried nothing yet.
    pub fn new(goal: Goal, bounds: Bounds) -> Search {
        let io_bytes = match goal {
            Goal::Bandwidth => BANDWIDTH_IO_BYTES.clamp(bounds.io_bytes.0, bounds.io_bytes.1),
            Goal::Iops => bounds.io_bytes.0,
        };
        let phase = SearchPhase::Climb { flat: 0, sunk: 0 };
        let next = Point { io_bytes, depth: 1 };
        Search { bounds, phase, next, seen: Vec::new(), confirmed: Vec::new() }
    }

    /// Next step that the search asks for.
    pub fn step(&self) -> SearchStep {
        match self.phase {
            SearchPhase::Climb { .. } | SearchPhase::Sizes { .. } => SearchStep::Probe(self.next),
            SearchPhase::Confirm => SearchStep::Confirm(self.next),
            SearchPhase::Done => SearchStep::Done,
        }
    }

    /// Takes what the step came to: bytes or I/Os a second, as the goal has it.
    pub fn observe(&mut self, value: f64) {
        let point = self.next;
        let gained = self.seen.is_empty() || value > self.best() * (1.0 + GAIN_MIN);
        if self.phase != SearchPhase::Confirm {
            match self.seen.last_mut().filter(|(last, _)| *last == point) {
                Some((_, last)) => *last = last.max(value),
                None => self.seen.push((point, value)),
            }
        }
        self.phase = match self.phase {
            SearchPhase::Climb { flat, sunk } if self.has_sunk(value) => match sunk % 2 {
                0 => SearchPhase::Climb { flat, sunk: sunk + 1 },
                _ => self.climb(flat, sunk + 1),
            },
            SearchPhase::Climb { flat, .. } => self.climb(if gained { 0 } else { flat + 1 }, 0),
            SearchPhase::Sizes { up } if gained => self.sizes(point, up),
            SearchPhase::Sizes { up: true } => self.sizes(self.climbed(), false),
            SearchPhase::Sizes { up: false } => self.confirm(),
            SearchPhase::Confirm => {
                self.confirmed.push((point, value));
                self.confirm()
            }
            SearchPhase::Done => SearchPhase::Done,
        };
    }

    /// The best of the probes so far.
    fn best(&self) -> f64 {
        self.seen.iter().map(|(_, value)| *value).fold(0.0, f64::max)
    }

    /// Whether anything was observed yet.
    pub fn has_begun(&self) -> bool {
        !self.seen.is_empty()
    }

    /// There is no time for more of this: from probing on to the best so far, from that to the end.
    pub fn cut(&mut self) {
        self.phase = match self.phase {
            SearchPhase::Climb { .. } | SearchPhase::Sizes { .. } => self.confirm(),
            SearchPhase::Confirm | SearchPhase::Done => SearchPhase::Done,
        };
    }

    fn climb(&mut self, flat: u32, sunk: u32) -> SearchPhase {
        let doubled = Point { depth: self.next.depth * 2, ..self.next };
        if flat < FLAT_MAX && sunk < SUNK_MAX && self.allows(doubled) {
            self.next = doubled;
            return SearchPhase::Climb { flat, sunk };
        }
        match self.next.io_bytes == self.bounds.io_bytes.0 {
            // The smallest I/Os: their number is what is looked for, not another size.
            true => self.confirm(),
            false => self.sizes(self.climbed(), true),
        }
    }

    /// Whether a probe is far below a shallower one.
    fn has_sunk(&self, value: f64) -> bool {
        value < SUNK_SHARE * self.best()
    }

    /// The knee of the climb: where its curve stops rising.
    fn climbed(&self) -> Point {
        let first = self.seen[0].0.io_bytes;
        self.knee_of(first).unwrap_or(self.seen[0].0)
    }

    /// Tries the next size above or below `from`, with as many bytes in flight.
    fn sizes(&mut self, from: Point, up: bool) -> SearchPhase {
        let (io_bytes, depth) = match up {
            true => (from.io_bytes.saturating_mul(SIZE_STEP), from.depth.div_ceil(SIZE_STEP)),
            false => (from.io_bytes / SIZE_STEP, from.depth.saturating_mul(SIZE_STEP)),
        };
        let point = Point { io_bytes, depth: depth.min(self.bounds.depth_max) };
        match (self.allows(point), up) {
            (true, _) => {
                self.next = point;
                SearchPhase::Sizes { up }
            }
            (false, true) => self.sizes(self.climbed(), false),
            (false, false) => self.confirm(),
        }
    }

    /// The point that promised most of those not confirmed, as long as it promised more than the
    /// best that was.
    fn confirm(&mut self) -> SearchPhase {
        let sure = self.confirmed.iter().map(|(_, value)| *value).fold(0.0, f64::max);
        let is_new = |point: &Point| self.confirmed.iter().all(|(known, _)| known != point);
        let promising = self
            .seen
            .iter()
            .filter(|(point, value)| is_new(point) && (*value > sure || self.confirmed.is_empty()))
            .max_by(|a, b| a.1.total_cmp(&b.1));
        match promising {
            Some((point, _)) if self.confirmed.len() < CONFIRMED_MAX => {
                self.next = *point;
                SearchPhase::Confirm
            }
            _ => SearchPhase::Done,
        }
    }

    fn allows(&self, point: Point) -> bool {
        let (low, high) = self.bounds.io_bytes;
        let in_flight = u64::from(point.io_bytes) * u64::from(point.depth);
        (low..=high).contains(&point.io_bytes)
            && point.depth <= self.bounds.depth_max
            && in_flight <= self.bounds.in_flight_bytes_max
            && self.bounds.range_holds(point)
    }

    /// The knee at the size of the climb: the smallest depth that reaches 95 % of what this size
    /// reaches, and no more than the best does. What was measured for longer counts for more than
    /// its probe: one lucky moment makes no knee.
    pub fn knee(&self) -> Option<Point> {
        self.knee_of(self.seen.first()?.0.io_bytes)
    }

    fn knee_of(&self, io_bytes: u32) -> Option<Point> {
        let sure = self.confirmed.iter().map(|(_, value)| *value).reduce(f64::max);
        let known = |&(point, probed): &(Point, f64)| {
            let confirmed = self.confirmed.iter().find(|(known, _)| *known == point);
            (point, confirmed.map_or(probed, |(_, value)| *value))
        };
        let of_size = || {
            let seen = self.seen.iter().filter(move |(point, _)| point.io_bytes == io_bytes);
            seen.map(known).filter(move |(_, value)| sure.is_none_or(|sure| *value <= sure))
        };
        let best = of_size().map(|(_, value)| value).fold(0.0, f64::max);
        of_size().find(|(_, value)| *value >= KNEE_SHARE * best).map(|(point, _)| point)
    }
}

#[cfg(test)]
mod tests {
    use ringfall_core::key::mix64;

    use super::*;

    fn bounds() -> Bounds {
        Bounds {
            io_bytes: (4096, 4 << 20),
            depth_max: 1024,
            in_flight_bytes_max: 1 << 30,
            range_bytes: 4 << 30,
            threads: 4,
        }
    }

    /// Runs the search on a device that is a function; what was confirmed, and how many probes.
    fn run(goal: Goal, bounds: Bounds, device: impl Fn(Point) -> f64) -> (Point, usize, Search) {
        let mut search = Search::new(goal, bounds);
        let (mut probes, mut confirmed) = (0, None);
        loop {
            match search.step() {
                SearchStep::Probe(point) => {
                    probes += 1;
                    search.observe(device(point));
                }
                SearchStep::Confirm(point) => {
                    confirmed = confirmed.or(Some(point));
                    search.observe(device(point));
                }
                SearchStep::Done => return (confirmed.unwrap(), probes, search),
            }
            assert!(probes < 64, "a search, not a sweep");
        }
    }

    /// Little's law below the limit: `depth` I/Os of `latency` each.
    fn drive(limit: f64, iops_limit: f64) -> impl Fn(Point) -> f64 {
        move |point| {
            let size = f64::from(point.io_bytes);
            let latency_s = 80e-6 + size / 3e9;
            (f64::from(point.depth) * size / latency_s).min(limit).min(iops_limit * size)
        }
    }

    #[test]
    fn finds_the_limit_and_the_knee_in_few_probes() {
        let (best, probes, search) = run(Goal::Bandwidth, bounds(), drive(14e9, 2e6));
        assert!(drive(14e9, 2e6)(best) >= 0.999 * 14e9);
        assert!(probes <= 12, "{probes}");
        let knee = search.knee().unwrap();
        assert!(drive(14e9, 2e6)(knee) >= 0.95 * 14e9);
        assert!(drive(14e9, 2e6)(Point { depth: knee.depth / 2, ..knee }) < 0.95 * 14e9);
    }

    #[test]
    fn finds_a_drive_that_likes_small_or_large_ios() {
        let small = |p: Point| if p.io_bytes == 1 << 18 { 3e9 } else { 2e9 };
        assert_eq!(run(Goal::Bandwidth, bounds(), small).0.io_bytes, 1 << 18);
        let large = |p: Point| if p.io_bytes == 4 << 20 { 3e9 } else { 2e9 };
        assert_eq!(run(Goal::Bandwidth, bounds(), large).0.io_bytes, 4 << 20);
    }

    #[test]
    fn iops_are_looked_for_at_the_smallest_size() {
        let iops = |p: Point| (f64::from(p.depth) * 12_000.0).min(900_000.0);
        let (best, _, search) = run(Goal::Iops, bounds(), iops);
        assert_eq!(best.io_bytes, 4096);
        assert_eq!(search.knee().unwrap().depth, 128);
        assert!(best.depth >= 128);
    }

    #[test]
    fn a_promise_that_is_not_kept_is_not_the_answer() {
        let mut search = Search::new(Goal::Bandwidth, bounds());
        let mut confirmed = Vec::new();
        loop {
            match search.step() {
                // One lucky moment at a depth of 2.
                SearchStep::Probe(point) => search.observe(match point {
                    Point { io_bytes: 1_048_576, depth: 2 } => 9e9,
                    Point { io_bytes: 1_048_576, depth: 1 } => 1e9,
                    _ => 4e9,
                }),
                SearchStep::Confirm(point) => {
                    confirmed.push(point);
                    search.observe(if point.depth == 2 { 1e9 } else { 4.1e9 });
                }
                SearchStep::Done => break,
            }
        }
        assert_eq!(confirmed.len(), 2);
        assert_eq!(confirmed[0].depth, 2);
        assert_eq!(search.knee().map(|knee| knee.depth), Some(4), "nor is it the knee");
    }

    /// A drive that does a twentieth in the first `stalled` probes of two I/Os in flight or more;
    /// the depth of each probe, and the search.
    fn run_disturbed(stalled: usize) -> (Vec<u32>, Search) {
        let (mut search, mut depths, mut stalls) =
            (Search::new(Goal::Bandwidth, bounds()), Vec::new(), 0);
        let sound = drive(4.8e9, 2e6);
        while let SearchStep::Probe(point) = search.step() {
            depths.extend((point.io_bytes == BANDWIDTH_IO_BYTES).then_some(point.depth));
            let is_stalled = point.depth >= 2 && stalls < stalled;
            stalls += usize::from(is_stalled);
            search.observe(sound(point) / if is_stalled { 20.0 } else { 1.0 });
        }
        (depths, search)
    }

    /// A stall during one probe was a doubling that brought nothing, and ended the climb.
    #[test]
    fn a_probe_far_below_a_shallower_one_does_not_end_the_climb() {
        let (sound, _) = run_disturbed(0);
        assert!(sound.len() <= 6, "{sound:?}");
        // Repeated, it counts as if it had not been disturbed.
        let (depths, search) = run_disturbed(1);
        assert_eq!((depths[..3].to_vec(), depths.len()), (vec![1, 2, 2], sound.len() + 1));
        assert_eq!(search.knee(), run_disturbed(0).1.knee());
        // It stays so low, and the climb goes on past it.
        let (depths, search) = run_disturbed(2);
        assert_eq!((depths[..4].to_vec(), depths.len()), (vec![1, 2, 2, 4], sound.len() + 2));
        let SearchStep::Confirm(best) = search.step() else { panic!("{search:?}") };
        assert!(drive(4.8e9, 2e6)(best) >= 0.999 * 4.8e9, "{best:?}");
        // A drive that does so all the time is not asked for ever.
        assert_eq!(run_disturbed(usize::MAX).0, [1, 2, 2, 4, 4, 8, 8]);
    }

    /// The probes that gave 2.8 GiB/s as the limit of a drive that does 4.8.
    #[test]
    fn a_small_loss_and_then_a_stall_are_not_two_flat_doublings() {
        let mut search = Search::new(Goal::Bandwidth, bounds());
        for (depth, rate) in [(1, 1.59), (2, 1.34), (4, 0.05)] {
            let point = Point { io_bytes: 1 << 20, depth };
            assert_eq!(search.step(), SearchStep::Probe(point));
            search.observe(rate);
        }
        let again = Point { io_bytes: 1 << 20, depth: 4 };
        assert_eq!(search.step(), SearchStep::Probe(again));
        search.observe(4.1);
        assert_eq!(search.step(), SearchStep::Probe(Point { depth: 8, ..again }));
    }

    #[test]
    fn the_best_does_no_less_than_the_knee_and_is_no_shallower() {
        // Each probe is off by up to 30 %, and so is each longer look.
        for seed in 0..2_000u64 {
            let (mut search, mut looks) = (Search::new(Goal::Bandwidth, bounds()), seed << 8);
            let (mut probed, mut confirmed): (Vec<(Point, f64)>, Vec<_>) = Default::default();
            loop {
                let step = search.step();
                let (SearchStep::Probe(point) | SearchStep::Confirm(point)) = step else { break };
                looks += 1;
                let off = 0.7 + (mix64(looks) % 600) as f64 / 1_000.0;
                let value = drive(3e9, 2e6)(point) * off;
                search.observe(value);
                let list =
                    if matches!(step, SearchStep::Probe(_)) { &mut probed } else { &mut confirmed };
                list.push((point, value));
            }
            let (best, most) =
                confirmed.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
            let Some(knee) = search.knee() else { continue };
            let mut known = confirmed.iter().chain(&probed).filter(|(point, _)| *point == knee);
            assert!(known.next().unwrap().1 <= most, "seed {seed}");
            assert!(knee.io_bytes != best.io_bytes || knee.depth <= best.depth, "seed {seed}");
        }
    }

    #[test]
    fn a_range_that_does_not_hold_an_io_of_each_thread_is_not_asked_to() {
        // 64 threads of 4 MiB need 256 MiB: it was tried on less, and the load refused it.
        let small = Bounds { range_bytes: 128 << 20, threads: 64, ..bounds() };
        let check = |p: Point| {
            assert!(u64::from(p.io_bytes) * u64::from(p.depth.min(64)) <= 128 << 20, "{p:?}");
            f64::from(p.depth) * f64::from(p.io_bytes)
        };
        run(Goal::Bandwidth, small, check);
    }

    #[test]
    fn a_search_that_is_cut_measures_the_best_it_saw_and_then_ends() {
        let mut search = Search::new(Goal::Bandwidth, bounds());
        for value in [1e9, 3e9, 2e9] {
            search.observe(value);
        }
        assert!(matches!(search.step(), SearchStep::Probe(_)));
        search.cut();
        assert_eq!(search.step(), SearchStep::Confirm(Point { io_bytes: 1 << 20, depth: 2 }));
        search.cut();
        assert_eq!(search.step(), SearchStep::Done);
        search.cut();
        assert_eq!(search.step(), SearchStep::Done);
        assert_eq!(search.knee().map(|knee| knee.depth), Some(2));
    }

    #[test]
    fn stays_within_bounds_and_ends_whatever_it_sees() {
        let tight = Bounds {
            io_bytes: (65_536, 65_536),
            depth_max: 3,
            in_flight_bytes_max: 1 << 17,
            ..bounds()
        };
        for value in [0.0, 1.0, f64::NAN] {
            let check = |p: Point| {
                assert!(p.io_bytes == 65_536 && p.depth <= 2, "{p:?}");
                value
            };
            run(Goal::Bandwidth, tight.clone(), check);
            run(Goal::Iops, bounds(), |_| value);
        }
    }
}
