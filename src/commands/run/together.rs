//! Work of the ranks of one launch besides the run itself: they meet, and when they have ended,
//! rank 0 merges their results.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use ringfall_config::{ConfigFile, MeetsBy, MergedOutputs, Plan, Rank, Ranks};
use ringfall_host::{Overdue, write_output};
use ringfall_model::document::read_bytes;
use ringfall_model::write_json;
use ringfall_report::show::{Named, write_html, write_sheet};
use ringfall_running::group::{Group, Party, Session, Topic};
use serde::{Deserialize, Serialize};

use crate::cli::{RunArgs, gist};
use crate::commands::merge::{Merged, merge_files, sorted};
use crate::commands::write_form;
use crate::remedy::told_chain;

/// Topic of each rank's result, and topic by which rank 0 says that all are merged.
const RESULT: Topic = Topic("result");
const DONE: Topic = Topic("done");
/// Said with it where every rank was there to the end.
const ALL: &[u8] = b"all";
/// Longest wait for the results of ranks that live: longer than a drive that does not answer is
/// waited for.
const RESULTS_PATIENCE: Duration = Duration::from_secs(180);
/// Longest wait for rank 0 to have merged them, as long as it lives.
const DONE_PATIENCE: Duration = Duration::from_secs(600);
/// Longest wait until the others have heard that all is done.
pub(in crate::commands) const LEAVE_PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for a file that another machine has written to a directory that both see.
const FILE_PATIENCE: Duration = Duration::from_secs(10);
/// Ranks without a result that are named.
const MISSING_NAMED_MAX: usize = 20;
/// Level of the compression of results that go by MPI: the fastest.
const COMPRESSION: i32 = 1;

/// This process among those of its launch.
pub struct Launch {
    session: Session,
    place: String,
    /// Remedy where the ranks can't meet, a part of a sentence.
    remedy: &'static str,
}

/// The remedy of a run.
pub(in crate::commands) const GIVE_OUTPUT: &str = "give --output a directory that all of them may \
                                                   write to, or give all of them --start-at";

impl Launch {
    /// Joins the other ranks, if the plan waits for them.
    pub fn open(plan: &Plan) -> Result<Option<Launch>> {
        awaited(plan).map_or(Ok(None), |rank| Launch::of(rank, GIVE_OUTPUT))
    }

    /// Joins the other ranks, if this one can meet them. `remedy`: what to do where it can't.
    pub fn of(rank: &Rank, remedy: &'static str) -> Result<Option<Launch>> {
        let Some((size, by)) = rank.meeting() else { return Ok(None) };
        let party = Party { rank: rank.launcher.rank, size, host: rank.host.clone() };
        let place = match by {
            MeetsBy::Directory(common) => common.display().to_string(),
            MeetsBy::Mpi => "MPI".to_owned(),
        };
        let _overdue = Overdue::new(format!("{place} to begin"));
        let session = Session::open(by, rank.launcher.launch.as_deref(), party);
        let session = session.map_err(|what| anyhow!(what))?;
        Ok(Some(Launch { session, place, remedy }))
    }

    /// Joins the others for one run.
    pub fn join(&self) -> Result<Arc<Group>> {
        let Launch { session, place, remedy } = self;
        let told = || format!("the ranks can't meet in {place}: {remedy}");
        Ok(Arc::new(session.join().with_context(told)?))
    }

    /// Ends. `is_orderly`: all ranks are known to do so.
    pub fn close(self, is_orderly: bool) {
        self.session.close(is_orderly);
    }
}

/// Has the ranks that wait for this one hear that it can't begin, where it can't.
///
/// # Errors
/// The result's own.
pub(in crate::commands) fn or_tell_ranks<T>(rank: Option<&Rank>, result: Result<T>) -> Result<T> {
    if let (Some(rank), Err(error)) = (rank, &result) {
        tell_ranks(rank, &told_chain(error));
    }
    result
}

/// This rank, if others wait for it when it runs that plan.
pub(super) fn awaited(plan: &Plan) -> Option<&Rank> {
    plan.rank.as_ref().filter(|_| plan.group_size().is_some())
}

/// Has the ranks that wait for a rank hear why it can't begin. By MPI they hear of it from the
/// launcher.
fn tell_ranks(rank: &Rank, why: &str) {
    if rank.is_by_mpi {
        return;
    }
    // Where it can't be told, they wait as long as for a rank that never came.
    if let Ok(Some(launch)) = Launch::of(rank, GIVE_OUTPUT)
        && let Ok(group) = launch.join()
    {
        group.fail(&gist(why));
    }
}

/// Has the ranks that wait for this one hear why it can't begin, where its settings are wrong and
/// there is no plan: they wait where the flags and the file that could be read say.
pub fn tell_ranks_that_wait(args: &RunArgs, file: Option<&ConfigFile>, why: &str) {
    // A preset that is not known says nothing of where they meet.
    let typed = args.typed().unwrap_or_else(|_| args.options.clone());
    let file = file.map(|file| file.options.clone()).unwrap_or_default();
    // Who is given a time waits for nobody; 0 is none.
    if typed.start_at.or(file.start_at).is_some_and(|start| start > Default::default()) {
        return;
    }
    let output = typed.output.or(file.output).unwrap_or_else(|| "results/auto".into());
    let ranks = typed.ranks.or(file.ranks).map_or(Ranks::Auto, |word| word.0);
    if let Ok(Some(rank)) = Rank::for_command(ranks, &output) {
        tell_ranks(&rank, why);
    }
}

/// Outcome of the group's run.
#[derive(Default)]
pub(super) struct Together {
    /// On rank 0: all results as one; none where they are not merged.
    pub merged: Option<Merged>,
    /// Another rank shows what came of all of them.
    pub is_told_elsewhere: bool,
    /// All ranks that are there have left in order, and none is lost.
    pub is_orderly: bool,
    /// Why the launch has failed, although this rank may not have: results are missing.
    pub lack: Option<String>,
}

/// Hands this rank's result to rank 0, which merges all of them and writes what they are together.
pub(super) fn conclude(
    plan: &Plan,
    group: &Group,
    is_complete: bool,
    command_line: &[String],
) -> Result<Together> {
    let outputs = plan.rank.as_ref().and_then(|rank| rank.merged.as_ref());
    let began = group.begins().is_some();
    let Some(outputs) = outputs.filter(|_| began) else {
        // Of one that has failed the card stays, for those that have not seen it yet.
        if is_complete {
            group.leave();
        }
        return Ok(Together { is_orderly: is_complete, ..Together::default() });
    };
    if group.rank() > 0 {
        let word = hand_over(&plan.output, group)?;
        group.say_bytes(RESULT, word);
        let done = group.gather_from_those_left(DONE, DONE_PATIENCE);
        group.leave();
        let is_orderly = done.iter().any(|word| word.bytes == ALL);
        let is_told_elsewhere = !done.is_empty() && is_complete;
        let lack = match (is_orderly, done.is_empty()) {
            (true, _) => None,
            (false, true) => Some(
                "rank 0 has not answered, and may have merged nothing; merge the ranks' results \
                 with `ringfall report DIR --output all.json`",
            ),
            (false, false) => {
                Some("rank 0 did not get the results of all ranks: the merged result lacks some")
            }
        };
        let lack = lack.map(str::to_owned);
        return Ok(Together { is_told_elsewhere, is_orderly, merged: None, lack });
    }
    let words = group.gather_from_those_left(RESULT, RESULTS_PATIENCE);
    let mut missing: BTreeSet<u32> = (1..group.size()).collect();
    let mut files = vec![plan.output.clone()];
    for word in words {
        match file_of(&word.bytes, group.word_bytes_max() == 0) {
            Ok(file) => {
                missing.remove(&word.rank);
                files.push(file);
            }
            // The others are merged all the same.
            Err(error) => ringfall_host::stderr::tell(format_args!("warning: {error:#}")),
        }
    }
    let merged = merge_all(&files, outputs, command_line);
    let has_all = missing.is_empty();
    group.say_bytes(DONE, if has_all { ALL.to_vec() } else { Vec::new() });
    let have_left = group.see_off(LEAVE_PATIENCE);
    group.leave();
    let is_orderly = has_all && have_left;
    let merged = merged?;
    let lack = (!has_all).then(|| lack_of(&missing, group.size(), merged.is_some()));
    Ok(Together { merged, is_told_elsewhere: false, is_orderly, lack })
}

/// Sentence for rank 0 that lacks results of other ranks: it has merged what came, if any did.
fn lack_of(missing: &BTreeSet<u32>, size: u32, is_merged: bool) -> String {
    let mut named: Vec<String> =
        missing.iter().take(MISSING_NAMED_MAX).map(u32::to_string).collect();
    if missing.len() > MISSING_NAMED_MAX {
        named.push(format!("{} more", missing.len() - MISSING_NAMED_MAX));
    }
    let rest = match is_merged {
        true => "what they measured is missing here",
        false => "with rank 0's result alone there is nothing to merge, and no merged result",
    };
    format!(
        "{} of {size} ranks handed over no result ({}): they are stopped, were killed, or can't \
         be reached; {rest}",
        missing.len(),
        named.join(", ")
    )
}

/// Merges and writes; none where there is nothing to merge with.
fn merge_all(
    files: &[PathBuf],
    outputs: &MergedOutputs,
    command_line: &[String],
) -> Result<Option<Merged>> {
    if files.len() < 2 {
        return Ok(None);
    }
    let merged = merge_files(files, true, command_line)?;
    write_merged(&merged, outputs)?;
    Ok(Some(merged))
}

pub(super) fn write_merged(merged: &Merged, outputs: &MergedOutputs) -> Result<()> {
    let (what, json) = ("the merged result", sorted(&merged.document)?);
    write_form(Some(&outputs.output), what, |path| write_json(&json, path))?;
    let name = outputs.output.display().to_string();
    let named = [Named { name, document: merged.document.clone() }];
    write_form(outputs.xlsx_output.as_deref(), what, |path| write_sheet(&named, path))?;
    write_form(outputs.html_output.as_deref(), what, |path| write_html(&named, path))
}

/// Result that a rank hands over: its path, and its content where rank 0 may not see the same
/// files.
#[derive(Serialize, Deserialize)]
struct HandOver {
    file: PathBuf,
    /// Length of the file, and a sum over its content.
    bytes: u64,
    sum: u32,
}

fn hand_over(file: &Path, group: &Group) -> Result<Vec<u8>> {
    let content = read_bytes(file).map_err(|what| anyhow!("{}: {what}", file.display()))?;
    let head = HandOver {
        file: std::path::absolute(file)?,
        bytes: content.len() as u64,
        sum: sum_of(&content),
    };
    let mut word = serde_json::to_vec(&head)?;
    // Of a result that is too large, rank 0 sees the file or nothing.
    let packed = zstd::bulk::compress(&content, COMPRESSION)?;
    if word.len() + 1 + packed.len() <= group.word_bytes_max() {
        word.push(0);
        word.extend(packed);
    }
    Ok(word)
}

fn sum_of(content: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(content);
    sum.sum()
}

/// The file with a rank's result, as rank 0 sees it; written anew where it does not.
fn file_of(word: &[u8], is_shared: bool) -> Result<PathBuf> {
    let (head, packed) = match word.iter().position(|&byte| byte == 0) {
        Some(at) => (&word[..at], Some(&word[at + 1..])),
        None => (word, None),
    };
    let HandOver { file, bytes, sum } =
        serde_json::from_slice(head).context("cannot parse the result that a rank handed over")?;
    let is_there = || {
        // Of another length it is another's, or not whole yet.
        let has_length = std::fs::metadata(&file).is_ok_and(|facts| facts.len() == bytes);
        has_length
            && std::fs::read(&file)
                .is_ok_and(|content| content.len() as u64 == bytes && sum_of(&content) == sum)
    };
    let began = Instant::now();
    while !is_there() {
        if let Some(packed) = packed {
            write_content(&file, packed, bytes)?;
            break;
        }
        if began.elapsed() > FILE_PATIENCE {
            let what = match is_shared {
                true => "the directory of --output is not the same for all ranks",
                false => "it is too large for MPI, and its directory is not the same here",
            };
            return Err(anyhow!(
                "rank 0 cannot read {}: {what}; merge the results with `ringfall report DIR \
                 --output all.json`",
                file.display()
            ));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(file)
}

fn write_content(file: &Path, packed: &[u8], bytes: u64) -> Result<()> {
    let told = || format!("{}, which another rank has measured, can't be written", file.display());
    let content = zstd::bulk::decompress(packed, usize::try_from(bytes)?).with_context(told)?;
    write_output(file, &content).with_context(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nothing_came_no_merged_result_is_spoken_of() {
        let merged = lack_of(&[1].into(), 3, true);
        assert!(merged.starts_with("1 of 3 ranks handed over no result (1): "), "{merged}");
        assert!(merged.ends_with("what they measured is missing here"), "{merged}");
        let alone = lack_of(&[1].into(), 2, false);
        assert!(alone.contains("1 of 2 ranks") && alone.ends_with("no merged result"), "{alone}");
    }
}
