//! `ringfall run --trials N`: the same run several times, how far the results lie apart, and all of
//! them merged.
//!
//! Every trial has the same seed, so that they differ by what the system did and by nothing else.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use ringfall_config::{MergedOutputs, Plan};
use ringfall_host::escape::{terminal, terminal_path};
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::outlet;
use ringfall_model::document::ResultFile;
use ringfall_model::merge::merge_outlined;
use ringfall_model::metrics::{METRICS, Metric};
use ringfall_model::spread::{DIFFERENCE, TooWide, spreads, widest};
use ringfall_model::trust::{Situation, Trust, advise};
use ringfall_model::{Code, Document, Warning, write_json};
use ringfall_running::source::Reading;

use super::{
    Begin, Launch, Ran, Sources, awaited, exit_of, or_tell_ranks, prepare, screen, together,
    work_of,
};
use crate::commands::merge::sorted;
use crate::commands::{
    both, interrupt, metric_figure, show, spread_page, tell_error, text_stream, wrapped, write_form,
};

/// Trials that are worth asking for; beyond, longer runs spread less.
const TRIALS_WORTH_ASKING: u64 = 30;
/// Metrics of a trial's line.
const LINE: [(&str, &str); 4] = [
    ("wall_clock_throughput_tokens_per_s", "tokens/s"),
    ("storage_read_bandwidth_gib_per_s", "GiB/s read"),
    ("storage_write_bandwidth_gib_per_s", "written"),
    ("storage_read_device_p95_ms", "ms read P95"),
];

/// Runs the plan as often as it says, and writes each result and their summary.
pub(super) fn run(plan: &Plan, command_line: Vec<String>) -> Result<Exit> {
    if plan.output.exists() && !plan.output.is_file() && !plan.output.is_dir() {
        refuse!(
            "--output {} is not a plain file, and each of --trials {} keeps its own file beside \
             it; give a plain file",
            plan.output.display(),
            plan.trials
        );
    }
    let sources = or_tell_ranks(awaited(plan), prepare(plan, &command_line))?;
    let interrupt = interrupt()?;
    let launch = Launch::open(plan)?;
    let mut complete = Complete::default();
    let mut trials = Trials { plan, command_line: &command_line, interrupt, launch };
    let ended = trials.all(sources, &mut complete);
    if let Some(launch) = trials.launch.take() {
        launch.close(matches!(ended, Ok(Exit::Done)));
    }
    // What was measured is summed up also when the rest could not be.
    let summed_up = trials.sum_up(&complete);
    let exit = ended?;
    summed_up?;
    let old = trials.left_of_earlier_runs(complete.own.len());
    if !old.is_empty() {
        let old: Vec<String> = old.iter().map(|path| terminal(&path.to_string_lossy())).collect();
        tell(plan, &format!("  of an earlier run, not of this one: {}\n", old.join(", ")));
    }
    Ok(exit)
}

/// The trials that were complete: of each its outline, and the file that has the rest.
#[derive(Default)]
struct Complete {
    own: Vec<ResultFile>,
    /// On rank 0: those of all ranks together.
    together: Vec<ResultFile>,
}

struct Trials<'a> {
    plan: &'a Plan,
    command_line: &'a [String],
    interrupt: Interrupt,
    /// The other ranks, if there are some.
    launch: Option<Launch>,
}

impl Trials<'_> {
    /// The trials, until one is not complete.
    fn all(&self, sources: Sources, complete: &mut Complete) -> Result<Exit> {
        let mut sources = Some(sources);
        for trial in 1..=self.plan.trials {
            let exit = self.one(trial, sources.take(), complete)?;
            if exit != Exit::Done {
                return Ok(exit);
            }
        }
        Ok(Exit::Done)
    }

    fn one(&self, trial: u32, sources: Option<Sources>, complete: &mut Complete) -> Result<Exit> {
        let (plan, interrupt) = (self.plan, &self.interrupt);
        let path = trial_path(&plan.output, trial);
        let mut one = plan.trial(path.clone());
        if let Some(merged) = one.rank.as_mut().and_then(|rank| rank.merged.as_mut()) {
            let output = trial_path(&merged.output, trial);
            *merged = MergedOutputs { output, ..MergedOutputs::default() };
        }
        let with_banner = trial == 1 && !plan.quiet;
        // A trace is read from its beginning in each trial.
        let ended = interrupt.clone();
        let reading = Reading::new(move || ended.is_set(), !plan.quiet);
        let group = self.launch.as_ref().map(Launch::join).transpose()?;
        let sources = sources.map_or_else(|| Sources::open(&one, &reading), Ok);
        let begin = Begin {
            command_line: self.command_line.to_vec(),
            interrupt,
            with_banner,
            group: group.clone(),
            loads_enough: None,
        };
        let ran = begin.carry_out(&one, work_of(&one), sources, &|document| {
            let document = sorted(document)?;
            write_form(Some(&path), "the results", |path| write_json(&document, path))
        })?;
        let Ran { result, document, written, cleaned } = ran;
        if let Err(error) = written {
            // What was measured is shown also when it could not be kept. Standard output takes one
            // JSON document: that of earlier trials is their summary.
            let show = if complete.own.is_empty() { screen::show } else { screen::show_page };
            show(plan, &result, &document, false)?;
            return both(Err(error), super::heed_cleaning(&result, cleaned, interrupt));
        }
        tell(plan, &self::line(trial, plan.trials, &document, &path));
        let mut lack = None;
        if let Some(group) = group {
            let is_complete = super::is_complete(&result);
            let together = together::conclude(&one, &group, is_complete, self.command_line)?;
            lack = together.lack;
            let merged = one.rank.as_ref().and_then(|rank| rank.merged.as_ref());
            if let Some((merged, outputs)) = together.merged.zip(merged).filter(|_| lack.is_none())
            {
                let (path, document) = (outputs.output.clone(), merged.document.outline());
                tell(plan, &self::line(trial, plan.trials, &document, &path));
                complete.together.push(ResultFile { path, document });
            }
        }
        let exit = exit_of(&result, interrupt);
        if exit == Exit::Done {
            complete.own.push(ResultFile { path, document: document.outline() });
        }
        // A trial whose files can't be deleted counts, and takes the room of the next.
        super::heed_cleaning(&result, cleaned, interrupt)?;
        if exit == Exit::Done {
            return lack.map_or(Ok(exit), |lack| Err(anyhow!(lack)));
        }
        let what = format!("trial {trial} is not counted, and the last");
        match exit == Exit::Interrupted {
            true => tell(plan, &format!("  {what}: it was interrupted\n")),
            // A batch takes it from its log.
            false => tell_error(format!("{what}: {}", super::why_failed(&result).join("; "))),
        }
        // Nor is what all ranks were together.
        complete.together.truncate(complete.own.len());
        Ok(exit)
    }

    /// Result files that this run would have written if more trials than these had been complete,
    /// and that are there.
    fn left_of_earlier_runs(&self, complete: usize) -> Vec<PathBuf> {
        let output = &self.plan.output;
        let summary = (complete == 0).then(|| output.clone());
        // The one that is not complete has written its own.
        let trials = complete as u32 + 2..=self.plan.trials;
        let all = summary.into_iter().chain(trials.map(|trial| trial_path(output, trial)));
        all.filter(|path| path.exists()).collect()
    }

    /// Writes the summary of the trials: of this process, and of all ranks.
    fn sum_up(&self, complete: &Complete) -> Result<()> {
        let plan = self.plan;
        if !complete.own.is_empty() {
            // Of several ranks, all of them together are shown.
            let is_shown = complete.together.is_empty();
            sum_up(plan, self.command_line, &complete.own, &plan.output, is_shown)?;
        }
        let merged = plan.rank.as_ref().and_then(|rank| rank.merged.as_ref());
        let Some(outputs) = merged.filter(|_| !complete.together.is_empty()) else {
            return Ok(());
        };
        sum_up(plan, self.command_line, &complete.together, &outputs.output, true)
    }
}

/// `results/a.json` → `results/a_trial2.json`, as the reference's published results are named.
pub(super) fn trial_path(output: &Path, trial: u32) -> PathBuf {
    let mut name = output.file_stem().unwrap_or_default().to_os_string();
    name.push(format!("_trial{trial}"));
    if let Some(extension) = output.extension() {
        name.push(".");
        name.push(extension);
    }
    output.with_file_name(name)
}

fn line(trial: u32, trials: u32, document: &Document, path: &Path) -> String {
    let value = |(key, unit): &(&str, &str)| format!("{} {unit}", metric_figure(document, key));
    // A replay generates no tokens.
    let tokens = usize::from(document.ringfall.source.operations.known().is_some());
    let values: Vec<String> = LINE[tokens..].iter().map(value).collect();
    format!("trial {trial} of {trials}  {}  {}\n", values.join("  "), terminal_path(path))
}

fn sum_up(
    plan: &Plan,
    command_line: &[String],
    complete: &[ResultFile],
    output: &Path,
    is_shown: bool,
) -> Result<()> {
    let mut summary = merge_outlined(complete, &[], command_line, &mut |trial| {
        Ok(ResultFile::read(&trial.path)?.document)
    })?;
    let documents: Vec<&Document> = complete.iter().map(|trial| &trial.document).collect();
    let spreads = spreads(&documents);
    let warning = widest(&spreads, &metrics_to_go_by(complete)).map(|wide| warning(&wide));
    summary.ringfall.warnings.extend(warning.clone());
    if let Some(merged) = &mut summary.ringfall.merged {
        merged.trials_asked = Some(plan.trials);
    }
    let json = sorted(&summary)?;
    let written = write_form(Some(output), "the summary", |path| write_json(&json, path));
    if is_shown {
        show(&json, plan.json, !is_told_here(plan), || {
            let (complete, trials, seed) = (complete.len(), plan.trials, plan.seed);
            let mut page = format!("\n{complete} of {trials} trials, seed {seed}\n");
            page.push_str(&spread_page(&spreads, &summary));
            if let Some(Warning { text, flag_to_try, .. }) = &warning {
                let try_this =
                    flag_to_try.as_ref().map_or(String::new(), |f| format!(" [try {f}]"));
                wrapped(&mut page, "  note: ", &format!("{text}{try_this}"));
            }
            page.push_str(&format!("  results      {}\n", terminal_path(output)));
            page
        })?;
    }
    written
}

/// The metrics that this configuration is to be judged by; all the usual ones where none is known.
fn metrics_to_go_by(complete: &[ResultFile]) -> Vec<&'static str> {
    let situations: Vec<Situation> = complete.iter().map(Situation::of).collect();
    let advice = advise(&situations);
    let primary = advice.iter().filter(|advice| advice.trust == Trust::Primary);
    let primary: Vec<&str> = primary.map(|advice| advice.metric).collect();
    match primary.is_empty() {
        true => METRICS.iter().filter(|m| m.headline).map(|metric| metric.key).collect(),
        false => primary,
    }
}

fn warning(too_wide: &TooWide) -> Warning {
    let TooWide { metric, cv, trials, needed } = too_wide;
    let (needed, title) = (*needed, Metric::title_of(metric));
    let (longer, flag) = match needed > TRIALS_WORTH_ASKING {
        true => (", or longer ones", "--duration".to_owned()),
        false => ("", format!("--trials {needed}")),
    };
    Warning {
        code: Code::TrialsSpread,
        text: format!(
            "{title}: {trials} trials lie {:.1} % apart (CV), too far to tell two systems that \
             differ by {:.0} %; about {needed} trials of each would do{longer}",
            cv * 100.0,
            DIFFERENCE * 100.0
        ),
        flag_to_try: Some(flag),
    }
}

fn is_told_here(plan: &Plan) -> bool {
    let is_told_by_rank_0 =
        awaited(plan).is_some_and(|rank| rank.launcher.rank > 0 && rank.merged.is_some());
    !plan.quiet && !is_told_by_rank_0
}

/// Says what became of a trial; the next is not held up.
fn tell(plan: &Plan, text: &str) {
    if is_told_here(plan) {
        outlet::tell(text_stream(plan.json), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_lie_beside_the_summary_and_are_named_as_published_ones() {
        let path = |output: &str| trial_path(Path::new(output), 2).display().to_string();
        assert_eq!(path("results/a.json"), "results/a_trial2.json");
        assert_eq!(path("a"), "a_trial2");
        assert_eq!(path("/r/x_cpu0.5GB_users5.json"), "/r/x_cpu0.5GB_users5_trial2.json");
    }

    #[test]
    fn the_warning_says_how_many_would_do_or_that_runs_should_be_longer() {
        let of = |needed| {
            warning(&TooWide { metric: "tokens".to_owned(), cv: 0.125, trials: 3, needed })
        };
        assert!(of(25).text.contains("12.5 %") && of(25).text.contains("about 25 trials"));
        assert_eq!(of(25).flag_to_try.as_deref(), Some("--trials 25"));
        assert_eq!(of(400).flag_to_try.as_deref(), Some("--duration"));
        assert_eq!(Code::OF_TRIALS, [of(25).code]);
    }
}
