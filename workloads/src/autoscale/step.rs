//! One user count, held until it is known how the system does with it.

use serde::{Deserialize, Serialize};

use super::{Latencies, Mode, Part, Sample, Settings};

/// Samples passed over after a change of users: answers of requests asked before it.
const SETTLE_SAMPLES: u32 = 1;
/// Longest wait for the requests that are passed over, s: in qos mode, and in a patient step of a
/// search for the peak, one of each user, for users that begin together write together.
const SETTLE_S_MAX: f64 = 45.0;
/// Longest wait for the requests of users that went home, s: where they are served for longer, they
/// are part of the load that the step measures, and nothing is known by it.
const LEAVE_S_MAX: f64 = 600.0;
/// Samples of a window at least.
const WINDOW_SAMPLES_MIN: usize = 3;
/// The same in a search for the peak, where it is the evenness of the samples that ends a window:
/// three in a row are even by chance, as those in which a drive with slower writes only read.
const PEAK_SAMPLES_MIN: usize = 6;
/// ... and at most: then the step ends, steady or not.
const WINDOW_SAMPLES_MAX: usize = 12;
/// Requests that each user has had answered, on average, when a patient step ends: a load swings
/// with the turns of its conversations, so that any part of it which is even for some seconds is
/// not the whole. The length follows from the requests, and not from how even the samples are, for
/// who stops at the first even stretch finds the drive's limit in every load that reaches it for a
/// while. Where that is not enough to know a peak, it goes on for twice as long, and twice again.
const PATIENT_REQUESTS_EACH: u64 = 8;
/// Samples of a patient step at least, and at most.
const PATIENT_SAMPLES: [usize; 2] = [30, 600];
/// Parts of that step, of whose means its uncertainty follows: its samples follow one another too
/// closely to be drawn by chance.
const BLOCKS: usize = 6;
/// A peak is looked for among means that are known to this share (95 % confidence): nothing is said
/// of a step that may as well have moved half as much or twice.
pub(super) const KNOWN_TO: f64 = 0.05;
/// Steady: the mean is known to this share of it (95 % confidence) ...
const UNCERTAINTY_MAX: f64 = 0.02;
/// ... and the two halves' means differ by at most this share.
const DRIFT_MAX: f64 = 0.02;
/// Requests of a class, or entries of a direction, before their P95 is believed: below this one
/// straggler decides.
const VALUES_MIN: u64 = 20;

/// Where requests' time went: sums over the requests that ended, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TimeShares {
    /// From the intended arrival to the start of serving.
    pub queue_ns: u64,
    /// In storage steps, with their waits for permits and for room.
    pub storage_ns: u64,
    /// Waiting for generated tokens.
    pub generation_ns: u64,
    /// From the intended arrival to the end.
    pub total_ns: u64,
}

impl TimeShares {
    /// Adds the times of other requests.
    pub fn add(&mut self, other: &TimeShares) {
        self.queue_ns += other.queue_ns;
        self.storage_ns += other.storage_ns;
        self.generation_ns += other.generation_ns;
        self.total_ns += other.total_ns;
    }

    /// The largest part, by name, and its share.
    #[must_use]
    pub fn largest(&self) -> (&'static str, f64) {
        let parts = [
            ("queue", self.queue_ns),
            ("storage", self.storage_ns),
            ("generation", self.generation_ns),
        ];
        let (name, ns) = parts.into_iter().max_by_key(|&(_, ns)| ns).unwrap_or(("queue", 0));
        (name, ns as f64 / self.total_ns.max(1) as f64)
    }
}

/// Load that one user count put on the storage tier, with the latencies and queues it caused.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct StorageLoad {
    /// Bytes a second, both directions.
    pub bytes_per_s: f64,
    /// P95 of entries read from the device, first submit to last completion, ns.
    pub read_device_p95_ns: Option<u64>,
    /// P95 of entries written to it, to make room too, ns.
    pub write_device_p95_ns: Option<u64>,
    /// Entries that waited for the device, on average.
    pub entries_waiting: f64,
    /// Requests that waited to be served, on average.
    pub requests_waiting: f64,
}

/// Measurements at one user count.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepResult {
    /// Number of users that the step was measured with.
    pub users: u32,
    /// Length of the window, s.
    pub window_s: f64,
    /// End of the window since the first sample, s.
    pub end_s: f64,
    /// Whether it was steady.
    pub steady: bool,
    /// Whether it was a longer one, which confirms what a short one found.
    pub patient: bool,
    /// Whether no request of users that went home was served in it.
    pub settled: bool,
    /// Bytes a second of the storage tier, both directions; of all tiers where the run has none.
    pub bytes_per_s: f64,
    /// Half the width of that mean's 95 % confidence interval (Student's t), as a share of it.
    pub uncertainty: f64,
    /// Generated tokens a second.
    pub tokens_per_s: f64,
    /// Requests that finished in the window, per second.
    pub requests_per_s: f64,
    /// P50, P95 and P99 of storage reads, ns.
    pub read_ns: Option<[u64; 3]>,
    /// The same of storage writes.
    pub write_ns: Option<[u64; 3]>,
    /// P95 of the requests of each class, ns.
    pub class_p95_ns: [Option<u64>; 3],
    /// Load on the storage tier.
    pub storage: StorageLoad,
    /// Slo: largest of the classes' P95 over target; none when no request ended. Otherwise that of
    /// the storage tier, which only all steps show.
    pub saturation: Option<f64>,
    /// Component that has this saturation.
    pub worst: Option<Part>,
    /// Where the requests' time went.
    pub time: TimeShares,
}

impl StepResult {
    /// Whether its throughput is known well enough to look for a peak by it.
    pub(super) fn is_known(&self) -> bool {
        self.settled && self.bytes_per_s > 0.0 && self.uncertainty <= KNOWN_TO
    }
}

/// A step under way.
#[derive(Debug)]
pub(super) struct UserStep<H> {
    mode: Mode,
    users: u32,
    settle_left: u32,
    /// Requests that must end before the window begins.
    settle_requests: u64,
    /// Whether requests of users that went home are being served, as far as is known.
    is_left_over: bool,
    settled: bool,
    patient: bool,
    samples_min: usize,
    samples_max: usize,
    /// Samples after which a patient step of a search for the peak is looked at again.
    looks_after: usize,
    rates: Vec<f64>,
    seconds: f64,
    sum: Sample<H>,
    elapsed_s: f64,
}

impl<H: Latencies> UserStep<H> {
    /// Begins a step with `users` users; `settle_requests` must end before its window. `longest`:
    /// samples of the longest patient step before it, half of which a patient one takes at least.
    pub(super) fn new(
        mode: Mode,
        users: u32,
        patient: bool,
        settle_requests: u32,
        longest: usize,
    ) -> UserStep<H> {
        let [samples_min, samples_max] = match (mode, patient) {
            (Mode::Slo, true) => PATIENT_SAMPLES,
            (_, true) => [PATIENT_SAMPLES[0].max(longest / 2), PATIENT_SAMPLES[1]],
            (Mode::Capacity, false) => [PEAK_SAMPLES_MIN, WINDOW_SAMPLES_MAX],
            (Mode::Slo | Mode::Qos, false) => [WINDOW_SAMPLES_MIN, WINDOW_SAMPLES_MAX],
        };
        UserStep {
            mode,
            users,
            settle_left: SETTLE_SAMPLES,
            settle_requests: settle_requests.into(),
            is_left_over: true,
            settled: true,
            patient,
            samples_min,
            samples_max,
            looks_after: samples_min,
            rates: Vec::new(),
            seconds: 0.0,
            sum: Sample::default(),
            elapsed_s: 0.0,
        }
    }

    pub(super) fn users(&self) -> u32 {
        self.users
    }

    /// Samples of its window so far; 0 unless it is a patient one.
    pub(super) fn patient_samples(&self) -> usize {
        if self.patient { self.rates.len() } else { 0 }
    }

    /// Takes in a sample; the result when the step is over.
    pub(super) fn observe(
        &mut self,
        sample: &Sample<H>,
        settings: &Settings,
    ) -> Option<StepResult> {
        let seconds = sample.length_ns as f64 / 1e9;
        if seconds <= 0.0 {
            return None;
        }
        self.elapsed_s += seconds;
        if self.settle_left > 0 || self.settle_requests > 0 || self.is_left_over {
            self.settle(sample, settings);
            return None;
        }
        self.seconds += seconds;
        self.rates.push(sample.judged_bytes as f64 / seconds);
        self.add(sample);
        let ended: u64 = self.sum.classes.iter().map(Latencies::count).sum();
        let wanted = if self.patient { PATIENT_REQUESTS_EACH * u64::from(self.users) } else { 0 };
        let enough = self.rates.len() >= self.samples_min && ended >= wanted;
        let steady = enough
            && match (self.mode, self.patient) {
                (Mode::Capacity, false) => is_steady(&self.rates),
                (Mode::Capacity, true) => self.knows_peak(),
                (Mode::Slo, _) => is_believed(&self.sum.classes),
                (Mode::Qos, _) => {
                    let moved = [&self.sum.read_device, &self.sum.write_device];
                    moved.iter().all(|moved| moved.count() == 0) || is_believed(moved)
                }
            };
        (steady || self.rates.len() >= self.samples_max).then(|| self.result(steady, settings))
    }

    /// Whether a patient step of a search for the peak knows its throughput, where it looks now.
    fn knows_peak(&mut self) -> bool {
        if self.rates.len() < self.looks_after {
            return false;
        }
        self.looks_after = 2 * self.rates.len();
        mean_and_share(&blocks(&self.rates)).1 <= KNOWN_TO
    }

    /// Passes a sample over.
    fn settle(&mut self, sample: &Sample<H>, settings: &Settings) {
        self.settle_left = self.settle_left.saturating_sub(1);
        let ended: u64 = sample.classes.iter().map(Latencies::count).sum();
        self.settle_requests = self.settle_requests.saturating_sub(ended);
        if self.elapsed_s >= SETTLE_S_MAX {
            self.settle_requests = 0;
        }
        // Of a user who waits for answers one request is served at a time.
        self.is_left_over = settings.users_wait && sample.requests_served > self.users.into();
        if self.elapsed_s >= LEAVE_S_MAX && std::mem::take(&mut self.is_left_over) {
            self.settled = false;
        }
    }

    fn add(&mut self, sample: &Sample<H>) {
        let sum = &mut self.sum;
        sum.storage_bytes += sample.storage_bytes;
        sum.tokens += sample.tokens;
        for (sum, one) in sum.classes.iter_mut().zip(&sample.classes) {
            sum.add(one);
        }
        sum.read.add(&sample.read);
        sum.write.add(&sample.write);
        sum.read_device.add(&sample.read_device);
        sum.write_device.add(&sample.write_device);
        sum.storage_waits_ns += sample.storage_waits_ns;
        sum.requests_queued += sample.requests_queued;
        sum.time.add(&sample.time);
    }

    fn result(&self, steady: bool, settings: &Settings) -> StepResult {
        let three = |latencies: &H| {
            let at = |q| latencies.quantile_ns(q);
            Some([at(0.5)?, at(0.95)?, at(0.99)?])
        };
        let class_p95_ns: [Option<u64>; 3] =
            std::array::from_fn(|class| self.sum.classes[class].quantile_ns(0.95));
        let worst = class_p95_ns
            .iter()
            .zip(settings.targets_ns)
            .enumerate()
            .filter_map(|(class, (p95, target))| {
                Some((class, (*p95)? as f64 / target.max(1) as f64))
            })
            .max_by(|a, b| a.1.total_cmp(&b.1));
        let requests: u64 = self.sum.classes.iter().map(Latencies::count).sum();
        let (mean, uncertainty) = match (self.mode, self.patient) {
            (Mode::Capacity, true) => mean_and_share(&blocks(&self.rates)),
            _ => mean_and_share(&self.rates),
        };
        StepResult {
            users: self.users,
            window_s: self.seconds,
            end_s: self.elapsed_s,
            steady,
            patient: self.patient,
            settled: self.settled,
            bytes_per_s: mean,
            uncertainty,
            tokens_per_s: self.sum.tokens as f64 / self.seconds,
            requests_per_s: requests as f64 / self.seconds,
            read_ns: three(&self.sum.read),
            write_ns: three(&self.sum.write),
            class_p95_ns,
            storage: self.storage(),
            saturation: worst.map(|(_, saturation)| saturation),
            worst: worst.map(|(class, _)| Part::Class(class)),
            time: self.sum.time,
        }
    }

    fn storage(&self) -> StorageLoad {
        let sum = &self.sum;
        StorageLoad {
            bytes_per_s: sum.storage_bytes as f64 / self.seconds,
            read_device_p95_ns: sum.read_device.quantile_ns(0.95),
            write_device_p95_ns: sum.write_device.quantile_ns(0.95),
            entries_waiting: sum.storage_waits_ns as f64 / (self.seconds * 1e9),
            requests_waiting: sum.requests_queued as f64 / self.rates.len().max(1) as f64,
        }
    }
}

/// Whether there are values, and of each kind none or enough.
fn is_believed<'a, H: Latencies + 'a>(kinds: impl IntoIterator<Item = &'a H>) -> bool {
    let mut any = false;
    let enough = kinds.into_iter().all(|values| {
        any |= values.count() > 0;
        values.count() == 0 || values.count() >= VALUES_MIN
    });
    enough && any
}

/// Two-sided 95 % quantiles of Student's t distribution, by degrees of freedom from 1.
const STUDENT_T_95: [f64; 12] =
    [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18];

/// Mean, and half the width of its 95 % confidence interval.
fn mean_and_uncertainty(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n.max(1.0);
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let t = STUDENT_T_95[(values.len() - 2).min(STUDENT_T_95.len() - 1)];
    (mean, t * (variance / n).sqrt())
}

/// The same, the latter as a share of the mean; 0 of a mean of 0.
fn mean_and_share(values: &[f64]) -> (f64, f64) {
    let (mean, uncertainty) = mean_and_uncertainty(values);
    (mean, if mean > 0.0 { uncertainty / mean } else { 0.0 })
}

/// Means of equal parts of the rates, those at the beginning left out that are too few for a part.
fn blocks(rates: &[f64]) -> Vec<f64> {
    let length = (rates.len() / BLOCKS).max(1);
    let first = rates.len() % length.saturating_mul(BLOCKS).max(1);
    let parts = rates[first..].chunks_exact(length);
    parts.map(|part| part.iter().sum::<f64>() / length as f64).collect()
}

fn is_steady(rates: &[f64]) -> bool {
    let (mean, uncertainty) = mean_and_uncertainty(rates);
    let (first, second) = rates.split_at(rates.len() / 2);
    let mean_of = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let drift = (mean_of(second) - mean_of(first)).abs();
    uncertainty <= UNCERTAINTY_MAX * mean && drift <= DRIFT_MAX * mean
}

#[cfg(test)]
#[path = "step_test.rs"]
mod tests;
