//! Two results, or the trials of two: how each metric differs, how sure that is, and which metric
//! to go by.

mod cautions;
mod conclusion;
mod fair;
mod hits;
mod load;
mod own_ios;
mod settings;
#[cfg(test)]
mod slower_test;

pub(super) use cautions::{Bearing, Caution, Loads};
pub(super) use conclusion::{
    Conclusion, Favouring, Finding, Names, leaning, metrics_to_go_by, outcome, suffices,
};
pub(super) use fair::{Measurement, RESOLUTION, Value, fair_ratio, verdict};
pub(super) use hits::HitRates;
pub(super) use load::{Load, gpus_told};

use ringfall_core::named;
use ringfall_model::cold::ColdReads;
use ringfall_model::document::{
    CLASSES, FileProblem, Histograms, Kind, RequestsOfClass, ResultFile, SecondReport, UNFINISHED,
};
use ringfall_model::facts::{Quantile, Survival};
use ringfall_model::merge::merge;
use ringfall_model::metrics::{Better, Evidence, METRICS, Metric};
use ringfall_model::published::{Published, published};
use ringfall_model::stats::{self, Interval, Slice};
use ringfall_model::trust::{Advice, unfinished_share};
use ringfall_model::{Code, Document};
use serde::Serialize;

use super::differences::{self, Difference};

/// Seeds of the draws: fixed, so that the same files always say the same; different, so that the
/// two sides' draws are independent.
const SEEDS: [u64; 2] = [0xba5e, 0xca9d];

/// Share of the draws of an interval that lie beyond each of its ends.
const TAIL: f64 = (1.0 - stats::CONFIDENCE) / 2.0;

named! {
/// Source of an interval.
#[derive(Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Variation between trials.
    Trials = "trials",
    /// Number of events, taken as independent of each other.
    Events = "events",
    /// Variation between the seconds of a run.
    Seconds = "seconds",
}
}

named! {
/// Verdict of a comparison.
#[derive(Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The candidate is better, and the interval leaves equality out.
    Better = "better",
    /// It is worse.
    Worse = "worse",
    /// It differs in something that is neither.
    Different = "different",
    /// The interval has room for equality.
    NotShown = "no difference shown",
    /// There is no interval.
    Unknown = "",
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
    /// Whether that is a lower bound, since too many requests had not finished.
    pub baseline_is_bound: bool,
    /// Value of the candidate, likewise.
    pub candidate: f64,
    /// Whether that is a lower bound.
    pub candidate_is_bound: bool,
    /// Candidate over baseline: at least this where the candidate's value is a bound, and at most
    /// this where the baseline's is one. `None` where the baseline is 0, or where the requests that
    /// had not finished could turn the ratio round.
    pub ratio: Option<f64>,
    /// Confidence interval of the ratio, at 95 %.
    pub interval: Option<Interval>,
    /// Basis of the interval.
    pub basis: Option<Basis>,
    /// Reason why there is no interval, or no ratio either.
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
    /// Which of the two is better, by how much, how sure that is and for how much of the load; or
    /// why that can't be told.
    pub conclusion: String,
    /// Whether the rows say anything: not of other loads, such as other models, users or phases,
    /// and not where the two have no figure in common.
    pub is_comparable: bool,
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
    loads: Vec<Load>,
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
        let loads = files.iter().map(Load::of).collect();
        Ok(Side { files, whole, histograms, loads })
    }

    fn values(&self, metric: &Metric) -> Vec<Value> {
        self.files.iter().filter_map(|file| Value::of(metric, &file.document)).collect()
    }

    fn numbers(&self, metric: &Metric) -> Vec<f64> {
        self.values(metric).iter().map(|value| value.number).collect()
    }

    /// All requests that arrived, finished or not.
    fn requests(&self) -> Option<&RequestsOfClass> {
        Some(&self.whole.as_ref()?.ringfall.requests.as_ref()?.all)
    }

    /// Share of the requests that had not finished when the window closed.
    fn unfinished_share(&self) -> Option<f64> {
        unfinished_share(self.whole.as_ref()?)
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
                Ok(events.quantiles_ns(&shares).into_iter().map(|ns| ns as f64).collect())
            }
            Evidence::OfAllRequests(quantile, _) => self.draws_of_all(*quantile, seed),
            Evidence::PerSecond(amount) => {
                let series = self.series(*amount).ok_or("no timeline of it")?;
                stats::rate_draws(&series, seed).ok_or("fewer than ten seconds")
            }
            Evidence::None(why) => Err(why),
        }
    }

    /// Draws of a quantile of all requests; lower bounds, where that is all that is known of it.
    fn draws_of_all(&self, quantile: f64, seed: u64) -> Result<Vec<f64>, &'static str> {
        let of = |names: &[&str]| self.histograms.sum(names).ok_or("no histogram of it");
        let all = Survival::of(&of(&CLASSES)?, &of(&UNFINISHED)?);
        let shares = stats::quantile_draws(all.finished() + all.unfinished(), quantile, seed)
            .ok_or("too few events to bound it")?;
        let drawn: Vec<Quantile> = shares.iter().filter_map(|share| all.quantile(*share)).collect();
        let is_open = |known: &Quantile| known.at_most_ns.is_none();
        let open = drawn.iter().filter(|known| is_open(known)).count();
        let is_bound = all.quantile(quantile).as_ref().is_some_and(is_open);
        if !is_bound && open as f64 > TAIL * drawn.len() as f64 {
            return Err("too many requests had not finished to bound it");
        }
        let number = |known: &Quantile| known.number_ns().unwrap_or(known.at_least_ns) as f64;
        Ok(drawn.iter().map(number).collect())
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
    let others = || a.files.iter().skip(1).chain(&b.files);
    let differences = |between: fn(&ResultFile, &ResultFile) -> Vec<Difference>| {
        let first = a.files.iter().take(1);
        differences::each_once(first.flat_map(|one| others().flat_map(|two| between(one, two))))
    };
    let loads = Loads { first: a.loads.iter().collect(), second: b.loads.iter().collect() };
    let there = |advice: &Advice| rows.iter().any(|row| row.metric == advice.metric);
    let trust: Vec<Advice> = loads.advice().into_iter().filter(there).collect();
    let cautions = loads.cautions();
    let Conclusion { text, is_comparable } = conclusion::of_two(&rows, &trust, &cautions, [&a, &b]);
    let names = |side: &Side| side.files.iter().map(ResultFile::name).collect();
    Ok(Comparison {
        baseline: names(&a),
        candidate: names(&b),
        conclusion: text,
        is_comparable,
        trust,
        cautions: cautions.iter().map(Caution::told).collect(),
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
        configuration_differences: differences(differences::configuration),
        machine_differences: differences(differences::machine),
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

fn row(metric: &Metric, a: &Side, b: &Side, trials: bool) -> Option<Row> {
    // Trials spread by factors.
    let middle = |values: &[f64]| stats::geometric_mean(values).or_else(|| stats::mean(values));
    let value = |side: &Side| {
        // Amounts add up in the whole of several runs.
        let is_of_each = trials || (metric.is_amount && side.files.len() > 1);
        let whole = side.whole.as_ref().filter(|_| !is_of_each);
        whole
            .and_then(|whole| Value::of(metric, whole))
            .or_else(|| Value::average(&side.values(metric), middle))
    };
    let (baseline, candidate) = (value(a)?, value(b)?);
    let measured =
        |value, side: &Side| Measurement { value, unfinished_share: side.unfinished_share() };
    let ratio = fair_ratio(metric, measured(baseline, a), measured(candidate, b));
    let found = ratio.and_then(|ratio| match trials {
        true => stats::trials_interval(&b.numbers(metric), &a.numbers(metric))
            .map(|interval| (interval, Basis::Trials))
            .ok_or("a trial lacks it or has 0"),
        false => within_runs(metric, a, b, ratio),
    });
    let verdict = match (&found, ratio) {
        (Ok((interval, _)), Ok(ratio)) => verdict(metric, *interval, ratio),
        _ => Verdict::Unknown,
    };
    let (interval, basis, no_interval) = match found {
        Ok(_) if baseline.is_bound || candidate.is_bound => (None, None, Some("it is a bound")),
        Ok((interval, basis)) => (Some(interval), Some(basis), None),
        Err(why) => (None, None, Some(why)),
    };
    Some(Row {
        metric: metric.key,
        better: metric.better,
        baseline: baseline.number,
        baseline_is_bound: baseline.is_bound,
        candidate: candidate.number,
        candidate_is_bound: candidate.is_bound,
        ratio: ratio.ok(),
        interval,
        basis,
        no_interval,
        verdict,
    })
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
        Evidence::Quantile(..) | Evidence::OfAllRequests(..) => Ok((interval, Basis::Events)),
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
