//! Differences between the loads of two sides that change what their ratios mean, each with what it
//! does to them. The sides are two results, the trials of two, or a pair of two collections.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ringfall_host::counted;
use ringfall_model::distinct;
use ringfall_model::document::Difference;
use ringfall_model::trust::{Advice, Situation, advise};
use serde_json::Value;

use super::hits::{HitsApart, hits_apart};
use super::load::{Cut, Load, Measured};
use crate::analysis::differences::{each_once, of_setting};

/// Two lengths or capacities are the same within this share.
const TOLERANCE: f64 = 0.01;
/// Share by which one window may be shorter than another and still see the caches in about the same
/// state.
const WINDOWS_APART: f64 = 0.1;
/// Share of a run above which what it measured outweighs what it was cut off from.
const GREATER_PART: f64 = 0.5;
/// Number of differing settings, or of seeds, that a caution names.
const TOLD_MAX: usize = 3;

/// Clause of a difference in what was found, which leaves the speed of each I/O as it is.
pub(super) const HITS_DIFFER: &str = "the hit rates differ";

/// Bearing of a difference on a conclusion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::analysis) enum Bearing {
    /// It makes neither side look better, or nobody knows which.
    None,
    /// It makes the first side look better than its drive is.
    FavoursFirst,
    /// It makes the second side look better than its drive is.
    FavoursSecond,
    /// It makes one side look better in some metrics and the other in others: no ratio is of two
    /// drives.
    OtherLoad,
    /// Nothing can be concluded from the figures: a run was cut off, its result contradicts itself,
    /// its data was read back wrong, its load is not known, its caches were in another state, or
    /// chance may decide.
    Open,
}

/// A difference, to be read before the ratios.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::analysis) struct Caution {
    /// Clause that names the difference, such as "the windows differ".
    pub clause: &'static str,
    /// Values that differ, the first result's first.
    pub values: String,
    /// Effect on the ratios, as a clause.
    pub effect: &'static str,
    /// Bearing on a conclusion.
    pub bearing: Bearing,
}

impl Caution {
    /// The difference with its effect, as people read it.
    pub fn told(&self) -> String {
        format!("{}: {}", self.difference(), self.effect)
    }

    /// The difference as a clause, with its values.
    pub fn difference(&self) -> String {
        format!("{} ({})", self.clause, self.values)
    }
}

/// Two numbers that lie apart.
struct Apart {
    first: f64,
    second: f64,
}

/// Loads of the results of two sides.
pub(in crate::analysis) struct Loads<'a> {
    /// Loads of the first side, the baseline of two results.
    pub first: Vec<&'a Load>,
    /// Loads of the second side.
    pub second: Vec<&'a Load>,
}

impl Loads<'_> {
    /// Cautions; one that holds of every figure stands first.
    pub fn cautions(&self) -> Vec<Caution> {
        let all = [
            self.open(
                "a result contradicts itself",
                "it was changed after the run, or is damaged; believe neither figure, and run it \
                 again",
                |load| load.contradiction.clone(),
            ),
            self.open(
                "blocks were read back wrong",
                "a drive that returns other data than was written has no speed to compare; find \
                 the cause first",
                |load| (load.blocks_bad > 0).then(|| counted(load.blocks_bad, "block")),
            ),
            self.open(
                "a run failed",
                "what it measured until then is not what it would have measured; run it again",
                |load| match &load.cut {
                    Some(Cut::Failed(failure)) => Some(failure.clone()),
                    _ => None,
                },
            ),
            self.interrupted(Bearing::Open),
            self.open(
                "the load of a result is not known",
                "it may be another one than that of the other side; give results of one load, as a \
                 run wrote them",
                |load| load.lacks.clone(),
            ),
            self.searched_users(),
            self.same_files(),
            self.words(
                "the models differ",
                "entries differ in size, so that no ratio is of the drives",
                |load| load.model.as_deref(),
            ),
            self.other_users(),
            self.other_settings(),
            self.words(
                "the sources of requests differ",
                "the two sides did not do the same work, so that no ratio is of the drives",
                |load| load.source.as_deref(),
            ),
            self.other_contents(),
            self.unknown_settings(),
            self.words(
                "the GPUs differ",
                "a GPU tier serves reads in the drive's place, and spread entries are smaller",
                |load| load.gpus.as_deref(),
            ),
            self.one_reference(),
            self.named_load(),
            self.interrupted(Bearing::None),
            self.other_cpu_tier(),
            self.other_space(),
            self.other_windows(),
            self.other_seeds(),
            self.other_hits(),
            copies(&self.first),
            copies(&self.second),
        ];
        all.into_iter().flatten().collect()
    }

    /// Metrics to go by, the most trusted first; none where a configuration is not known, or where
    /// there was no drive.
    pub fn advice(&self) -> Vec<Advice> {
        let all: Option<Vec<Situation>> = self.all().map(|load| load.situation.clone()).collect();
        all.map_or(Vec::new(), |all| advise(&all))
    }

    fn all(&self) -> impl Iterator<Item = &Load> {
        self.first.iter().chain(&self.second).copied()
    }

    /// First of the numbers of all results, and the first that lies further from it than that share
    /// of the larger; none where all are alike.
    fn apart<N: IntoIterator<Item = f64>>(
        &self,
        tolerance: f64,
        pick: impl Fn(&Load) -> N,
    ) -> Option<Apart> {
        let mut numbers = self.all().flat_map(pick);
        let first = numbers.next()?;
        let is_far = |&second: &f64| (first - second).abs() > tolerance * first.max(second);
        Some(Apart { first, second: numbers.find(is_far)? })
    }

    /// Cautions that results carry of themselves, each by its name, and that leave everything open.
    fn open(
        &self,
        clause: &'static str,
        effect: &'static str,
        pick: fn(&Load) -> Option<String>,
    ) -> Option<Caution> {
        let told = |load: &Load| Some(format!("{}: {}", load.name(), pick(load)?));
        let results: Vec<String> = self.all().filter_map(told).collect();
        (!results.is_empty()).then(|| Caution {
            clause,
            values: results.join("; "),
            effect,
            bearing: Bearing::Open,
        })
    }

    /// Differing words, of one side too, which make it another load.
    fn words(
        &self,
        clause: &'static str,
        effect: &'static str,
        pick: fn(&Load) -> Option<&str>,
    ) -> Option<Caution> {
        let words = distinct(self.all().filter_map(pick));
        (words.len() > 1).then(|| Caution {
            clause,
            values: words.join(" and "),
            effect,
            bearing: Bearing::OtherLoad,
        })
    }

    /// Settings of the load that differ, of one side too.
    fn other_settings(&self) -> Option<Caution> {
        let mut known: BTreeMap<&str, &Value> = BTreeMap::new();
        let mut differences: Vec<Difference> = Vec::new();
        for (key, value) in self.all().flat_map(|load| &load.settings) {
            let first = *known.entry(key).or_insert(value);
            if first != value {
                differences.extend(of_setting(key, first, value));
            }
        }
        let differences = each_once(differences);
        (!differences.is_empty()).then(|| Caution {
            clause: "the settings of the load differ",
            values: first_few(&differences, "; ", setting_told),
            effect: "the two sides did not do the same work, so that no ratio is of the drives; \
                     run both with the same settings",
            bearing: Bearing::OtherLoad,
        })
    }

    /// Traces or datasets of other contents, of one side too, whatever their files are called.
    fn other_contents(&self) -> Option<Caution> {
        let digests =
            || self.all().flat_map(|load| &load.digests).filter_map(|told| told.split_once(": "));
        let mut known: BTreeMap<&str, &str> = BTreeMap::new();
        let other = digests().find(|(rows, digest)| known.entry(rows).or_insert(digest) != digest);
        let count = |rows: &str| rows.split_once(' ')?.1.parse::<u64>().ok();
        let is_end = |rows: &&str| rows.starts_with("all ");
        let end = digests().map(|(rows, _)| rows).filter(is_end).filter_map(count).min();
        let deepest = digests().filter_map(|(rows, _)| count(rows)).max();
        let values = match (other, end) {
            (Some((rows, _)), _) => format!("{rows} rows or turns are not the same"),
            (None, Some(end)) if deepest > Some(end) => {
                format!("one ends after {end} rows or turns, and another does not")
            }
            _ => return None,
        };
        Some(Caution {
            clause: "the traces or datasets differ",
            values,
            effect: "the two sides did not do the same work, whatever the files are called, so \
                     that no ratio is of the drives; give both the same file",
            bearing: Bearing::OtherLoad,
        })
    }

    /// Rows of tables, whose settings can't be compared.
    fn unknown_settings(&self) -> Option<Caution> {
        self.all().any(|load| load.is_row).then(|| Caution {
            clause: "most settings of the load are not known",
            values: "rows of a table have no columns for them".to_owned(),
            effect: "whether both sides did the same work can't be checked; compare directories of \
                     JSON results instead",
            bearing: Bearing::None,
        })
    }

    /// Results of the reference benchmark, which say little of what they ran.
    fn named_load(&self) -> Option<Caution> {
        let count = self.all().filter(|load| load.is_reference == Some(true)).count();
        (count > 0).then(|| Caution {
            clause: "the load is known in part",
            values: format!("{} of the reference benchmark", counted(count as u64, "result")),
            effect: "model, users, CPU tier, allocations and generation mode are all that they \
                     say, and are taken to be all that could differ",
            bearing: Bearing::None,
        })
    }

    /// Runs that a signal ended: those of which more may be missing than was measured are open.
    fn interrupted(&self, bearing: Bearing) -> Option<Caution> {
        let is_open = bearing == Bearing::Open;
        let told = |load: &Load| match &load.cut {
            Some(Cut::Interrupted(measured)) if measured.is_greater_part() != is_open => {
                Some(format!("{}{}", load.name(), measured.told()))
            }
            _ => None,
        };
        let runs: Vec<String> = self.all().filter_map(told).collect();
        (!runs.is_empty()).then(|| Caution {
            clause: "a run was interrupted",
            values: runs.join("; "),
            effect: match is_open {
                true => "more of its window may be missing than was measured; run it again",
                false => {
                    "its figures leave out the end of the window, when caches are fuller and \
                     queues longer"
                }
            },
            bearing,
        })
    }

    /// Answers of the searches for a number of users, where a side has one: the figures of such a
    /// result are those of all its steps together.
    fn searched_users(&self) -> Option<Caution> {
        let told = |side: &[&Load]| {
            let answers: Vec<&str> =
                side.iter().filter_map(|load| load.search.as_deref()).collect();
            (!answers.is_empty()).then(|| answers.join(" and "))
        };
        let (first, second) = (told(&self.first), told(&self.second));
        if first.is_none() && second.is_none() {
            return None;
        }
        let none = || "no search".to_owned();
        let (first, second) = (first.unwrap_or_else(none), second.unwrap_or_else(none));
        Some(Caution {
            clause: "the numbers of users tried differ",
            values: format!("{first} against {second}"),
            effect: "the figures are means over all numbers of users that a search tried; compare \
                     its answer, or runs with a fixed --num-users",
            bearing: Bearing::OtherLoad,
        })
    }

    /// Files that stand on both sides, of which nothing can differ.
    fn same_files(&self) -> Option<Caution> {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or(path.to_owned());
        let paths = |side: &[&Load]| -> Vec<PathBuf> {
            side.iter().filter_map(|load| Some(real(load.path.as_ref()?))).collect()
        };
        let (first, second) = (paths(&self.first), paths(&self.second));
        let both = self.second.iter().zip(&second).filter(|(_, path)| first.contains(path));
        let names: Vec<String> = both.map(|(load, _)| load.name()).collect();
        (!names.is_empty()).then(|| Caution {
            clause: "both sides have the same file",
            values: names.join(", "),
            effect: "a result compared with itself shows no difference",
            bearing: Bearing::None,
        })
    }

    fn other_users(&self) -> Option<Caution> {
        let Apart { first, second } = self.apart(0.0, |load| Some(load.users? as f64))?;
        Some(Caution {
            clause: "the numbers of users differ",
            values: format!("{first} and {second}"),
            effect: "throughput favours the side with more of them, and latency the side with \
                     fewer",
            bearing: Bearing::OtherLoad,
        })
    }

    /// Results of the reference benchmark beside ringfall's.
    fn one_reference(&self) -> Option<Caution> {
        let is_all = |side: &[&Load], wanted: bool| {
            side.iter().all(|load| load.is_reference == Some(wanted))
        };
        let has = |wanted: bool| self.all().any(|load| load.is_reference == Some(wanted));
        let bearing = if !(has(true) && has(false)) {
            return None;
        } else if is_all(&self.first, true) && is_all(&self.second, false) {
            Bearing::FavoursFirst
        } else if is_all(&self.first, false) && is_all(&self.second, true) {
            Bearing::FavoursSecond
        } else {
            Bearing::Open
        };
        Some(Caution {
            clause: "the programs differ",
            values: "ringfall and the reference benchmark".to_owned(),
            effect: "the reference counts what ends after its window as if it had ended within it, \
                     which has made published rates up to three times too high, so that its side \
                     looks faster than its drive is",
            bearing,
        })
    }

    fn other_cpu_tier(&self) -> Option<Caution> {
        let Apart { first, second } = self.apart(0.0, |load| load.cpu_memory_gib)?;
        Some(Caution {
            clause: "the CPU tiers differ",
            values: format!("{first} and {second} GiB"),
            effect: "a CPU tier serves reads in the drive's place, so that the side with the \
                     larger one looks faster than its drive is",
            bearing: Bearing::Open,
        })
    }

    /// Hit rates that lie apart, where they don't by chance.
    fn other_hits(&self) -> Option<Caution> {
        let HitsApart { what, first, second } = hits_apart(&self.first, &self.second)?;
        Some(Caution {
            clause: HITS_DIFFER,
            values: format!("{:.1} % and {:.1} % of the {what}", first * 100.0, second * 100.0),
            effect: "amounts, rates and latencies are not of the same work: the side that finds \
                     less reads less, and a miss costs no time without --prefill-tokens-per-s",
            // Where nothing was lost, a side that got farther found more.
            bearing: match self.all().all(|load| load.has_room) {
                true => Bearing::None,
                false => Bearing::Open,
            },
        })
    }

    /// Storage spaces of which one at least was too small to keep everything.
    fn other_space(&self) -> Option<Caution> {
        let Apart { first, second } = self.apart(TOLERANCE, |load| load.storage_gib)?;
        let is_felt = !self.all().all(|load| load.has_room);
        is_felt.then(|| Caution {
            clause: "the storage spaces differ",
            values: format!("{first:.1} and {second:.1} GiB"),
            effect: "in a smaller one fewer entries are found again and more writes wait for room, \
                     whatever the drive's speed; give both the same --storage-capacity-gb",
            bearing: Bearing::Open,
        })
    }

    fn other_windows(&self) -> Option<Caution> {
        // Then they are what it took to do the same.
        if self.all().all(|load| load.did_all) {
            return None;
        }
        // The reference's have the time in which it ends besides.
        let of_ours = |load: &Load| match load.is_reference {
            Some(true) => Vec::new(),
            _ => load.windows_s.clone(),
        };
        let (clause, Apart { first, second }, bearing) = match self.apart(WINDOWS_APART, of_ours) {
            Some(apart) => ("the windows differ", apart, Bearing::Open),
            None => {
                let apart = self.apart(TOLERANCE, |load| load.windows_s.clone())?;
                ("the windows differ slightly", apart, Bearing::None)
            }
        };
        Some(Caution {
            clause,
            values: format!("{first:.1} and {second:.1} s"),
            effect: "amounts (GiB, tokens, requests) grow with them, and a longer one sees fuller \
                     caches and older requests; give both the same --duration",
            bearing,
        })
    }

    /// Seeds of which each has not the same share of the runs on both sides.
    fn other_seeds(&self) -> Option<Caution> {
        let (first, second) = (seeds(&self.first)?, seeds(&self.second)?);
        // Each as many times as the other side has runs: a side's figures are those of a mean run.
        let repeated = |seeds: &[u64], times: usize| -> Vec<u64> {
            seeds.iter().flat_map(|&seed| std::iter::repeat_n(seed, times)).collect()
        };
        let is_same = repeated(&first, second.len()) == repeated(&second, first.len());
        let told = |seeds: &[u64]| first_few(seeds, ", ", u64::to_string);
        (!is_same).then(|| Caution {
            clause: "the seeds differ",
            values: format!("{} and {}", told(&first), told(&second)),
            effect: "other requests were drawn, which shifts every ratio by chance; give both \
                     sides runs of the same --seed, or of the same several seeds",
            bearing: Bearing::Open,
        })
    }
}

/// Seeds of all runs of a side in rising order; `None` where one is not known.
fn seeds(side: &[&Load]) -> Option<Vec<u64>> {
    let of_each: Option<Vec<Vec<u64>>> = side.iter().map(|load| load.seeds.clone()).collect();
    let mut all = of_each?.concat();
    all.sort_unstable();
    Some(all)
}

/// The first few of these, and the number of the others.
fn first_few<T>(all: &[T], between: &str, told: impl Fn(&T) -> String) -> String {
    let first: Vec<String> = all.iter().take(TOLD_MAX).map(told).collect();
    match all.len().saturating_sub(TOLD_MAX) {
        0 => first.join(between),
        more => format!("{}{between}and {more} more", first.join(between)),
    }
}

/// A setting with its two values, as people read them.
fn setting_told(Difference { key, first, second }: &Difference) -> String {
    let told = |value: &Value| match value {
        Value::String(word) => word.clone(),
        Value::Null => "not set".to_owned(),
        other => other.to_string(),
    };
    format!("{key}: {} and {}", told(first), told(second))
}

impl Measured {
    /// Whether it outweighs what the run was cut off from; a share that is not known may be small.
    fn is_greater_part(&self) -> bool {
        self.share.is_some_and(|share| share > GREATER_PART)
    }

    /// The part, as what follows a name.
    fn told(&self) -> String {
        match (self.window_s, self.asked_s) {
            (Some(part), Some(whole)) => format!(" after {part:.1} of {whole} s"),
            (Some(part), None) => format!(" after {part:.1} s"),
            (None, _) => String::new(),
        }
    }
}

/// Simulated runs of one side with the same seed, of which each is a copy of the other.
fn copies(side: &[&Load]) -> Option<Caution> {
    let simulated: Vec<&Load> = side.iter().copied().filter(|load| load.is_simulated).collect();
    let mut seeds = seeds(&simulated)?;
    let all = seeds.len();
    seeds.dedup();
    (seeds.len() < all).then(|| Caution {
        clause: "simulated runs of one side repeat each other",
        values: format!("{all} of {}", counted(seeds.len() as u64, "seed")),
        effect: "those with the same seed are copies of one run, so that their agreement says \
                 nothing; simulate with another --seed each",
        bearing: Bearing::None,
    })
}
