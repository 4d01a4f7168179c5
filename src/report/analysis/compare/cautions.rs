//! Differences between two sides that change what their ratios mean, each with what it does to
//! them.

use std::path::PathBuf;

use ringfall_core::units::gib;
use ringfall_host::counted;
use ringfall_model::Document;
use ringfall_model::document::ResultFile;
use ringfall_model::stats;
use serde_json::Value;

use super::Side;
use crate::analysis::differences::told_by;

/// Difference of two hit rates beyond which runs did not do the same work: 3 points, above what
/// runs of one configuration differ by.
const HIT_RATES_APART: f64 = 0.03;
/// Two lengths or capacities are the same within this share.
const TOLERANCE: f64 = 0.01;

/// Side that a difference makes look better than its drive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Favours {
    /// Neither side, or nobody knows which.
    Nobody,
    /// The baseline.
    Baseline,
    /// The candidate.
    Candidate,
    /// One side in some metrics and the other in others: nothing can be concluded.
    Either,
}

/// A difference, to be read before the ratios.
#[derive(Clone, Debug)]
pub(super) struct Caution {
    /// The difference and what it does to the ratios, as a sentence.
    pub text: String,
    /// Short name of the difference, as in "their … differ".
    pub what: &'static str,
    /// Side that it makes look better.
    pub favours: Favours,
}

/// Cautions; one that holds of every figure stands first.
pub(super) fn cautions(a: &Side, b: &Side) -> Vec<Caution> {
    let all = [
        searched_users(a, b),
        same_files(a, b),
        words(a, b, "models", "entries differ in size, so that no ratio is of the drives", |d| {
            d.ringfall.config.as_ref()?.model.clone()
        }),
        other_users(a, b),
        words(
            a,
            b,
            "decode reads",
            "one side reads its entries more often while it generates, so that neither bytes nor \
             latencies are of the same work",
            |d| {
                let settings = &d.ringfall.config.as_ref()?.settings;
                Some(settings.get("decode_reads")?.as_str()?.to_owned())
            },
        ),
        words(
            a,
            b,
            "phases",
            "one side neither writes nor reads what the other does, so that no figure is of the \
             same work",
            phases,
        ),
        words(
            a,
            b,
            "GPUs",
            "a GPU tier serves reads in the drive's place, and spread entries are smaller",
            gpus,
        ),
        other_cpu_tier(a, b),
        other_hits(a, b),
        other_space(a, b),
        other_windows(a, b),
        other_seeds(a, b),
        copies("baseline", a),
        copies("candidate", b),
    ];
    all.into_iter().flatten().collect()
}

/// Means of a number over the results of each side, where they lie further apart than that share
/// of the larger.
fn apart(
    a: &Side,
    b: &Side,
    tolerance: f64,
    pick: impl Fn(&ResultFile) -> Option<f64>,
) -> Option<[f64; 2]> {
    let of = |side: &Side| {
        let values: Vec<f64> = side.files.iter().filter_map(&pick).collect();
        stats::mean(&values)
    };
    let (one, other) = (of(a)?, of(b)?);
    ((one - other).abs() > tolerance * one.max(other)).then_some([one, other])
}

/// Differing words of a setting, which make it another load.
fn words(
    a: &Side,
    b: &Side,
    what: &'static str,
    effect: &str,
    pick: fn(&Document) -> Option<String>,
) -> Option<Caution> {
    let of = |side: &Side| side.files.first().and_then(|file| pick(&file.document));
    let (one, other) = (of(a)?, of(b)?);
    (one != other).then(|| Caution {
        text: format!("the {what} differ ({one} and {other}): {effect}"),
        what,
        favours: Favours::Either,
    })
}

fn other_users(a: &Side, b: &Side) -> Option<Caution> {
    let [one, other] = apart(a, b, 0.0, |file| Some(told_by(file)?.users as f64))?;
    Some(Caution {
        text: format!(
            "the numbers of users differ ({one} and {other}): throughput favours the side with \
             more of them, and latency the side with fewer"
        ),
        what: "numbers of users",
        favours: Favours::Either,
    })
}

/// Phases of a run's requests.
fn phases(document: &Document) -> Option<String> {
    let settings = &document.ringfall.config.as_ref()?.settings;
    let is_set = |key: &str| settings.get(key).and_then(Value::as_bool).unwrap_or(false);
    let only = ["prefill_only", "decode_only"].into_iter().find(|key| is_set(key));
    Some(only.unwrap_or("both").replace('_', " "))
}

/// GPU tier of a run, and the GPUs that an entry is spread over.
fn gpus(document: &Document) -> Option<String> {
    let settings = &document.ringfall.config.as_ref()?.settings;
    let number = |key: &str| settings.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let [gib, gpus, parallel] = ["gpu_mem_gb", "num_gpus", "tensor_parallel"].map(number);
    Some(match (gib > 0.0, parallel > 1.0) {
        (false, false) => "none".to_owned(),
        _ => format!("{gpus} of {gib} GiB, an entry on {parallel}"),
    })
}

fn other_cpu_tier(a: &Side, b: &Side) -> Option<Caution> {
    let [one, other] = apart(a, b, 0.0, |file| Some(told_by(file)?.cpu_memory_gib()))?;
    Some(Caution {
        text: format!(
            "the CPU tiers differ ({one} and {other} GiB): a CPU tier serves reads in the drive's \
             place, so that the side with the larger one looks faster than its drive is"
        ),
        what: "CPU tiers",
        favours: if one > other { Favours::Baseline } else { Favours::Candidate },
    })
}

fn other_space(a: &Side, b: &Side) -> Option<Caution> {
    let space = |file: &ResultFile| {
        Some(gib(file.document.ringfall.config.as_ref()?.storage_capacity_bytes?))
    };
    let [one, other] = apart(a, b, TOLERANCE, space)?;
    Some(Caution {
        text: format!(
            "the storage spaces differ ({one:.1} and {other:.1} GiB): in a smaller one fewer \
             entries are found again and more writes wait for room, whatever the drive's speed"
        ),
        what: "storage spaces",
        favours: Favours::Nobody,
    })
}

fn other_windows(a: &Side, b: &Side) -> Option<Caution> {
    let [one, other] = apart(a, b, TOLERANCE, |file| file.document.seconds())?;
    Some(Caution {
        text: format!(
            "the windows differ ({one:.1} and {other:.1} s): amounts (GiB, tokens, requests) grow \
             with them; go by rates and latencies"
        ),
        what: "windows",
        favours: Favours::Nobody,
    })
}

/// Answers of the searches for a number of users, where a side has one: the figures of such a
/// result are those of all its steps together.
fn searched_users(a: &Side, b: &Side) -> Option<Caution> {
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
    Some(Caution {
        text: format!(
            "the figures are means over all numbers of users that the searches tried, which \
             differ: compare the answers (baseline: {}; candidate: {}), or runs with a fixed \
             --num-users",
            told(one),
            told(other)
        ),
        what: "numbers of users",
        favours: Favours::Either,
    })
}

/// Files that stand on both sides, of which nothing can differ.
fn same_files(a: &Side, b: &Side) -> Option<Caution> {
    let real = |file: &ResultFile| std::fs::canonicalize(&file.path).unwrap_or(file.path.clone());
    let known: Vec<PathBuf> = a.files.iter().map(real).collect();
    let both = b.files.iter().filter(|file| known.contains(&real(file)));
    let names: Vec<String> = both.map(ResultFile::name).collect();
    (!names.is_empty()).then(|| Caution {
        text: format!(
            "baseline and candidate are the same file ({}): a result compared with itself shows \
             no difference",
            names.join(", ")
        ),
        what: "same files",
        favours: Favours::Nobody,
    })
}

/// Simulated runs of one side with the same seed, of which each is a copy of the other.
fn copies(name: &str, side: &Side) -> Option<Caution> {
    let simulated = side.files.iter().filter(|file| file.document.ringfall.simulation.is_some());
    let mut seeds: Vec<u64> = simulated.filter_map(|file| file.document.seed.known()).collect();
    let all = seeds.len();
    seeds.sort_unstable();
    seeds.dedup();
    (seeds.len() < all).then(|| Caution {
        text: format!(
            "the {name} has {all} simulated runs of {}: those with the same seed are copies of one \
             run, so that their agreement says nothing; simulate with another --seed each",
            counted(seeds.len() as u64, "seed")
        ),
        what: "copies",
        favours: Favours::Nobody,
    })
}

/// Hit rates that lie apart: of what can be missed, of earlier turns, or of all reads where a
/// result says no more. None where one side did not count them.
fn other_hits(a: &Side, b: &Side) -> Option<Caution> {
    /// Way to read a rate from a document.
    type Pick = fn(&Document) -> Option<f64>;

    let rates: [(&str, Pick); 3] = [
        ("looks for earlier turns, shared prefixes and populated entries", |d| {
            d.ringfall.cache.look_hit_rate.known()
        }),
        ("reads of earlier turns", Document::multi_turn_hit_rate),
        ("reads of entries", Document::hit_rate),
    ];
    let (what, [one, other]) = rates.into_iter().find_map(|(what, pick)| {
        let rate = |side: &Side| side.whole.as_ref().and_then(pick);
        let (one, other) = (rate(a)?, rate(b)?);
        ((one - other).abs() > HIT_RATES_APART).then_some((what, [one, other]))
    })?;
    Some(Caution {
        text: format!(
            "tokens/s, requests/s and latencies are not of the same work: {:.1} % of the {what} \
             found them in the baseline and {:.1} % in the candidate, and without \
             --prefill-tokens-per-s a miss costs no time, which favours the side that finds less",
            one * 100.0,
            other * 100.0
        ),
        what: "hit rates",
        favours: if one < other { Favours::Baseline } else { Favours::Candidate },
    })
}

/// Seeds that differ, where each side has one; none where a side's results have several.
fn other_seeds(a: &Side, b: &Side) -> Option<Caution> {
    let seed = |side: &Side| side.whole.as_ref()?.seed.known();
    let (one, other) = (seed(a)?, seed(b)?);
    (one != other).then(|| Caution {
        text: format!(
            "the requests differ with the seed ({one} in the baseline, {other} in the candidate), \
             which shifts every ratio by chance: give both runs the same --seed, or each side \
             several results"
        ),
        what: "seeds",
        favours: Favours::Nobody,
    })
}
