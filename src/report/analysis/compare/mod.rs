//! Two results, or the trials of two: how each metric differs, how sure that is, and which metric
//! to go by.

use std::path::PathBuf;

use ringfall_host::counted;
use ringfall_model::cold::ColdReads;
use ringfall_model::document::{
    FileProblem, Histograms, Kind, ResultFile, SecondReport, contradictions, told_contradictions,
};
use ringfall_model::merge::merge;
use ringfall_model::metrics::{Better, Evidence, METRICS, Metric};
use ringfall_model::published::{Published, published};
use ringfall_model::stats::{self, Interval, Slice};
use ringfall_model::trust::{Advice, Situation, advise};
use ringfall_model::{Code, Document};
use serde::Serialize;

use super::differences::{self, Difference};

/// Seeds of the draws: fixed, so that the same files always say the same; different, so that the
/// two sides' draws are independent.
const SEEDS: [u64; 2] = [0xba5e, 0xca9d];

/// Difference of two hit rates beyond which runs did not do the same work: 3 points, above what
/// runs of one configuration differ by.
const HIT_RATES_APART: f64 = 0.03;

/// Source of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Variation between trials.
    Trials,
    /// Number of events, taken as independent of each other.
    Events,
    /// Variation between the seconds of a run.
    Seconds,
}

impl Basis {
    /// As people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Trials => "trials",
            Basis::Events => "events",
            Basis::Seconds => "seconds",
        }
    }
}

/// Verdict of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The candidate is better, and the interval leaves equality out.
    Better,
    /// It is worse.
    Worse,
    /// It differs in something that is neither.
    Different,
    /// The interval has room for equality.
    NotShown,
    /// There is no interval.
    Unknown,
}

impl Verdict {
    /// As people read it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Different => "different",
            Verdict::NotShown => "no difference shown",
            Verdict::Unknown => "",
        }
    }
}

/// One metric of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Row {
    /// Key of the metric, as in `Metric::key`.
    pub metric: &'static str,
    /// Direction that counts as a win.
    pub better: Better,
    /// Value of the baseline; for trials, their geometric mean.
    pub baseline: f64,
    /// Value of the candidate, likewise.
    pub candidate: f64,
    /// Candidate over baseline; `None` when that is 0.
    pub ratio: Option<f64>,
    /// Confidence interval of the ratio, at 95 %.
    pub interval: Option<Interval>,
    /// Basis of the interval.
    pub basis: Option<Basis>,
    /// Reason why there is no interval.
    pub no_interval: Option<&'static str>,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

/// A comparison of two results, or of two sets of trials, metric by metric.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Files of the baseline.
    pub baseline: Vec<String>,
    /// Files of the candidate.
    pub candidate: Vec<String>,
    /// Reasons that the comparison says less than it seems to, to be read before its rows.
    pub cautions: Vec<String>,
    /// One a metric that both have.
    pub rows: Vec<Row>,
    /// Which of them to go by, and why.
    pub trust: Vec<Advice>,
    /// Ratios published for the configuration that both sides ran, if any.
    pub published: Vec<Published>,
    /// Settings that are not the same.
    pub configuration_differences: Vec<Difference>,
    /// Facts of the machine that are not.
    pub machine_differences: Vec<Difference>,
    /// Whether what each of them read came from its device; without those that don't say.
    pub cold_reads: Vec<ColdSide>,
    /// Further notes for the reader.
    pub notes: Vec<String>,
}

/// Whether the reads of one side reached its device.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct ColdSide {
    /// Which side it is, `baseline` or `candidate`.
    pub side: &'static str,
    /// Verdict of the side's counters on its reads.
    pub reads: ColdReads,
}

/// One side: its files, and what they are together.
struct Side {
    files: Vec<ResultFile>,
    /// None of several of the reference's: those are compared trial by trial.
    whole: Option<Document>,
    histograms: Histograms,
}

impl Side {
    fn of(files: Vec<ResultFile>) -> Result<Side, FileProblem> {
        let ours = files.iter().all(|file| file.kind() != Kind::Reference);
        let whole = match &files[..] {
            [one] => Some(one.document.clone()),
            several if ours => Some(merge(several, &[], &[])?),
            _ => None,
        };
        let histograms = match (&whole, files.first()) {
            (Some(whole), Some(first)) if ours => Histograms::read(whole, &first.path)?,
            _ => Histograms::default(),
        };
        Ok(Side { files, whole, histograms })
    }

    fn values(&self, metric: &Metric) -> Vec<f64> {
        self.files.iter().filter_map(|file| metric.of(&file.document)).collect()
    }

    /// None where a second does not say it.
    fn series(&self, amount: fn(&SecondReport) -> Option<u64>) -> Option<Vec<Slice>> {
        let rows = &self.whole.as_ref()?.ringfall.timeline;
        let slice = |row: &SecondReport| {
            Some(Slice { amount: amount(row)? as f64, seconds: row.seconds.known()? })
        };
        rows.iter().map(slice).collect()
    }

    fn draws(&self, evidence: &Evidence, seed: u64) -> Result<Vec<f64>, &'static str> {
        match evidence {
            Evidence::Quantile(times, quantile) => {
                let events = self.histograms.sum(times.histograms()).ok_or("no histogram of it")?;
                let shares = stats::quantile_draws(events.count(), *quantile, seed)
                    .ok_or("too few events to bound it")?;
                let at = |share: f64| events.quantile_ns(share).unwrap_or(0) as f64;
                Ok(shares.into_iter().map(at).collect())
            }
            Evidence::PerSecond(amount) => {
                let series = self.series(*amount).ok_or("no timeline of it")?;
                stats::rate_draws(&series, seed).ok_or("fewer than ten seconds")
            }
            Evidence::None(why) => Err(why),
        }
    }
}

/// Compares the candidate with the baseline, each one result or several trials.
///
/// # Errors
/// When a result is damaged, or a side has none.
pub fn compare(
    baseline: Vec<ResultFile>,
    candidate: Vec<ResultFile>,
) -> Result<Comparison, FileProblem> {
    let (a, b) = (Side::of(baseline)?, Side::of(candidate)?);
    let trials = a.files.len() > 1 && b.files.len() > 1;
    let rows: Vec<Row> = METRICS.iter().filter_map(|metric| row(metric, &a, &b, trials)).collect();
    let (mut configuration, mut machine) = (Vec::new(), Vec::new());
    let others = a.files.iter().skip(1).chain(&b.files);
    if let Some(first) = a.files.first() {
        for other in others {
            add_new(&mut configuration, differences::configuration(first, other));
            add_new(&mut machine, differences::machine(first, other));
        }
    }
    let situations = |side: &Side| side.files.iter().map(Situation::of).collect::<Vec<_>>();
    // Without a drive there is none to go by.
    let have_drives = a.files.iter().chain(&b.files).all(|file| !file.document.is_without_drive());
    let all = match have_drives {
        true => [situations(&a), situations(&b)].concat(),
        false => Vec::new(),
    };
    let there = |advice: &Advice| rows.iter().any(|row| row.metric == advice.metric);
    let names = |side: &Side| side.files.iter().map(ResultFile::name).collect();
    Ok(Comparison {
        baseline: names(&a),
        candidate: names(&b),
        trust: advise(&all).into_iter().filter(there).collect(),
        cautions: cautions(&a, &b),
        notes: notes(&a, &b, trials),
        cold_reads: [("baseline", &a), ("candidate", &b)]
            .into_iter()
            .filter_map(|(name, side)| {
                let reads = side.whole.as_ref()?.ringfall.device.cold_reads.as_ref()?;
                Some(ColdSide { side: name, reads: reads.clone() })
            })
            .collect(),
        published: published_of(&a, &b, &rows),
        rows,
        configuration_differences: configuration,
        machine_differences: machine,
    })
}

/// Cautions; one that holds of every figure stands first.
fn cautions(a: &Side, b: &Side) -> Vec<String> {
    let all = [
        searched_users(a, b),
        same_files(a, b),
        other_work(a, b),
        other_seeds(a, b),
        copies("baseline", a),
        copies("candidate", b),
    ];
    all.into_iter().flatten().collect()
}

/// Answers of the searches for a number of users, where a side has one: the figures of such a
/// result are those of all its steps together.
fn searched_users(a: &Side, b: &Side) -> Option<String> {
    let answers = |side: &Side| -> Vec<String> {
        let searches = side.files.iter().filter_map(|file| {
            let found = file.document.ringfall.autoscaler.as_ref()?;
            Some(found.answer())
        });
        searches.collect()
    };
    let (one, other) = (answers(a), answers(b));
    if one.is_empty() && other.is_empty() {
        return None;
    }
    let told = |answers: Vec<String>| match answers.is_empty() {
        true => "no search".to_owned(),
        false => answers.join(" and "),
    };
    Some(format!(
        "the figures are means over all numbers of users that the searches tried, which differ: \
         compare the answers (baseline: {}; candidate: {}), or runs with a fixed --num-users",
        told(one),
        told(other)
    ))
}

/// Files that stand on both sides, of which nothing can differ.
fn same_files(a: &Side, b: &Side) -> Option<String> {
    let real = |file: &ResultFile| std::fs::canonicalize(&file.path).unwrap_or(file.path.clone());
    let known: Vec<PathBuf> = a.files.iter().map(real).collect();
    let both = b.files.iter().filter(|file| known.contains(&real(file)));
    let names: Vec<String> = both.map(ResultFile::name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "baseline and candidate are the same file ({}): a result compared with itself shows \
             no difference",
            names.join(", ")
        )
    })
}

/// Simulated runs of one side with the same seed, of which each is a copy of the other.
fn copies(name: &str, side: &Side) -> Option<String> {
    let simulated = side.files.iter().filter(|file| file.document.ringfall.simulation.is_some());
    let mut seeds: Vec<u64> = simulated.filter_map(|file| file.document.seed.known()).collect();
    let all = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    (seeds.len() < all).then(|| {
        format!(
            "the {name} has {all} simulated runs of {}: those with the same seed are copies of one \
             run, so that their agreement says nothing; simulate with another --seed each",
            counted(seeds.len() as u64, "seed")
        )
    })
}

/// Hit rates that lie apart, of what can be missed; none where one side did not count it.
fn other_work(a: &Side, b: &Side) -> Option<String> {
    let rate = |side: &Side| side.whole.as_ref()?.ringfall.cache.look_hit_rate.known();
    let (one, other) = (rate(a)?, rate(b)?);
    ((one - other).abs() > HIT_RATES_APART).then(|| {
        format!(
            "tokens/s, requests/s and latencies are not of the same work: {:.1} % of the looks for \
             earlier turns, shared prefixes and populated entries found them in the baseline and \
             {:.1} % in the candidate, and a miss costs no time, as recomputing the entry is not \
             modelled",
            one * 100.0,
            other * 100.0
        )
    })
}

/// Seeds that differ, where each side has one; none where a side's results have several.
fn other_seeds(a: &Side, b: &Side) -> Option<String> {
    let seed = |side: &Side| side.whole.as_ref()?.seed.known();
    let (one, other) = (seed(a)?, seed(b)?);
    (one != other).then(|| {
        format!(
            "the requests differ with the seed ({one} in the baseline, {other} in the candidate): \
             give both runs the same --seed, or each side several results"
        )
    })
}

/// Only where every run had the same of these settings.
fn published_of(a: &Side, b: &Side, rows: &[Row]) -> Vec<Published> {
    let mut all = a.files.iter().chain(&b.files).map(differences::told_by);
    let Some(Some(first)) = all.next() else { return Vec::new() };
    let ratio_of = |key: &str| rows.iter().find(|row| row.metric == key)?.ratio;
    match all.all(|other| other.as_ref() == Some(&first)) {
        true => published(&first, ratio_of),
        false => Vec::new(),
    }
}

fn add_new(all: &mut Vec<Difference>, more: Vec<Difference>) {
    for difference in more {
        if !all.iter().any(|known| known.key == difference.key) {
            all.push(difference);
        }
    }
}

fn row(metric: &Metric, a: &Side, b: &Side, trials: bool) -> Option<Row> {
    let value = |side: &Side| {
        let values = side.values(metric);
        stats::geometric_mean(&values).or_else(|| stats::mean(&values))
    };
    let one = |side: &Side| {
        side.whole.as_ref().and_then(|whole| metric.of(whole)).or_else(|| value(side))
    };
    let (baseline, candidate) = if trials { (value(a)?, value(b)?) } else { (one(a)?, one(b)?) };
    let ratio = (baseline != 0.0).then(|| candidate / baseline);
    let found = match ratio {
        None => Err("the baseline is 0"),
        Some(_) if trials => stats::trials_interval(&b.values(metric), &a.values(metric))
            .map(|interval| (interval, Basis::Trials))
            .ok_or("a trial lacks it or has 0"),
        Some(ratio) => within_runs(metric, a, b, ratio),
    };
    let (interval, basis, no_interval) = match found {
        Ok((interval, basis)) => (Some(interval), Some(basis), None),
        Err(why) => (None, None, Some(why)),
    };
    let verdict = match (interval, ratio) {
        (Some(interval), _) if interval.contains(1.0) => Verdict::NotShown,
        (Some(_), Some(ratio)) => match metric.wins(ratio, 1.0) {
            Some(true) => Verdict::Better,
            Some(false) => Verdict::Worse,
            None => Verdict::Different,
        },
        _ => Verdict::Unknown,
    };
    let better = metric.better;
    let metric = metric.key;
    Some(Row { metric, better, baseline, candidate, ratio, interval, basis, no_interval, verdict })
}

/// The interval from what varied inside the runs.
fn within_runs(
    metric: &Metric,
    a: &Side,
    b: &Side,
    ratio: f64,
) -> Result<(Interval, Basis), &'static str> {
    let evidence = metric.evidence;
    let (below, above) = (a.draws(&evidence, SEEDS[0])?, b.draws(&evidence, SEEDS[1])?);
    let interval = stats::ratio_interval(&above, &below).ok_or("the baseline is 0 at times")?;
    match evidence {
        Evidence::Quantile(..) => Ok((interval, Basis::Events)),
        _ => {
            // The timeline says how much a rate varies; the ratio itself is that of the results,
            // which for amounts is also that of the runs' lengths.
            let (below, above) = (stats::mean(&below), stats::mean(&above));
            let centre = above.zip(below).map(|(above, below)| above / below);
            let scale = centre.filter(|&c| c > 0.0).map(|centre| ratio / centre);
            let scale = scale.ok_or("nothing happened in its seconds")?;
            let interval = Interval { low: interval.low * scale, high: interval.high * scale };
            Ok((interval, Basis::Seconds))
        }
    }
}

fn notes(a: &Side, b: &Side, trials: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if !trials {
        notes.push(
            "one run says nothing of how runs differ: the intervals hold for these runs, and are \
             too narrow for the two systems; give several trials to --baseline and --candidate"
                .to_owned(),
        );
    }
    for file in a.files.iter().chain(&b.files) {
        let ours = &file.document.ringfall;
        let mut note = |text: String| notes.push(format!("{}: {text}", file.name()));
        if let Some(text) = told_contradictions(&contradictions(&file.document)) {
            note(text);
        }
        if ours.window.interrupted.known() == Some(true) {
            note("the run was interrupted".to_owned());
        }
        if let Some(failure) = ours.window.failure.as_ref() {
            note(format!("the run failed: {failure}"));
        }
        if let Some(bad @ 1..) = ours.verify.blocks_bad.known() {
            note(format!("{bad} blocks were read back wrong"));
        }
        if !ours.errors.by_kind.is_empty() {
            note("there were I/O errors".to_owned());
        }
        for warning in ours.warnings.iter() {
            // What a backlog means is said with what to trust, and what was cached by itself.
            let told = [Code::Backlog, Code::ReadsCached, Code::ReadsUnseen];
            if !told.contains(&warning.code) {
                note(warning.text.clone());
            }
        }
    }
    notes
}

#[cfg(test)]
#[path = "compare_test.rs"]
mod tests;
