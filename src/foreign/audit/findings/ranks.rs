//! Findings about ranks and trials: what is missing, what differs, what missed its target.

use std::path::PathBuf;

use super::super::finding::{Finding, Input, Kind, Level};
use super::super::leaf::{Group, Leaf, Trial};
use super::super::rank::{Rank, value};
use super::super::rates::{Direction, of_trial};
use super::super::report::targets;
use super::{about, percent, places, shown};

/// Difference of trials, as a share of their mean, from which on it is said: SNIA's limit of a
/// steady state is 20 %, and trials of one machine usually lie within a few percent.
const SPREAD_SAID_FROM: f64 = 0.05;

/// Rank files that should be there.
pub(super) fn lost(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let published = leaf.published_of(group);
    let says_partial = published.is_some_and(|(_, says)| says.partial_failure() == Some(true));
    let per_trial = leaf.ranks_expected(group);
    let trials = group.trials.len() as u64;
    let expected = per_trial.saturating_mul(trials);
    let present = group.ranks().count() as u64;
    let damaged = group.trials.values().map(|trial| trial.damaged.len() as u64).sum::<u64>();
    // Of a part of a run the rest was not looked for.
    let missing = if leaf.is_whole { expected.saturating_sub(present) } else { damaged };
    if missing == 0 && !says_partial {
        return None;
    }
    let mut finding = about(leaf, Some(group), Kind::LostRanks, Level::Finding);
    finding.sentence = match leaf.is_whole {
        true => format!(
            "{}: {missing} of {expected} rank files are missing or can't be read ({damaged} can't \
             be read). The harness adds up those that are there: its sums are those of fewer \
             ranks.",
            group.begin()
        ),
        false => format!(
            "{}: only a part of the run was given; {damaged} of its rank files can't be read.",
            group.begin()
        ),
    };
    if let Some((file, says)) = published {
        let counts = ["rank_count", "trial_count"];
        let counts = counts.into_iter().filter_map(|name| Some((name, says.number(name)?)));
        let listed = says.listed("missing_files");
        let partial = says.partial_failure().map(|flag| flag.to_string());
        for (name, count) in counts.chain([("missing_files (length)", listed as f64)]) {
            finding.inputs.push(Input::number(file, group.published_key(name), count, ""));
        }
        let key = group.published_key("partial_failure");
        finding.inputs.extend(partial.as_ref().map(|partial| Input::text(file, key, partial)));
        finding.sentence.push_str(&format!(
            " The summary names {listed} missing, and says {} for `partial_failure`.",
            partial.as_deref().unwrap_or("nothing")
        ));
    }
    let rank_files = |path: &PathBuf| Input::text(path, "file", "it could not be read");
    finding.inputs.extend(group.trials.values().flat_map(|t| t.damaged.iter().map(rank_files)));
    for (trial, files) in group.trials.iter().filter(|_| leaf.is_whole) {
        let key = format!("{}, trial {trial}: rank files read", group.label);
        finding.inputs.push(Input::number(&leaf.path, key, files.ranks.len() as f64, ""));
    }
    finding.formula = "(rank_count × trials − rank files read) ÷ (rank_count × trials)".to_owned();
    let share = if expected > 0 { missing as f64 / expected as f64 } else { 0.0 };
    finding.weigh(share, "share of the rank files that are missing");
    Some(finding)
}

/// Several result files in a rank's directory.
pub(super) fn several_files(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let others: Vec<&PathBuf> = group.trials.values().flat_map(|t| &t.others).collect();
    if others.is_empty() {
        return None;
    }
    let mut finding = about(leaf, Some(group), Kind::SeveralFilesOfARank, Level::Finding);
    finding.sentence = format!(
        "{}: there are {} result files beside those that were read here, the first by name. The \
         harness takes the one that the file system lists first, which can be any.",
        group.begin(),
        others.len()
    );
    finding.formula = "files named kvcache_results_*.json in a rank's directory − 1".to_owned();
    finding.inputs =
        others.iter().map(|path| Input::text(path, "file", "it was not read")).collect();
    let files = group.ranks().count() + others.len();
    let share = others.len() as f64 / files as f64;
    finding.weigh(share, "share of the result files that were not read");
    finding.result = Some(others.len() as f64);
    Some(finding)
}

/// Ranks that moved no byte of storage, or, by a program whose bytes are not those of its drive,
/// keep no entry there.
pub(super) fn without_storage(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let is_without = |rank: &Rank| {
        // Interrupted before its window, it had no time to.
        if rank.is_interrupted && rank.elapsed_s.is_none() {
            return false;
        }
        let bytes = [rank.read_gib, rank.write_gib].map(value);
        // Ours may have evicted everything that it wrote by the end.
        let keeps_nothing = !rank.is_ours && value(rank.storage_entries) == Some(0.0);
        keeps_nothing || bytes == [Some(0.0), Some(0.0)]
    };
    let (without, share) = group.those(is_without)?;
    if group.ranks().all(|(_, rank)| rank.is_without_storage_tier) {
        return Some(without_storage_tier(leaf, group, &without));
    }
    let moved = without.iter().filter(|rank| value(rank.read_gib).is_some_and(|gib| gib > 0.0));
    let mut finding = about(leaf, Some(group), Kind::RanksWithoutStorage, Level::Finding);
    finding.sentence = format!(
        "{}: {} of {} rank files have no entry on storage at the end or moved no byte of it; \
         {} of those read from storage all the same. Ranks served from memory add tokens and \
         requests to the sums, and say nothing of storage.",
        group.begin(),
        without.len(),
        group.ranks().count(),
        moved.count()
    );
    if let Some((_, says)) = leaf.published_of(group) {
        finding.sentence.push_str(&format!(
            " The summary names {} of them in `cpu_tier_ranks`.",
            says.listed("cpu_tier_ranks")
        ));
    }
    finding.formula = "rank files with storage_entries = 0 or no bytes of storage ÷ all".to_owned();
    finding.inputs = without
        .iter()
        .flat_map(|rank| {
            let figures =
                [(rank.storage_entries, ""), (rank.read_gib, "GiB"), (rank.write_gib, "GiB")];
            Input::known(&rank.file, &figures)
        })
        .collect();
    finding.weigh(share, "share of the rank files that say nothing of storage");
    Some(finding)
}

/// Runs that were to have no storage: nothing is in question.
fn without_storage_tier(leaf: &Leaf, group: &Group, ranks: &[&Rank]) -> Finding {
    let mut finding = about(leaf, Some(group), Kind::RanksWithoutStorage, Level::Note);
    finding.sentence = format!(
        "{}: the run had no storage tier (--disable-storage), as its result says. Its figures are \
         those of memory, and say nothing of storage.",
        group.begin()
    );
    finding.formula = "storage_capacity_bytes = 0 in every rank file".to_owned();
    let key = "ringfall.config.storage_capacity_bytes";
    let input = |rank: &&Rank| Input::number(&rank.file, key, 0.0, "bytes");
    finding.inputs = ranks.iter().map(input).collect();
    finding
}

/// Trials of one option that differ.
pub(super) fn spread(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let is_moving = |trial: &Trial, direction| {
        let rate = of_trial(trial, direction)?.reported_gib_per_s;
        (rate > 0.0).then_some(rate)
    };
    // Of a direction: the spread as a share of the trials' mean, and the rate of each.
    let spread_of = |direction: Direction| {
        let rates: Vec<(u32, f64)> = group
            .trials
            .iter()
            .filter_map(|(trial, files)| Some((*trial, is_moving(files, direction)?)))
            .collect();
        let mean = rates.iter().map(|(_, rate)| rate).sum::<f64>() / rates.len() as f64;
        let least = rates.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
        let most = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
        (rates.len() > 1).then_some(((most - least) / mean, direction, rates))
    };
    let spreads = Direction::ALL.into_iter().filter_map(spread_of);
    let (spread, direction, rates) = spreads.reduce(|a, b| if b.0 > a.0 { b } else { a })?;
    if spread <= SPREAD_SAID_FROM {
        return None;
    }
    let mut finding = about(leaf, Some(group), Kind::TrialSpread, Level::Finding);
    let told: Vec<String> = rates.iter().map(|(_, rate)| shown(*rate)).collect();
    finding.sentence = format!(
        "{}: its {} trials differ by {} of their mean in {}: {} GiB/s. The harness publishes the \
         mean alone.",
        group.begin(),
        rates.len(),
        percent(spread),
        direction.plural(),
        told.join(", ")
    );
    finding.formula = "(largest − smallest) ÷ mean, of the sums over ranks".to_owned();
    for (trial, rate) in &rates {
        let key = format!("{}, trial {trial}: sum of the ranks' rates", group.label);
        finding.inputs.push(Input::number(&leaf.path, key, *rate, "GiB/s"));
    }
    // The mean of trials lies between them, so half is the most that another choice changes it by.
    finding.weigh(spread / 2.0, "half of the trials' range, as a share of their mean");
    finding.result = Some(spread);
    Some(finding)
}

/// Negative times, shares above one and the like.
pub(super) fn impossible(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let odd = || group.ranks().flat_map(|(_, rank)| rank.odd.iter().map(move |odd| (rank, odd)));
    let (first_rank, first) = odd().next()?;
    let mut finding = about(leaf, Some(group), Kind::ImpossibleFigures, Level::Finding);
    finding.sentence = format!(
        "{}: {} figures can't be what they say, and were taken as unknown. The first: {} is {} in \
         {}.",
        group.begin(),
        odd().count(),
        first.key,
        first.value,
        first_rank.file.display()
    );
    finding.formula = "times, counts and rates are numbers from 0 on, shares at most 1".to_owned();
    finding.inputs = odd()
        .map(|(rank, odd)| Input::text(&rank.file, odd.key.clone(), odd.value.clone()))
        .collect();
    let (_, share) = group.those(|rank| !rank.odd.is_empty())?;
    finding.weigh(share, "share of the rank files with such figures");
    finding.result = Some(odd().count() as f64);
    Some(finding)
}

/// Results of ours that say two things of one figure.
pub(super) fn contradicting(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let ranks = || group.ranks().map(|(_, rank)| rank);
    let all = || ranks().flat_map(|rank| rank.contradictions.iter().map(move |one| (rank, one)));
    let (first_rank, first) = all().next()?;
    let mut finding = about(leaf, Some(group), Kind::ContradictsItself, Level::Finding);
    finding.sentence = format!(
        "{}: in {} two figures of one file can't both be true. The first, in {}: {first}. It was \
         changed after the run, or is damaged.",
        group.begin(),
        places(all().count()),
        first_rank.file.display()
    );
    finding.formula = "figures that are the same by their definitions, held against each other, \
                       and those that are worked out from others, worked out anew"
        .to_owned();
    finding.inputs = all()
        .flat_map(|(rank, one)| {
            [&one.one, &one.other]
                .map(|claim| Input::number(&rank.file, claim.place.clone(), claim.value, ""))
        })
        .collect();
    let most = all().map(|(_, one)| one.share()).fold(0.0, f64::max);
    finding.weigh(most, "largest difference of the two, as a share of the larger");
    finding.result = Some(all().count() as f64);
    Some(finding)
}

/// Results whose figures could not be held against each other.
pub(super) fn unchecked(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let (ranks, share) = group.those(|rank| rank.unchecked.is_some())?;
    let told = || ranks.iter().filter_map(|rank| Some((rank, rank.unchecked.as_ref()?)));
    let (first_rank, first) = told().next()?;
    let mut finding = about(leaf, Some(group), Kind::Unchecked, Level::Finding);
    finding.sentence = format!(
        "{}: the figures of {} of {} rank files could not all be held against each other, so they \
         may contradict each other without a finding. The first, {}: {first}.",
        group.begin(),
        ranks.len(),
        group.ranks().count(),
        first_rank.file.display()
    );
    finding.formula = "rank files that could not be checked ÷ all".to_owned();
    finding.inputs =
        told().map(|(rank, why)| Input::text(&rank.file, "ringfall", why.clone())).collect();
    finding.weigh(share, "share of the rank files that could not be checked");
    Some(finding)
}

/// Classes of requests that missed their target: the result says so itself.
pub(super) fn targets_missed(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let rows = targets(group);
    let missed: Vec<_> = rows.iter().filter(|row| row.met < row.files).collect();
    if missed.is_empty() {
        return None;
    }
    let told: Vec<String> = missed
        .iter()
        .map(|row| {
            format!(
                "class {} missed its target in {} of {} files: {} of its {} requests were within \
                 it",
                row.class,
                row.files - row.met,
                row.files,
                percent(row.compliance),
                shown(row.requests)
            )
        })
        .collect();
    let mut finding = about(leaf, Some(group), Kind::TargetsMissed, Level::Note);
    finding.sentence = format!("{}: {}.", group.begin(), told.join("; "));
    finding.formula =
        "sum over rank files of total_requests × sla.compliance ÷ sum of total_requests".to_owned();
    for row in &rows {
        let key = format!(
            "summary.qos_metrics.{}: share of requests within target, all rank files",
            row.class
        );
        finding.inputs.push(Input::number(&leaf.path, key, row.compliance, ""));
    }
    Some(finding)
}

/// The result's own criteria, not met.
pub(super) fn health_failed(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let known = group.ranks().filter(|(_, rank)| rank.health.is_some()).count();
    let is_failed = |rank: &Rank| rank.health.as_deref().is_some_and(|status| status != "PASS");
    let (failed, _) = group.those(is_failed)?;
    let mut finding = about(leaf, Some(group), Kind::HealthFailed, Level::Note);
    finding.sentence = format!(
        "{}: `storage_health`, the benchmark's own verdict, is not PASS in {} of {known} rank \
         files.",
        group.begin(),
        failed.len()
    );
    finding.formula = "rank files whose overall_status is not PASS".to_owned();
    finding.inputs = failed
        .iter()
        .map(|rank| {
            let status = rank.health.clone().unwrap_or_default();
            let key = "summary.cache_stats.storage_health.overall_status";
            Input::text(&rank.file, key, status)
        })
        .collect();
    Some(finding)
}
