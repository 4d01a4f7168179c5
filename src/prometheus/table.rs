//! The metrics, each declared here and nowhere else: its name, kind, unit and meaning, and the
//! figures of a run's look, or of an answer of `ringfall quick`, that it consists of.

use ringfall_config::Plan;
use ringfall_core::clock::Nanos;
use ringfall_core::key::Tier;
use ringfall_core::units::GIB;
use ringfall_engine::shard::Direction::{self, Read, Write};
use ringfall_report::quick::QuickReport;
use ringfall_running::run::Phase;

use super::look::RunLook;
use super::text::{Samples, label};

/// Kind of a metric, as OpenMetrics has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FamilyKind {
    /// Sum that never falls.
    Counter,
    /// Figure of the moment.
    Gauge,
    /// Events by buckets of their values.
    Histogram,
    /// Facts that do not change, as labels.
    Info,
    /// States of which one holds.
    StateSet,
}

/// A metric, with its samples for all labels.
pub struct Family<S> {
    /// Its name, without the ending that a counter's and an info's samples have.
    pub name: &'static str,
    /// Kind of its samples.
    pub kind: FamilyKind,
    /// Base unit, with which the name ends; none where it is a number of things.
    pub unit: Option<&'static str>,
    /// Meaning of the metric, in a sentence.
    pub help: &'static str,
    /// Function that writes its samples, one for each combination of labels.
    pub samples: S,
}

/// A metric of a run that goes on.
pub type RunFamily = Family<fn(&Seen<'_>, &mut Samples<'_>)>;
/// A metric of an answer of `ringfall quick`.
pub type AnswerFamily = Family<fn(&QuickReport, &mut Samples<'_>)>;

impl<S> Family<S> {
    /// Name of its samples; a histogram's have endings of their own besides.
    pub fn sample_name(&self) -> String {
        let ending = match self.kind {
            FamilyKind::Counter => "_total",
            FamilyKind::Info => "_info",
            FamilyKind::Gauge | FamilyKind::Histogram | FamilyKind::StateSet => "",
        };
        format!("{}{ending}", self.name)
    }
}

/// Facts about the run that do not change.
#[derive(Clone, Debug)]
pub struct RunIdentity {
    /// Random seed of the run.
    pub seed: u64,
    /// Name of the simulated model, which a configuration may have chosen.
    pub model: String,
    /// Number of this process among those of a launcher; none when it is no rank.
    pub rank: Option<u32>,
}

impl RunIdentity {
    /// Facts about the run of that plan.
    pub fn of(plan: &Plan) -> RunIdentity {
        RunIdentity {
            seed: plan.seed,
            model: plan.model.clone(),
            rank: plan.rank.as_ref().map(|rank| rank.launcher.rank),
        }
    }
}

/// All that metrics are made of.
pub struct Seen<'a> {
    /// Facts that do not change.
    pub identity: &'a RunIdentity,
    /// Figures of the run so far.
    pub look: &'a RunLook,
}

fn by_tier(to: &mut Samples<'_>, number: impl Fn(Tier) -> u64) {
    for tier in Tier::ALL {
        to.number(&[label("tier", tier.name())], number(tier));
    }
}

/// Writes the latencies of the reads or writes of each tier.
fn latencies_by_tier(seen: &Seen<'_>, to: &mut Samples<'_>, direction: Direction) {
    for tier in Tier::ALL {
        let latencies = &seen.look.tier(tier, direction).latency;
        to.latencies(&[label("tier", tier.name())], latencies);
    }
}

/// Declares a metric in a line: its kind, its name, its unit where it has one, its meaning, and
/// what writes its samples.
macro_rules! family {
    ($kind:ident $name:literal $(in $unit:literal)?: $help:literal, $samples:expr) => {
        Family {
            name: $name,
            kind: FamilyKind::$kind,
            unit: family!(@unit $($unit)?),
            help: $help,
            samples: $samples,
        }
    };
    (@unit) => { None };
    (@unit $unit:literal) => { Some($unit) };
}

/// Every metric of a run, in the order of the text and of the page.
pub const FAMILIES: &[RunFamily] = &[
    family!(Info "ringfall_build": "Version of the program, and the run's seed, model and rank.",
    |seen, to| {
        let RunIdentity { seed, model, rank } = seen.identity;
        let (seed, rank) = (seed.to_string(), rank.map(|rank| rank.to_string()));
        let mut labels = vec![
            label("version", env!("CARGO_PKG_VERSION")),
            label("seed", &seed),
            label("model", model),
        ];
        labels.extend(rank.as_deref().map(|rank| label("rank", rank)));
        to.number(&labels, 1);
    }),
    family!(StateSet "ringfall_phase": "Phase that the run is in: 1 for that phase, 0 for others.",
    |seen, to| {
        for phase in Phase::ALL {
            let is_in = u64::from(seen.look.phase == phase);
            to.number(&[label("ringfall_phase", phase.name())], is_in);
        }
    }),
    family!(Gauge "ringfall_phase_elapsed_seconds" in "seconds": "Time since the phase began.",
        |seen, to| to.time(&[], seen.look.elapsed.as_ns())),
    family!(Gauge "ringfall_phase_left_seconds" in "seconds":
    "Time until the phase ends; absent where that is unknown.",
    |seen, to| if seen.look.left != Nanos::MAX {
        to.time(&[], seen.look.left.as_ns());
    }),
    family!(Counter "ringfall_tier_read_bytes" in "bytes":
        "Bytes read from the tier: storage by completed I/O, memory by entries read.",
        |seen, to| by_tier(to, |tier| seen.look.tier(tier, Read).bytes)),
    family!(Counter "ringfall_tier_written_bytes" in "bytes":
        "Bytes written to the tier: storage by completed I/O, memory by entries written.",
        |seen, to| by_tier(to, |tier| seen.look.tier(tier, Write).bytes)),
    family!(Counter "ringfall_tier_reads": "Entries read from the tier.",
        |seen, to| by_tier(to, |tier| seen.look.tier(tier, Read).operations)),
    family!(Counter "ringfall_tier_writes": "Entries written to the tier.",
        |seen, to| by_tier(to, |tier| seen.look.tier(tier, Write).operations)),
    family!(Histogram "ringfall_tier_read_seconds" in "seconds":
        "Time to read an entry from the tier, waits for buffers and queue places included.",
        |seen, to| latencies_by_tier(seen, to, Read)),
    family!(Histogram "ringfall_tier_write_seconds" in "seconds":
        "Time to write an entry to the tier, without the wait for room in it.",
        |seen, to| latencies_by_tier(seen, to, Write)),
    family!(Histogram "ringfall_storage_device_read_seconds" in "seconds":
        "Time that the storage device took to read an entry, demotions and promotions included.",
        |seen, to| to.latencies(&[], seen.look.device(Read))),
    family!(Histogram "ringfall_storage_device_write_seconds" in "seconds":
        "Time that the storage device took to write an entry, demotions and promotions included.",
        |seen, to| to.latencies(&[], seen.look.device(Write))),
    family!(Counter "ringfall_storage_read_ios": "Single reads that the storage device completed.",
        |seen, to| to.number(&[], seen.look.ios(Read))),
    family!(Counter "ringfall_storage_write_ios":
        "Single writes that the storage device completed.",
        |seen, to| to.number(&[], seen.look.ios(Write))),
    family!(Counter "ringfall_storage_wait_seconds" in "seconds":
        "Time that entries waited for the storage device (room, buffers, queue places), summed.",
        |seen, to| to.time(&[], seen.look.storage_waits_ns)),
    family!(Counter "ringfall_io_errors": "I/Os that failed.",
        |seen, to| to.number(&[], seen.look.errors)),
    family!(Gauge "ringfall_ios_in_flight": "I/Os submitted and not yet completed.",
        |seen, to| to.number(&[], seen.look.status.in_flight.into())),
    family!(Gauge "ringfall_operations_in_flight":
        "Reads and writes of entries under way, those that wait for room included.",
        |seen, to| to.number(&[], seen.look.status.operations.into())),
    family!(Gauge "ringfall_tier_entries": "Entries that the tier holds.",
        |seen, to| by_tier(to, |tier| seen.look.status.held[tier.index()].entries)),
    family!(Gauge "ringfall_tier_used_bytes" in "bytes": "Bytes of the entries in the tier.",
        |seen, to| by_tier(to, |tier| seen.look.status.held[tier.index()].bytes)),
    family!(Gauge "ringfall_tier_capacity_bytes" in "bytes": "Bytes that the tier may hold.",
        |seen, to| by_tier(to, |tier| seen.look.capacity_bytes[tier.index()])),
    family!(Gauge "ringfall_tier_is_short":
        "1 while the tier gets less space than it was to have, otherwise 0.",
        |seen, to| by_tier(to, |tier| seen.look.is_short[tier.index()].into())),
    family!(Gauge "ringfall_drives_lost": "Drives that have failed during the run.",
        |seen, to| to.number(&[], seen.look.drives_lost)),
    family!(Gauge "ringfall_users": "Simulated users; absent when requests come from a trace.",
    |seen, to| if let Some(users) = seen.look.users {
        to.number(&[], users.into());
    }),
    family!(Gauge "ringfall_requests_queued": "Requests that wait to be served.",
        |seen, to| to.number(&[], seen.look.status.queued)),
    family!(Gauge "ringfall_requests_serving": "Requests being served.",
        |seen, to| to.number(&[], seen.look.status.serving.into())),
    family!(Counter "ringfall_requests_finished":
    "Requests that ended: completed, failed by an I/O error, or refused as too large.",
    |seen, to| {
        let requests = &seen.look.requests;
        to.number(&[label("outcome", "completed")], requests.completed);
        to.number(&[label("outcome", "failed")], requests.failed);
        to.number(&[label("outcome", "refused")], requests.refused);
    }),
    family!(Counter "ringfall_generated_tokens": "Tokens generated for the completed requests.",
        |seen, to| to.number(&[], seen.look.requests.generated_tokens)),
    family!(Counter "ringfall_request_wait_seconds" in "seconds":
    "Time that completed requests waited in the queue, for room in tiers and for permits.",
    |seen, to| {
        let requests = &seen.look.requests;
        to.time(&[label("reason", "queue")], requests.queued_ns);
        to.time(&[label("reason", "room")], requests.room_ns);
        to.time(&[label("reason", "permit")], requests.permit_ns);
    }),
    family!(Counter "ringfall_request_storage_seconds" in "seconds":
        "Time that completed requests spent on storage I/O, summed.",
        |seen, to| to.time(&[], seen.look.requests.storage_io_ns)),
    family!(Counter "ringfall_cache_reads": "Reads of entries by requests, hits and misses.",
    |seen, to| {
        to.number(&[label("result", "hit")], seen.look.requests.hits);
        to.number(&[label("result", "miss")], seen.look.requests.misses);
    }),
    family!(Counter "ringfall_cache_looks":
    "Looks for an entry that another request left, by whether they found it.",
    |seen, to| {
        to.number(&[label("result", "hit")], seen.look.requests.reuse.found);
        to.number(&[label("result", "miss")], seen.look.requests.reuse.missed);
    }),
    family!(Gauge "ringfall_populated_entries":
        "Entries of the population that were written or given up before the measurement.",
        |seen, to| to.number(&[], seen.look.status.populated)),
    family!(Gauge "ringfall_population_entries":
        "Entries to be written before the measurement; 0 until that begins.",
        |seen, to| to.number(&[], seen.look.status.population)),
];

/// Bytes in a number of GiB.
fn bytes(gib: f64) -> f64 {
    gib * GIB as f64
}

/// Every metric of an answer, in the order of the text and of the page.
pub const ANSWER_FAMILIES: &[AnswerFamily] = &[
    family!(Info "ringfall_quick": "Version of the program, directory, drive and model.",
    |answer, to| {
        let labels = [
            label("version", &answer.version),
            label("place", &answer.place),
            label("drive", &answer.drive),
            label("model", &answer.model),
        ];
        to.number(&labels, 1);
    }),
    family!(Gauge "ringfall_quick_users":
    "Users whom the drive serves within the rule; 0: not even one; absent without a verdict.",
    |answer, to| if let Some(users) = answer.answer() {
        to.number(&[], users.into());
    }),
    family!(Gauge "ringfall_quick_is_confirmed":
        "1 where a run of as many users on the drive bears that out, otherwise 0.",
        |answer, to| to.number(&[], answer.is_borne_out().into())),
    family!(Gauge "ringfall_quick_read_limit_bytes_per_second" in "bytes_per_second":
        "Highest bandwidth of reads alone.",
        |answer, to| to.figure(&[], bytes(answer.limits.read_gib_per_s))),
    family!(Gauge "ringfall_quick_write_limit_bytes_per_second" in "bytes_per_second":
        "Highest bandwidth of writes alone.",
        |answer, to| to.figure(&[], bytes(answer.limits.write_gib_per_s))),
    family!(Gauge "ringfall_quick_measured_bytes_per_second" in "bytes_per_second":
        "Bandwidth of the run on the drive, reads and writes together.",
        |answer, to| to.figure(&[], bytes(answer.measured.gib_per_s))),
    family!(Gauge "ringfall_quick_load_p95_seconds" in "seconds":
    "P95 of the time in which a request of that run loads its context; absent without loads.",
    |answer, to| if let Some(load_s) = answer.measured.load_p95_s {
        to.figure(&[], load_s);
    }),
    family!(Gauge "ringfall_quick_reuse_ratio" in "ratio":
    "Share of earlier turns that were found in that run; absent where none was looked for.",
    |answer, to| if let Some(share) = answer.measured.reuse_share {
        to.figure(&[], share);
    }),
];
