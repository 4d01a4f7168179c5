//! Two systems over all configurations that both have run: what differs, by metric and by group of
//! configurations.

use std::collections::BTreeMap;

use clap::ValueEnum;
use ringfall_model::configuration::Configuration;
use ringfall_model::metrics::{
    Better, DECODE_READ, METRICS, Metric, STORAGE_THROUGHPUT, WALL_CLOCK,
};
use ringfall_model::stats;
use ringfall_model::trust::Advice;
use serde::Serialize;

use super::collection::{Collection, Run};
use super::compare::{Bearing, Caution, Load, Loads, Measurement, Value, fair_ratio};

/// A property by which configurations are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Capacity of the CPU tier.
    CpuMemory,
    /// Model whose KV cache is simulated.
    Model,
    /// Number of simulated users.
    Users,
    /// Number of prefill writes in progress at the same time.
    Allocs,
    /// Simulated time to generate a token.
    Generation,
}

/// Key that orders and distinguishes groups: numbers as numbers, unknown values last.
type SortKey = (bool, u64, String);

impl Dimension {
    /// Key of one value, and the value as people read it.
    fn value(self, configuration: Option<&Configuration>) -> (SortKey, String) {
        let Some(configuration) = configuration else {
            let what = match self {
                Dimension::CpuMemory => "CPU memory",
                Dimension::Model => "model",
                Dimension::Users => "users",
                Dimension::Allocs => "allocs",
                Dimension::Generation => "generation",
            };
            return ((true, 0, String::new()), format!("{what} not said"));
        };
        let Configuration { cpu_memory_mib, model, users, max_concurrent_allocs, generation_mode } =
            configuration;
        let (number, name, label) = match self {
            Dimension::CpuMemory => {
                let gib = configuration.cpu_memory_gib();
                (*cpu_memory_mib, "", format!("CPU memory {gib} GiB"))
            }
            Dimension::Model => (0, &**model, model.clone()),
            Dimension::Users => (*users, "", format!("{users} users")),
            Dimension::Allocs => {
                (*max_concurrent_allocs, "", format!("allocs {max_concurrent_allocs}"))
            }
            Dimension::Generation => {
                (0, &**generation_mode, format!("generation {generation_mode}"))
            }
        };
        ((false, number, name.to_owned()), label)
    }
}

/// The order of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// By the name of the group.
    Name,
    /// Largest mean ratio of storage throughput first, the metric of the published table of models
    #[value(alias = "ratio")]
    StorageThroughput,
    /// Largest mean ratio of wall-clock throughput first
    WallClock,
    /// Largest mean ratio of decode bytes read first
    DecodeRead,
}

impl Order {
    /// Puts groups of one grouping in this order; those without such a ratio come last.
    pub fn sort(self, groups: &mut [Group]) {
        let metric = match self {
            Order::Name => return,
            Order::StorageThroughput => STORAGE_THROUGHPUT,
            Order::WallClock => WALL_CLOCK,
            Order::DecodeRead => DECODE_READ,
        };
        let ratio = |group: &Group| group.row(metric).and_then(|row| row.mean_of_ratios);
        groups.sort_by(|a, b| match (ratio(a), ratio(b)) {
            (Some(a), Some(b)) => b.total_cmp(&a),
            (a, b) => b.is_some().cmp(&a.is_some()),
        });
    }
}

/// A configuration that both have run; each side's values are means over its trials.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Configuration of the runs; `None`: neither side states it.
    pub configuration: Option<Configuration>,
    /// Differences of the two sides beyond what the configuration says.
    pub(super) cautions: Vec<Caution>,
    /// Metrics to go by; none where nothing is known of the configuration.
    pub(super) advice: Vec<Advice>,
    fast: Side,
    slow: Side,
}

impl Pair {
    /// The first system's value over the second's; none where one lacks it, or the second has 0.
    pub fn ratio(&self, metric: &Metric) -> Option<f64> {
        let at = place(metric)?;
        let (fast, slow) = (self.fast.mean(at)?, self.slow.mean(at)?);
        (slow != 0.0).then(|| fast / slow)
    }

    /// Whether both sides ran one load, such as the same phases, as far as their results say.
    pub fn is_of_one_load(&self) -> bool {
        !self.has(Bearing::OtherLoad)
    }

    /// Whether a difference of the two sides has that bearing on a conclusion.
    pub(super) fn has(&self, bearing: Bearing) -> bool {
        self.cautions.iter().any(|caution| caution.bearing == bearing)
    }

    /// Whether both sides have a value of the metric, or a bound of one.
    pub(super) fn measures(&self, metric: &Metric) -> bool {
        self.fast.measured(metric).is_some() && self.slow.measured(metric).is_some()
    }

    /// The ratio, unless unfinished requests or a difference of the loads could be what praises a
    /// side.
    pub(super) fn fair_ratio(&self, metric: &Metric) -> Option<f64> {
        let (fast, slow) = (self.fast.measured(metric)?, self.slow.measured(metric)?);
        let ratio = fair_ratio(metric, slow, fast).ok()?;
        let is_favoured = (metric.wins(ratio, 1.0) == Some(true)
            && self.has(Bearing::FavoursFirst))
            || (metric.wins(1.0, ratio) == Some(true) && self.has(Bearing::FavoursSecond));
        (!is_favoured).then_some(ratio)
    }
}

fn place(metric: &Metric) -> Option<usize> {
    METRICS.iter().position(|known| known.key == metric.key)
}

#[derive(Clone, Debug)]
struct Side {
    /// Means over the trials, in the order of [`METRICS`].
    values: Vec<Option<Value>>,
    /// Spread over the trials; `None` with fewer than two.
    cvs: Vec<Option<f64>>,
    /// Share of the requests that had not finished, as a mean over the trials.
    unfinished_share: Option<f64>,
}

impl Side {
    /// Mean of a metric, where it is no bound.
    fn mean(&self, at: usize) -> Option<f64> {
        self.values.get(at)?.as_ref()?.known()
    }

    fn measured(&self, metric: &Metric) -> Option<Measurement> {
        let value = (*self.values.get(place(metric)?)?)?;
        Some(Measurement { value, unfinished_share: self.unfinished_share })
    }
}

/// One metric over a group's pairs. What can't be computed is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Row {
    /// Key of the metric.
    pub metric: &'static str,
    /// Whether higher or lower values win, or neither.
    pub better: Better,
    /// Number of configurations with a value on both sides.
    pub pairs: usize,
    /// Mean of the first system's values over the mean of the second's.
    pub ratio_of_means: Option<f64>,
    /// Mean over the pairs of first over second; pairs whose second is 0 have no ratio.
    pub mean_of_ratios: Option<f64>,
    /// Median over the pairs of first over second.
    pub median_of_ratios: Option<f64>,
    /// Median of the first system's values over the median of the second's.
    pub ratio_of_medians: Option<f64>,
    /// Share of the pairs in which the first is better; a tie is no win.
    pub win_rate: Option<f64>,
    /// Mean of the first system's values.
    pub fast_mean: Option<f64>,
    /// Mean of the second system's values.
    pub slow_mean: Option<f64>,
    /// Coefficient of variation (standard deviation over mean) of the first system's values over
    /// the group's configurations.
    pub fast_cv: Option<f64>,
    /// Coefficient of variation of the second system's values over the group's configurations.
    pub slow_cv: Option<f64>,
    /// Coefficient of variation over the first system's trials of one configuration, as a mean over
    /// those with two or more.
    pub fast_trial_cv: Option<f64>,
    /// Coefficient of variation over the second system's trials of one configuration, as a mean
    /// over those with two or more.
    pub slow_trial_cv: Option<f64>,
}

/// Pairs that are alike in some dimensions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Group {
    /// Dimensions in which the pairs of the group are alike; none: all pairs.
    pub by: Vec<Dimension>,
    /// Name of the group, with the values of its dimensions.
    pub label: String,
    /// A row for each metric that any of the pairs has.
    pub rows: Vec<Row>,
}

impl Group {
    /// The row of a metric.
    pub fn row(&self, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric == metric)
    }
}

/// Averages the trials of each configuration, and matches what both have run.
pub fn matched<'a>(fast: &'a Collection, slow: &'a Collection) -> Vec<Pair> {
    let (fast, mut slow) = (by_configuration(&fast.runs), by_configuration(&slow.runs));
    let pair = |(configuration, fast): (&Option<Configuration>, Vec<&'a Run>)| {
        let slow = slow.remove(configuration)?;
        let of = |side: &[&'a Run]| -> Vec<&'a Load> { side.iter().map(|run| &run.load).collect() };
        let loads = Loads { first: of(&fast), second: of(&slow) };
        Some(Pair {
            configuration: configuration.clone(),
            cautions: loads.cautions(),
            advice: loads.advice(),
            fast: averaged(&fast),
            slow: averaged(&slow),
        })
    };
    fast.into_iter().filter_map(pair).collect()
}

/// Different configurations among the runs.
pub fn configurations(collection: &Collection) -> usize {
    by_configuration(&collection.runs).len()
}

fn by_configuration(runs: &[Run]) -> BTreeMap<&Option<Configuration>, Vec<&Run>> {
    let mut groups: BTreeMap<&Option<Configuration>, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        groups.entry(&run.configuration).or_default().push(run);
    }
    groups
}

fn averaged(trials: &[&Run]) -> Side {
    let of = |metric: usize| -> Vec<Value> {
        trials.iter().filter_map(|trial| trial.values.get(metric).copied().flatten()).collect()
    };
    let values: Vec<Vec<Value>> = (0..METRICS.len()).map(of).collect();
    let cv = |values: &Vec<Value>| {
        let known: Vec<f64> = values.iter().filter_map(Value::known).collect();
        stats::coefficient_of_variation(&known)
    };
    let unfinished = trials.iter().filter_map(|trial| trial.load.unfinished_share);
    Side {
        cvs: values.iter().map(cv).collect(),
        values: values.iter().map(|values| Value::average(values, stats::mean)).collect(),
        unfinished_share: stats::mean(&unfinished.collect::<Vec<_>>()),
    }
}

/// The pairs in groups that are alike in `by`, in order; without dimensions one group of all.
pub fn groups(pairs: &[Pair], by: &[Dimension]) -> Vec<Group> {
    let mut parts: BTreeMap<Vec<SortKey>, (Vec<String>, Vec<&Pair>)> = BTreeMap::new();
    for pair in pairs {
        let values = by.iter().map(|dimension| dimension.value(pair.configuration.as_ref()));
        let (key, labels): (Vec<_>, Vec<_>) = values.unzip();
        parts.entry(key).or_insert((labels, Vec::new())).1.push(pair);
    }
    let group = |(labels, part): (Vec<String>, Vec<&Pair>)| {
        let label = match labels.is_empty() {
            true => "all configurations".to_owned(),
            false => labels.join(", "),
        };
        let rows = METRICS.iter().enumerate().map(|(at, metric)| row(at, metric, &part));
        Group { by: by.to_vec(), label, rows: rows.filter(|row| row.pairs > 0).collect() }
    };
    parts.into_values().map(group).collect()
}

fn row(at: usize, metric: &Metric, pairs: &[&Pair]) -> Row {
    let both: Vec<(f64, f64)> =
        pairs.iter().filter_map(|pair| pair.fast.mean(at).zip(pair.slow.mean(at))).collect();
    let (fast, slow): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
    let ratios: Vec<f64> =
        both.iter().filter(|(_, slow)| *slow != 0.0).map(|(fast, slow)| fast / slow).collect();
    let wins: Option<Vec<bool>> = both.iter().map(|&(f, s)| metric.wins(f, s)).collect();
    let trial_cv = |side: fn(&Pair) -> &Side| {
        let cvs = pairs.iter().filter_map(|pair| side(pair).cvs.get(at).copied().flatten());
        stats::mean(&cvs.collect::<Vec<_>>())
    };
    let (fast_mean, slow_mean) = (stats::mean(&fast), stats::mean(&slow));
    let over =
        |fast: Option<f64>, slow: Option<f64>| Some(fast? / slow.filter(|&slow| slow != 0.0)?);
    Row {
        metric: metric.key,
        better: metric.better,
        pairs: both.len(),
        ratio_of_means: over(fast_mean, slow_mean),
        mean_of_ratios: stats::mean(&ratios),
        median_of_ratios: stats::median(&ratios),
        ratio_of_medians: over(stats::median(&fast), stats::median(&slow)),
        win_rate: wins
            .filter(|wins| !wins.is_empty())
            .map(|wins| wins.iter().filter(|&&win| win).count() as f64 / wins.len() as f64),
        fast_mean,
        slow_mean,
        fast_cv: stats::coefficient_of_variation(&fast),
        slow_cv: stats::coefficient_of_variation(&slow),
        fast_trial_cv: trial_cv(|pair| &pair.fast),
        slow_trial_cv: trial_cv(|pair| &pair.slow),
    }
}

#[cfg(test)]
#[path = "pairs_test.rs"]
mod tests;
