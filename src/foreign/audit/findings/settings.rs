//! Findings about how a run was made: its recorded command, and fsync times that tell of it.

use std::collections::BTreeMap;

use super::super::command::{Changed, Recorded};
use super::super::finding::{Finding, Input, Kind, Level};
use super::super::leaf::{Group, Leaf};
use super::super::preload::Effect;
use super::super::rank::{Rank, value};
use super::{about, shown};

/// Least time of an fsync that has anything to write, ms. The file is new, so its data, the file
/// system's journal and the journal's commit must follow each other, and the fastest drives
/// (Optane) take 0.01 ms for each.
const FSYNC_FLOOR_MS: f64 = 0.03;
/// Shares of the fsyncs that are no slower than the P50 and the P95.
const HALF: f64 = 0.5;
const MOST: f64 = 0.95;
/// Placeholder of a parameter that is not in a command.
const ABSENT: &str = "not given";

/// Writes whose fsync had nothing to do.
pub(super) fn fsync_too_fast(leaf: &Leaf, group: &Group) -> Option<Finding> {
    let is_below =
        |rank: &Rank, of: usize| value(rank.fsync_ms[of]).is_some_and(|ms| ms < FSYNC_FLOOR_MS);
    let (ranks, _) = group.those(|rank| !rank.is_ours)?;
    let fast: Vec<&Rank> = ranks.iter().copied().filter(|rank| is_below(rank, 0)).collect();
    let fastest = fast.iter().filter_map(|r| value(r.fsync_ms[0])).min_by(f64::total_cmp)?;
    let share = |rank: &&Rank| if is_below(rank, 1) { MOST } else { HALF };
    let affected = fast.iter().map(share).sum::<f64>() / ranks.len() as f64;
    let mut finding = about(leaf, Some(group), Kind::FsyncTooFast, Level::Finding);
    finding.sentence = format!(
        "{}: the median fsync took less than {FSYNC_FLOOR_MS} ms in {} of {} rank files, {} ms in \
         the fastest{}. A drive that still has anything to write takes longer: the data, the \
         journal and its commit follow each other. Either fsync does nothing here, or the file \
         system had made the writes stable before; the time of `storage_write_device` then says \
         nothing of the drive. {}",
        group.begin(),
        fast.len(),
        ranks.len(),
        shown(fastest),
        mean_entry(&fast),
        preloaded_here(leaf)
    );
    finding.formula = format!(
        "share of fsyncs below {FSYNC_FLOOR_MS} ms: at least 0.5 where the P50 is, 0.95 where the \
         P95 is, averaged over rank files"
    );
    finding.inputs = fast
        .iter()
        .flat_map(|rank| {
            let [p50, p95] = rank.fsync_ms.map(|figure| (figure, "ms"));
            let (written, writes) = ((rank.write_gib, "GiB"), (rank.prefill_writes, ""));
            Input::known(&rank.file, &[p50, p95, written, writes])
        })
        .collect();
    finding.weigh(affected, "share of the fsyncs that left a drive nothing to do, at least");
    finding.result = Some(fastest);
    finding.unit = "ms";
    Some(finding)
}

/// Clause with the mean size of the entries that were made stable so fast.
fn mean_entry(fast: &[&Rank]) -> String {
    let gib: f64 = fast.iter().filter_map(|rank| value(rank.write_gib)).sum();
    let writes: f64 = fast.iter().filter_map(|rank| value(rank.prefill_writes)).sum();
    if gib > 0.0 && writes > 0.0 {
        format!(", after writes of {} MiB on average", shown(gib * 1024.0 / writes))
    } else {
        String::new()
    }
}

fn preloaded_here(leaf: &Leaf) -> &'static str {
    let Some(metadata) = &leaf.metadata else {
        return "No command is recorded here.";
    };
    let mut all = metadata.commands.iter().flat_map(|c| &c.preloads).chain(&metadata.preloads);
    match all.any(|library| Effect::of(library) == Effect::NoFsync) {
        true => "The recorded command preloads a library that does nothing on fsync.",
        false => "The recorded command gives no reason.",
    }
}

/// Libraries that the recorded commands preload.
pub(super) fn preloaded(leaf: &Leaf) -> Vec<Finding> {
    let Some(metadata) = &leaf.metadata else { return Vec::new() };
    let mut places: BTreeMap<&str, Vec<Input>> = BTreeMap::new();
    let commands = metadata.commands.iter().map(|command| (&*command.key, &command.preloads));
    for (key, libraries) in commands.chain([("args.mpi_params", &metadata.preloads)]) {
        for library in libraries {
            let input = Input::text(&metadata.file, key, library);
            places.entry(library).or_default().push(input);
        }
    }
    let trials = metadata.commands.len();
    let found = places.into_iter().map(|(library, inputs)| {
        let effect = Effect::of(library);
        let level = match effect {
            Effect::Allocator => Level::Note,
            _ => Level::Finding,
        };
        let mut finding = about(leaf, None, Kind::PreloadedLibraries, level);
        let commands = inputs.iter().filter(|input| input.key != "args.mpi_params").count();
        finding.sentence = format!(
            "The recorded command preloads {library} in {commands} of {trials} trials: {}.",
            effect.told()
        );
        finding.formula = "words of the command after LD_PRELOAD; the effect is judged by the \
                           library's name alone"
            .to_owned();
        finding.inputs = inputs;
        (finding.weight, finding.weight_is) = match effect {
            Effect::NoFsync => (1.0, "the write figures, all of which it may have changed"),
            Effect::NoFadvise => (1.0, "the read figures, all of which it may have changed"),
            Effect::Unknown => (0.5, "unknown; set to a half"),
            Effect::Allocator => (0.0, "nothing is in question"),
        };
        finding
    });
    found.collect()
}

/// Recorded parameters that are not the option's.
pub(super) fn changed(leaf: &Leaf) -> Vec<Finding> {
    let Some(metadata) = &leaf.metadata else { return Vec::new() };
    let mut by_option: BTreeMap<u32, Vec<(&Recorded, &Changed)>> = BTreeMap::new();
    for command in &metadata.commands {
        let all = command.changed.iter().map(|changed| (command, changed));
        by_option.entry(command.option).or_default().extend(all);
    }
    let division = leaf.division();
    let is_open = division.as_deref() == Some("open");
    let mut found = Vec::new();
    for (option, all) in by_option.into_iter().filter(|(_, all)| !all.is_empty()) {
        let group = leaf.groups.iter().find(|group| group.option == Some(option));
        let level = if is_open { Level::Note } else { Level::Finding };
        let mut finding = about(leaf, group, Kind::ChangedParameters, level);
        let mut told: Vec<String> = all.iter().map(|(_, changed)| clause(changed)).collect();
        told.sort();
        told.dedup();
        finding.sentence = format!(
            "Option {option} was run with other parameters than the published table's: {}.{}",
            told.join("; "),
            match division.as_deref() {
                Some("open") => " Runs of the OPEN division may do so.",
                Some("closed") => " The CLOSED division fixes them.",
                _ => "",
            }
        );
        finding.formula =
            "|recorded − table| ÷ the larger, of the parameter that differs most; 1 for words"
                .to_owned();
        finding.inputs = all
            .iter()
            .map(|(command, changed)| {
                let key = format!("{} --{}", command.key, changed.name);
                let is = changed.is.clone().unwrap_or_else(|| ABSENT.to_owned());
                Input::text(&metadata.file, key, is)
            })
            .collect();
        let most = all.iter().map(|(_, changed)| changed.distance()).fold(0.0, f64::max);
        finding.result = Some(most);
        if !is_open {
            finding.weight = most;
            finding.weight_is = "how far the parameter that differs most is from the table's";
        }
        found.push(finding);
    }
    found
}

fn clause(changed: &Changed) -> String {
    let is = changed.is.as_deref().unwrap_or(ABSENT);
    match &changed.table {
        Some(table) => format!("--{} is {is} ({table} in the table)", changed.name),
        None => format!("--{} is {is} (not in the table)", changed.name),
    }
}
