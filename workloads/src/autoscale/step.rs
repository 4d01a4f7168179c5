//! One user count, held until it is known how the system does with it.

use serde::{Deserialize, Serialize};

use super::backlog::Backlog;
use super::late::{LateShare, Tally};
use super::storage::{Peak, ShareUsed};
use super::{Latencies, Mode, Part, Sample, Settings};

/// Samples passed over after a change of users: answers of requests asked before it.
const SETTLE_SAMPLES: u32 = 1;
/// Longest wait for the requests that are passed over, s: in qos mode one of each user, for users
/// that begin together write together.
const SETTLE_S_MAX: f64 = 45.0;
/// Requests of each user that a patient step of a search for the peak passes over, for
/// [`LEAVE_S_MAX`] at most: users who have just come have read back less of their conversations
/// than they will. On a drive that writes at a tenth of its speed, 64 of them moved 6 % less in
/// their first ten requests each than later, and 1 % less after five were passed over.
const YOUNG_REQUESTS_EACH: u64 = 4;
/// Longest wait for requests that a larger number of users left in the queue, s.
const LEAVE_S_MAX: f64 = 600.0;
/// Time after which users who wait for answers are sent home until the requests of those that left
/// have ended, s: the urgent requests of the others may hold up less urgent ones for ever.
const RELIEF_AFTER_S: f64 = 45.0;
/// Longest wait for them then, s: those of a few hundred users take a slow drive half an hour. If
/// they are served for longer, they are part of the load that the step measures, and nothing is
/// known by it.
const RELIEF_S_MAX: f64 = 3_600.0;
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
/// while. Where that is not enough to know a peak, or whether requests are in time, it goes on for
/// twice as long, and twice again.
pub(super) const PATIENT_REQUESTS_EACH: u64 = 8;
/// Samples of a patient step at least, and at most.
const PATIENT_SAMPLES: [usize; 2] = [30, 600];
/// The most of one in a search for the peak.
const PEAK_PATIENT_SAMPLES_MAX: usize = 1200;
/// Samples from which the parts of such a step are long enough for their spread to be believed: a
/// conversation is read back more with each turn, so that on a drive with slower writes throughput
/// swings for minutes, and shorter parts lie too close together. Fewer samples have to show more.
const PEAK_BELIEVED_SAMPLES: usize = 600;
/// In slo mode, a step's length at least and at most, as multiples of the largest target: a request
/// that misses its target has not ended before.
const TARGETS: [usize; 2] = [1, 2];
/// The same of a patient step at least, so that what was asked at its ends matters little.
const PATIENT_TARGETS_MIN: usize = 5;
/// Samples of a patient step in slo mode before it can confirm anything: latencies swing for longer
/// than half a minute, in which a load that misses its targets may have no late request by chance.
const CONFIRMING_SAMPLES_MIN: usize = 120;
/// Parts of a patient step from which its uncertainty follows: its samples follow one another too
/// closely to be drawn by chance.
pub(super) const BLOCKS: usize = 6;
/// A peak is looked for among means that are known to this share (95 % confidence): nothing is said
/// of a step that may as well have moved half as much or twice.
pub(super) const KNOWN_TO: f64 = 0.05;
/// Steady: the mean is known to this share of it (95 % confidence) ...
pub(super) const UNCERTAINTY_MAX: f64 = 0.02;
/// ... and the two halves' means differ by at most this share.
const DRIFT_MAX: f64 = 0.02;
/// Requests of a class, or entries of a direction, before their P95 is believed: below this one
/// straggler decides.
const VALUES_MIN: u64 = 20;

/// Requests of a window for each of an earlier step beyond which a P95 is not changed by them.
const LEFT_OUT_OF: u64 = 20;

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
    /// Requests that arrived over those that ended; none where users wait for answers.
    pub backlog: Option<Backlog>,
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
    /// Requests that earlier steps left and that were still open when the window began, at least,
    /// where users do not wait for answers: its latencies are then not those of its users. 0 where
    /// they are too few to change a P95, at most one for twenty that ended in the window.
    pub backlog_before: u64,
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
    /// P95 of the requests of each class, ns. Slo: of those that ended in the window and those open
    /// at its end together, the latter with their age, so that it is a lower bound where there are
    /// any; none where no request ended and the open ones may yet be in time.
    pub class_p95_ns: [Option<u64>; 3],
    /// Slo: number of requests of each class that were open at its end.
    pub class_open: [u64; 3],
    /// Slo, in a patient step: share of each class's requests that were later than the target
    /// saturation allows; none of a class without requests.
    pub late: [Option<LateShare>; 3],
    /// Load on the storage tier.
    pub storage: StorageLoad,
    /// Slo: largest of the classes' P95 over target; none when no class has a P95. Otherwise that
    /// of the storage tier, which only all steps show.
    pub saturation: Option<f64>,
    /// Component that has this saturation.
    pub worst: Option<Part>,
    /// Qos, capacity: storage throughput over the highest of all steps, as its saturation takes it;
    /// only all steps show it.
    pub used_share: Option<f64>,
    /// Where the requests' time went.
    pub time: TimeShares,
    /// Number of requests that ended in the window and had loaded what was there before them.
    pub loads: u64,
    /// P50 and P95 of the time that these loads took, ns.
    pub load_ns: Option<[u64; 2]>,
    /// P95 of the time that the requests that ended spent on storage I/O, ns.
    pub storage_io_p95_ns: Option<u64>,
    /// Share of the reads of earlier turns that found them; none without such reads.
    pub reuse_share: Option<f64>,
    /// Share of the window in which the drive was busy; none where the samples do not say.
    pub drive_busy_share: Option<f64>,
}

impl StepResult {
    /// Whether its throughput is known well enough to look for a peak by it.
    pub(super) fn is_known(&self) -> bool {
        self.settled
            && !self.is_too_short()
            && self.bytes_per_s > 0.0
            && self.uncertainty <= KNOWN_TO
    }

    /// Whether a longer one in a search for the peak had to end before each user had its answers,
    /// while it still read back what those of other steps had left. Where users do not wait for
    /// answers, their backlog says as much.
    pub(super) fn is_too_short(&self) -> bool {
        let users_wait = self.storage.backlog.is_none();
        users_wait && self.patient && !self.steady && self.uncertainty <= KNOWN_TO
    }
}

/// A step under way.
#[derive(Debug)]
pub(super) struct UserStep<H> {
    mode: Mode,
    users: u32,
    settle_left: u32,
    /// Requests that must end before the window begins, now and of each user who comes back.
    settle_requests: u64,
    settle_requests_each: u64,
    /// Longest wait for them, s.
    settle_s_max: f64,
    /// Whether requests of users that went home are being served, or some from before the step are
    /// open, as far as is known.
    is_left_over: bool,
    /// Time at which its users came, or came back, s since it began.
    settles_from_s: f64,
    /// Whether its users are at home until the requests of earlier ones have ended.
    is_relieved: bool,
    /// Longest wait for requests from before the step, s.
    older_s_max: f64,
    /// Open requests that earlier steps left.
    inherited: u64,
    measures_backlog: bool,
    settled: bool,
    patient: bool,
    samples_min: usize,
    samples_max: usize,
    /// Qos: highest throughput that it is held against; none before the first patient step.
    peak: Option<Peak>,
    /// Samples after which a patient step is looked at again, if its figures decide when it ends.
    looks_after: usize,
    rates: Vec<f64>,
    /// Increase of the open requests per second in each sample; empty unless it judges by them.
    increases_per_s: Vec<f64>,
    /// Open requests at the end of the last sample.
    open: u64,
    /// Requests of each class that ended in each sample; empty but in a patient step in slo mode.
    tallies: [Vec<Tally>; 3],
    seconds: f64,
    sum: Sample<H>,
    elapsed_s: f64,
}

impl<H: Latencies> UserStep<H> {
    /// Begins a step with `users` users; `settle_requests` must end before its window, and four
    /// times as many in a patient step of a search for the peak. `longest`: samples of the longest
    /// patient step before it, half of which a patient one takes at least.
    pub(super) fn new(
        settings: &Settings,
        users: u32,
        patient: bool,
        settle_requests: u32,
        longest: usize,
    ) -> UserStep<H> {
        let [patient_min, patient_max] = PATIENT_SAMPLES;
        // A sample takes about a second.
        let target = settings.target_ns_max().div_ceil(1_000_000_000) as usize;
        let targets = |count: usize| target.saturating_mul(count).min(patient_max);
        let [samples_min, samples_max] = match (settings.mode, patient) {
            (Mode::Slo, true) => [patient_min.max(targets(PATIENT_TARGETS_MIN)), patient_max],
            (Mode::Capacity, true) => [patient_min.max(longest / 2), PEAK_PATIENT_SAMPLES_MAX],
            (_, true) => [patient_min.max(longest / 2), patient_max],
            (Mode::Capacity, false) => [PEAK_SAMPLES_MIN, WINDOW_SAMPLES_MAX],
            // Loads are fewer than requests.
            (Mode::Slo, false) if settings.rule.is_some() => {
                [WINDOW_SAMPLES_MIN.max(targets(TARGETS[0])), CONFIRMING_SAMPLES_MIN]
            }
            (Mode::Slo, false) => [
                WINDOW_SAMPLES_MIN.max(targets(TARGETS[0])),
                WINDOW_SAMPLES_MAX.max(targets(TARGETS[1])),
            ],
            (Mode::Qos, false) => [WINDOW_SAMPLES_MIN, WINDOW_SAMPLES_MAX],
        };
        let (settle_requests_each, settle_s_max) = match (settings.mode, patient) {
            (Mode::Capacity, true) => (YOUNG_REQUESTS_EACH, LEAVE_S_MAX),
            _ => (1, SETTLE_S_MAX),
        };
        UserStep {
            mode: settings.mode,
            users,
            settle_left: SETTLE_SAMPLES,
            settle_requests: u64::from(settle_requests) * settle_requests_each,
            settle_requests_each,
            settle_s_max,
            is_left_over: true,
            settles_from_s: 0.0,
            is_relieved: false,
            older_s_max: SETTLE_S_MAX.max(targets(TARGETS[1]) as f64),
            inherited: 0,
            measures_backlog: settings.measures_backlog(),
            settled: true,
            patient,
            samples_min,
            samples_max,
            peak: None,
            looks_after: samples_min,
            rates: Vec::new(),
            increases_per_s: Vec::new(),
            open: 0,
            tallies: <[Vec<Tally>; 3]>::default(),
            seconds: 0.0,
            sum: Sample::default(),
            elapsed_s: 0.0,
        }
    }

    /// The same after a step with more users: requests that they left end first, for their latency
    /// is not that of fewer. Users who do not wait for answers come when none is open: beside what
    /// more of them left, fewer may never work it off, which they would not have let pile up.
    pub(super) fn after_more_users(self, settings: &Settings) -> Self {
        UserStep { older_s_max: LEAVE_S_MAX, is_relieved: !settings.users_wait, ..self }
    }

    /// The same after a step that left so many requests.
    pub(super) fn inheriting(self, requests: u64) -> Self {
        UserStep { inherited: requests, ..self }
    }

    /// The same, held against the highest throughput so far.
    pub(super) fn held_against(self, peak: Option<Peak>) -> Self {
        UserStep { peak, ..self }
    }

    /// Requests that it leaves to the step after it: those open beyond one of each user, but for as
    /// many as may be generating tokens.
    pub(super) fn leaves(&self) -> u64 {
        if !self.measures_backlog || self.seconds <= 0.0 {
            return 0;
        }
        // Little's law.
        let generating = self.sum.time.generation_ns as f64 / 1e9 / self.seconds;
        let left = self.open as f64 - f64::from(self.users) - generating;
        left.round().max(0.0) as u64
    }

    /// Number of users that it is measured with.
    pub(super) fn users(&self) -> u32 {
        self.users
    }

    /// Number of users there should be now.
    pub(super) fn users_now(&self) -> u32 {
        if self.is_relieved { 0 } else { self.users }
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
        let open_before = std::mem::replace(&mut self.open, sample.requests_open());
        let increase_per_s = (self.open as f64 - open_before as f64) / seconds;
        if self.settle_left > 0 || self.settle_requests > 0 || self.is_left_over {
            self.settle(sample, settings);
            return None;
        }
        self.seconds += seconds;
        self.rates.push(sample.judged_bytes as f64 / seconds);
        if self.measures_backlog {
            self.increases_per_s.push(increase_per_s);
        }
        self.add(sample);
        if self.is_confirming() {
            for index in settings.judged() {
                let ended = settings.ended(sample, index);
                self.tallies[index].push(tally(ended, settings.limit_ns(index)));
            }
        }
        let ended = self.sum.requests_ended();
        let wanted = if self.patient { PATIENT_REQUESTS_EACH * u64::from(self.users) } else { 0 };
        let steady = self.rates.len() >= self.samples_min
            && match (self.mode, self.patient) {
                // More answers would not make it less late.
                (Mode::Slo, false) if self.is_late(settings) => true,
                (Mode::Slo, true) => self.knows_lateness(settings, ended >= wanted),
                _ if ended < wanted => false,
                (Mode::Capacity, false) => is_steady(&self.rates),
                (Mode::Capacity, true) => self.knows_peak(),
                (Mode::Slo, false) => {
                    let ended = settings.judged().map(|index| settings.ended(&self.sum, index));
                    is_believed(ended) && self.is_answered(settings)
                }
                (Mode::Qos, _) => {
                    let moved = [&self.sum.read_device, &self.sum.write_device];
                    let is_enough =
                        moved.iter().all(|moved| moved.count() == 0) || is_believed(moved);
                    is_enough && (!self.patient || self.knows_saturation(settings))
                }
            };
        (steady || self.rates.len() >= self.samples_max).then(|| self.result(steady, settings))
    }

    /// Requests of a class that ended in the window, with their latencies, and those open at its
    /// end, with their ages; by a rule the loads.
    fn requests(&self, settings: &Settings, index: usize) -> H {
        let mut requests = settings.ended(&self.sum, index).clone();
        requests.add(&settings.open(&self.sum, index));
        requests
    }

    /// Whether it is to show that requests are in time.
    fn is_confirming(&self) -> bool {
        self.mode == Mode::Slo && self.patient
    }

    /// Whether a class misses its target in a short step, whatever its open requests do.
    fn is_late(&self, settings: &Settings) -> bool {
        settings.judged().any(|class| {
            let requests = self.requests(settings, class);
            let p95_ns = requests.quantile_ns(0.95);
            requests.count() >= VALUES_MIN
                && p95_ns.is_some_and(|p95_ns| !settings.is_in_time(class, p95_ns))
        })
    }

    /// Share of late requests by class, of the window so far.
    fn late(&self, settings: &Settings) -> [Option<LateShare>; 3] {
        let mut late = [None; 3];
        for index in settings.judged() {
            let open = tally(&settings.open(&self.sum, index), settings.limit_ns(index));
            late[index] = LateShare::of(&self.tallies[index], open);
        }
        late
    }

    /// Whether a patient step knows if its requests are in time, where it looks now. A miss needs
    /// no more requests than show it; `has_enough`: whether there were enough to confirm the
    /// opposite.
    fn knows_lateness(&mut self, settings: &Settings, has_enough: bool) -> bool {
        if !self.looks_now() {
            return false;
        }
        let late = self.late(settings);
        let is_beyond = |class: usize| {
            late[class].is_some_and(|late| {
                // Where none was answered, a few open ones suffice.
                let is_starved = settings.ended(&self.sum, class).count() == 0;
                late.is_beyond() && (is_starved || late.requests >= VALUES_MIN)
            })
        };
        if settings.judged().any(is_beyond) {
            return true;
        }
        has_enough
            && self.rates.len() >= CONFIRMING_SAMPLES_MIN
            && self.is_answered(settings)
            && late.iter().flatten().all(LateShare::is_within)
    }

    /// Whether a request has ended of every class that has open ones, and by a rule a load has.
    fn is_answered(&self, settings: &Settings) -> bool {
        let mut classes = self.sum.classes.iter().zip(&self.sum.open);
        classes.all(|(ended, open)| ended.count() > 0 || open.count() == 0)
            && (settings.rule.is_none() || self.sum.context.load.count() > 0)
    }

    /// Whether it is time to look at a patient step: at its end, and before that each time after
    /// twice as many samples, since who looks at each of them ends with the first that is right by
    /// chance.
    fn looks_now(&mut self) -> bool {
        let is_time = self.rates.len() >= self.looks_after.min(self.samples_max);
        if is_time {
            self.looks_after = 2 * self.rates.len();
        }
        is_time
    }

    /// Whether a patient step of a search for the peak knows its throughput, where it looks now.
    fn knows_peak(&mut self) -> bool {
        let believed = self.rates.len() as f64 / PEAK_BELIEVED_SAMPLES as f64;
        let known_to = KNOWN_TO * believed.min(1.0).sqrt();
        self.looks_now() && mean_and_share(&blocks(&self.rates)).1 <= known_to
    }

    /// Whether a patient step knows if requests pile up, and if it is within the target saturation,
    /// where it looks now.
    fn knows_saturation(&mut self, settings: &Settings) -> bool {
        if !self.looks_now() {
            return false;
        }
        let load = self.storage();
        let (_, uncertainty) = mean_and_share(&blocks(&self.rates));
        // Short parts lie too close together.
        let believed = (self.rates.len() as f64 / PEAK_BELIEVED_SAMPLES as f64).min(1.0).sqrt();
        let decides = |peak: Peak| {
            let share = (load.bytes_per_s / peak.bytes_per_s).min(1.0);
            let used = ShareUsed::of(share, uncertainty / believed, peak);
            used.decides(self.users, &load, settings)
        };
        load.backlog.is_none_or(|backlog| backlog.grows() || backlog.is_held())
            && self.peak.map_or(uncertainty <= UNCERTAINTY_MAX, decides)
    }

    /// Requests that arrived over those that ended, in the window so far.
    fn backlog(&self) -> Option<Backlog> {
        let generation_s = self.sum.time.generation_ns as f64 / 1e9;
        let ended = self.sum.requests_ended();
        Backlog::of(&self.increases_per_s, ended, self.seconds, generation_s)
    }

    /// Passes a sample over.
    fn settle(&mut self, sample: &Sample<H>, settings: &Settings) {
        self.settle_left = self.settle_left.saturating_sub(1);
        self.settle_requests = self.settle_requests.saturating_sub(sample.requests_ended());
        if self.elapsed_s - self.settles_from_s >= self.settle_s_max {
            self.settle_requests = 0;
        }
        // First come, first served, but for more urgent classes.
        self.inherited = self.inherited.saturating_sub(sample.requests_ended()).min(self.open);
        self.is_left_over = match self.is_relieved {
            true => self.open > 0,
            // Of a user who waits for answers one request is served at a time.
            false => settings.users_wait && sample.requests_served > self.users.into(),
        };
        if self.elapsed_s >= RELIEF_S_MAX && std::mem::take(&mut self.is_left_over) {
            self.settled = false;
        }
        self.relieve();
        // What was asked less than a sample before the step counts as asked in it: ages are those
        // of a report, and a report follows its sample.
        let begun_s = self.elapsed_s + sample.length_ns as f64 / 1e9;
        let is_older =
            |open: &H| open.quantile_ns(1.0).is_some_and(|age_ns| age_ns as f64 / 1e9 > begun_s);
        self.is_left_over |= self.elapsed_s < self.older_s_max && sample.open.iter().any(is_older);
        if self.mode == Mode::Slo && !settings.users_wait {
            let begun_ns = (begun_s * 1e9) as u64;
            self.inherited = sample.open.iter().map(|open| tally(open, begun_ns).late).sum();
        }
    }

    /// Sends users home while requests of those that left are being served, and takes them back.
    fn relieve(&mut self) {
        if self.is_relieved && !self.is_left_over {
            self.is_relieved = false;
            self.settles_from_s = self.elapsed_s;
            self.settle_left = SETTLE_SAMPLES;
            self.settle_requests = u64::from(self.users) * self.settle_requests_each;
        } else if self.is_left_over && self.elapsed_s >= RELIEF_AFTER_S {
            self.is_relieved = true;
        }
    }

    fn add(&mut self, sample: &Sample<H>) {
        let sum = &mut self.sum;
        sum.storage_bytes += sample.storage_bytes;
        sum.tokens += sample.tokens;
        for (sum, one) in sum.classes.iter_mut().zip(&sample.classes) {
            sum.add(one);
        }
        sum.open.clone_from(&sample.open);
        sum.read.add(&sample.read);
        sum.write.add(&sample.write);
        sum.read_device.add(&sample.read_device);
        sum.write_device.add(&sample.write_device);
        sum.storage_waits_ns += sample.storage_waits_ns;
        sum.requests_queued += sample.requests_queued;
        sum.time.add(&sample.time);
        sum.context.add(&sample.context);
        if let Some(busy_ns) = sample.drive_busy_ns {
            *sum.drive_busy_ns.get_or_insert(0) += busy_ns;
        }
    }

    fn result(&self, steady: bool, settings: &Settings) -> StepResult {
        let three = |latencies: &H| {
            let at = |q| latencies.quantile_ns(q);
            Some([at(0.5)?, at(0.95)?, at(0.99)?])
        };
        let class_p95_ns: [Option<u64>; 3] = std::array::from_fn(|class| {
            if settings.rule.is_some() {
                return self.sum.classes[class].quantile_ns(0.95);
            }
            let p95_ns = self.requests(settings, class).quantile_ns(0.95)?;
            // Open requests alone show a miss, and no success.
            let is_known =
                self.sum.classes[class].count() > 0 || !settings.is_in_time(class, p95_ns);
            is_known.then_some(p95_ns)
        });
        let context = &self.sum.context;
        let turns = context.turns_found + context.turns_missed;
        let reuse_share = (turns > 0).then(|| context.turns_found as f64 / turns as f64);
        let worst = match settings.rule {
            Some(rule) => rule.judge(context.load.quantile_ns(0.95), reuse_share),
            None => class_p95_ns
                .iter()
                .enumerate()
                .filter_map(|(class, p95_ns)| Some((class, settings.of_target(class, (*p95_ns)?))))
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .map(|(class, saturation)| (Part::Class(class), saturation)),
        };
        let (mean, uncertainty) = match self.patient {
            true => mean_and_share(&blocks(&self.rates)),
            false => mean_and_share(&self.rates),
        };
        StepResult {
            users: self.users,
            window_s: self.seconds,
            end_s: self.elapsed_s,
            steady,
            patient: self.patient,
            settled: self.settled,
            backlog_before: self.backlog_before(),
            bytes_per_s: mean,
            uncertainty,
            tokens_per_s: self.sum.tokens as f64 / self.seconds,
            requests_per_s: self.sum.requests_ended() as f64 / self.seconds,
            read_ns: three(&self.sum.read),
            write_ns: three(&self.sum.write),
            class_p95_ns,
            class_open: self.sum.open.each_ref().map(Latencies::count),
            late: if self.is_confirming() { self.late(settings) } else { [None; 3] },
            storage: self.storage(),
            saturation: worst.map(|(_, saturation)| saturation),
            worst: worst.map(|(part, _)| part),
            used_share: None,
            time: self.sum.time,
            loads: context.load.count(),
            load_ns: context
                .load
                .quantile_ns(0.5)
                .zip(context.load.quantile_ns(0.95))
                .map(Into::into),
            storage_io_p95_ns: context.storage_io.quantile_ns(0.95),
            reuse_share,
            drive_busy_share: self.sum.drive_busy_ns.map(|ns| ns as f64 / 1e9 / self.seconds),
        }
    }

    /// Requests of earlier steps, if they are enough to change a P95.
    fn backlog_before(&self) -> u64 {
        let is_felt = self.inherited > self.sum.requests_ended() / LEFT_OUT_OF;
        if is_felt { self.inherited } else { 0 }
    }

    fn storage(&self) -> StorageLoad {
        let sum = &self.sum;
        StorageLoad {
            bytes_per_s: sum.storage_bytes as f64 / self.seconds,
            read_device_p95_ns: sum.read_device.quantile_ns(0.95),
            write_device_p95_ns: sum.write_device.quantile_ns(0.95),
            entries_waiting: sum.storage_waits_ns as f64 / (self.seconds * 1e9),
            requests_waiting: sum.requests_queued as f64 / self.rates.len().max(1) as f64,
            backlog: self.backlog(),
        }
    }
}

/// Number of latencies, and of those beyond a limit.
fn tally<H: Latencies>(latencies: &H, limit_ns: u64) -> Tally {
    let requests = latencies.count();
    Tally { requests, late: requests - latencies.count_at_most(limit_ns) }
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
pub(super) fn mean_and_uncertainty(values: &[f64]) -> (f64, f64) {
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
pub(super) fn blocks(rates: &[f64]) -> Vec<f64> {
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
