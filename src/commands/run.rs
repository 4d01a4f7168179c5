//! `ringfall run`: from a plan to a result.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow};
use ringfall_config::{InputError, Plan, RooflineFrom, Traffic};
use ringfall_engine::device::{is_block_device, nvme_block_device};
use ringfall_host::counted;
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::remedy::told_io;
use ringfall_model::{Document, REFUSED_SHARE_MAX, RunResult, judge};
use ringfall_running::group::Group;
use ringfall_running::run::{Assignment, Cleanup, LoadsEnough, Start};
use ringfall_running::saturate::read_roofline;
use ringfall_running::source::{Reading, RowReader};
use ringfall_running::{run, source};
use ringfall_workloads::Source;

use super::answer::{Answer, Work};
use super::{both, interrupt, is_full, tell_error};
use crate::prometheus::Watch;
use crate::remedy::told_chain;

mod alternatives;
mod drive_logs;
pub(super) mod gpu;
mod outputs;
mod prepare;
mod ranks;
mod result;
mod screen;
mod settings;
mod shortages;
pub(super) mod simulated;
pub(super) mod system_disk;
mod teller;
mod together;
mod trials;

pub(super) use outputs::{
    all_outputs, check_output_writable, check_outputs, refuse_data_name, write_fio_job,
};
use outputs::{refuse_inputs, write_results};
pub(super) use ranks::share_below;
use result::{document_of, result_of};
use screen::{progress_line, show};
pub(super) use settings::cores_near;
use teller::{Teller, WasRead};
pub(super) use together::or_tell_ranks;
pub use together::tell_ranks_that_wait;
pub(super) use together::{GIVE_OUTPUT, LEAVE_PATIENCE, Launch};
use together::{Together, awaited};

/// A run as its interruption is spoken of.
fn work_of(plan: &Plan) -> Work {
    Work {
        name: "run",
        keeps: ", with the results of what was measured",
        places: plan.cache_dirs.clone(),
        output: Some(plan.output.clone()),
        left: "the next run there deletes it",
    }
}

/// The same of a run whose results are kept as a part of another command's answer alone.
fn work_of_part(plan: &Plan) -> Work {
    let keeps =
        ", without its results; the answer follows from the runs before it, if there are any";
    Work { keeps, output: None, ..work_of(plan) }
}

/// Runs the plan and writes its results.
pub fn run(plan: &Plan, command_line: Vec<String>) -> Result<Exit> {
    if plan.io_trace_log.is_some() {
        return simulated::logical(plan, command_line);
    }
    if plan.trials > 1 {
        return trials::run(plan, command_line);
    }
    let sources = or_tell_ranks(awaited(plan), prepare(plan, &command_line))?;
    let launch = Launch::open(plan)?;
    let group = launch.as_ref().map(Launch::join).transpose()?;
    let interrupt = interrupt()?;
    let begin = Begin {
        command_line: command_line.clone(),
        interrupt: &interrupt,
        with_banner: !plan.quiet,
        group: group.clone(),
        loads_enough: None,
    };
    let write = |document: &Document| write_results(plan, document);
    let ran = begin.carry_out(plan, work_of(plan), Ok(sources), &write)?;
    let Ran { result, document, written, cleaned } = ran;
    let is_complete = is_complete(&result) && written.is_ok();
    let together = group.map_or(Ok(Together::default()), |group| {
        together::conclude(plan, &group, is_complete, &command_line)
    });
    if let Some(launch) = launch {
        launch.close(together.as_ref().is_ok_and(|together| together.is_orderly));
    }
    // What was measured is shown also when it could not be kept.
    let told = match &together {
        Ok(Together { merged: Some(merged), .. }) => screen::show_merged(plan, merged),
        Ok(Together { is_told_elsewhere: true, .. }) => Ok(()),
        _ => show(plan, &result, &document, written.is_ok()),
    };
    let exit = concluded(&result, &interrupt);
    let cleaned = heed_cleaning(&result, cleaned, &interrupt);
    both(told, both(written, cleaned))?;
    match together?.lack {
        Some(lack) if exit == Exit::Done => Err(anyhow!(lack)),
        _ => Ok(exit),
    }
}

/// Result of the plan's run, which is neither written nor shown, and ends early with loads that are
/// enough; its data is deleted.
pub(super) fn measured(
    plan: &Plan,
    command_line: Vec<String>,
    loads_enough: Option<LoadsEnough>,
    interrupt: &Interrupt,
) -> Result<RunResult> {
    check_device_may_be_destroyed(plan)?;
    let sources = Sources::open(plan, &Reading::new(|| false, false));
    let begin = Begin { command_line, interrupt, with_banner: false, group: None, loads_enough };
    let work = work_of_part(plan);
    let Ran { result, cleaned, .. } = begin.carry_out(plan, work, sources, &|_| Ok(()))?;
    let why = why_drive_failed(&result);
    if why.is_empty() || interrupt.is_set() {
        return heed_cleaning(&result, cleaned, interrupt).map(|()| result);
    }
    both(Err(anyhow!(why.join("; "))), cleaned)
}

/// Checks everything that can be checked before anything is opened, then reads the inputs.
fn prepare(plan: &Plan, command_line: &[String]) -> Result<Sources> {
    check_outputs(&all_outputs(plan).collect::<Vec<_>>())?;
    check_device_may_be_destroyed(plan)?;
    for trial in (1..=plan.trials).filter(|_| plan.trials > 1) {
        check_output_writable("--output", &trials::trial_path(&plan.output, trial))?;
    }
    super::tell(&ringfall_config::advice(&settings::with_free_space(plan)));
    // Before the handler is there, Ctrl-C ends the reading with the process.
    let sources = Sources::open(plan, &Reading::new(|| false, !plan.quiet))?;
    system_disk::heed(plan, command_line)?;
    Ok(sources)
}

/// Whether it came to its end.
fn is_complete(result: &RunResult) -> bool {
    !result.interrupted && result.failure.is_none()
}

/// Files that can't be deleted make a run a failed one that otherwise came to its end. One that was
/// interrupted stays that, and it is told what is left.
fn heed_cleaning(result: &RunResult, cleaned: Result<()>, interrupt: &Interrupt) -> Result<()> {
    match cleaned {
        Err(error) if !is_complete(result) || interrupt.is_set() => {
            tell_error(told_chain(&error));
            Ok(())
        }
        cleaned => cleaned,
    }
}

/// Outcome of a run, of writing its results, and of deleting its data.
struct Ran {
    result: RunResult,
    document: Document,
    written: Result<()>,
    cleaned: Result<()>,
}

/// Writes the results, then deletes the data: deleting may take minutes, and a second signal in
/// them must not cost the results. Where the data has left no room for the results, they are
/// written again after it. Both outcomes, the writing's first.
fn keep_and_clean(
    cleanup: Option<Cleanup>,
    write: impl Fn() -> Result<()>,
) -> (Result<()>, Result<()>) {
    let mut written = write();
    let cleaned = cleanup.map_or(Ok(()), Cleanup::carry_out).map_err(anyhow::Error::from);
    if written.as_ref().is_err_and(is_out_of_space) {
        written = write();
    }
    (written, cleaned)
}

fn is_out_of_space(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(is_full)
}

/// Arguments of a measurement besides its plan.
struct Begin<'a> {
    command_line: Vec<String>,
    interrupt: &'a Interrupt,
    with_banner: bool,
    /// The ranks that run together.
    group: Option<Arc<Group>>,
    /// Loads with which the run ends early.
    loads_enough: Option<LoadsEnough>,
}

/// Inputs that a run reads before it begins.
struct Sources {
    workload: Source,
    rows: Option<RowReader>,
    read: WasRead,
}

impl Sources {
    fn open(plan: &Plan, reading: &Reading) -> Result<Sources> {
        let validation = source::open_validation(plan, reading)?;
        if let Traffic::ShareGpt { path } = &plan.traffic {
            // A large one takes a minute to count.
            progress_line(plan).tell(&format!("reading {}…", path.display()));
        }
        let roofline = match &plan.roofline {
            Some(RooflineFrom::File(path)) => {
                Some((path.display().to_string(), read_roofline(path)?))
            }
            Some(RooflineFrom::Fresh) | None => None,
        };
        let opened = source::open(plan, reading)?;
        let files = opened.facts.files.iter().map(Path::new);
        refuse_inputs(plan, files)?;
        let read = WasRead { source: opened.facts, validation, roofline };
        Ok(Sources { workload: opened.workload, rows: opened.rows, read })
    }
}

impl Begin<'_> {
    /// Runs the plan once, with the other ranks of a group if there is one, which hear of an error;
    /// then writes the results and deletes the data. A signal is answered until that is done.
    fn carry_out(
        self,
        plan: &Plan,
        work: Work,
        sources: Result<Sources>,
        write: &dyn Fn(&Document) -> Result<()>,
    ) -> Result<Ran> {
        let answer = Answer::to(work, self.interrupt);
        let ran = sources.and_then(|sources| self.run(plan, sources, &answer));
        let (result, cleanup) = ran.inspect_err(|error| {
            if let Some(group) = &self.group {
                group.fail(&told_chain(error));
            }
        })?;
        let document = document_of(&result);
        let (written, cleaned) = keep_and_clean(cleanup, || write(&document));
        Ok(Ran { result, document, written, cleaned })
    }

    fn run(
        &self,
        plan: &Plan,
        sources: Sources,
        answer: &Answer,
    ) -> Result<(RunResult, Option<Cleanup>)> {
        let watch = Watch::start(plan)?;
        let mut given = plan.clone();
        let gpu = gpu::open(&mut given)?;
        let plan = &given;
        let workload = Arc::new(plan.workload_config());
        let mut settings = settings::of(plan);
        settings.layout = settings.layout.map(|layout| settings::as_its_files_open(layout, plan));
        let memory = gpu.memory.clone();
        if let Some(memory) = gpu.memory {
            settings.engine = settings.engine.gpu_memory(memory);
        }
        settings.gpu_direct = gpu.direct;
        settings.loads_enough = self.loads_enough;
        if let Some(group) = &self.group {
            settings.start = Start::Together(Arc::clone(group));
        }
        let Sources { workload: source, rows, read } = sources;
        let mut teller = Teller::new(plan, &workload, self, gpu.outcome, read);
        teller.answer = Some(answer);
        teller.be_watched(watch);
        let assignment = Assignment { config: workload, source, rows };
        let outcome = run::run(&settings, assignment, self.interrupt, &mut teller)?;
        teller.finish(&outcome.figures, memory.map(|memory| memory.driver_use()));
        Ok(result_of(&teller, outcome))
    }
}

/// A flag that is missing, or a path that may be meant otherwise, is a mistake of usage, found
/// before anything is opened.
pub(super) fn check_device_may_be_destroyed(plan: &Plan) -> Result<(), InputError> {
    let together = plan.cache_dirs.iter().map(|path| path.as_os_str()).collect::<Vec<_>>();
    let together = Path::new(&together.join(OsStr::new(","))).to_owned();
    if plan.cache_dirs.len() > 1 && together.exists() {
        let escaped = together.display().to_string().replace(',', "\\,");
        refuse!(
            "--cache-dir: {} is an existing directory, but a comma separates drives: write \
             {escaped} to use it, or rename it",
            together.display()
        );
    }
    check_passthrough(&plan.cache_dirs, plan.nvme_passthrough)?;
    match plan.cache_dirs.iter().find(|path| is_block_device(path)) {
        Some(path) if !plan.destroy_device_contents => refuse!(
            "--cache-dir {} is a block device, and a run would write over it: give \
             --destroy-device-contents if nothing on it is needed",
            path.display()
        ),
        _ => Ok(()),
    }
}

/// Whether the drives can be handed NVMe commands, where they are to be; and none is that takes
/// nothing else, where they are not.
pub(super) fn check_passthrough(
    places: &[PathBuf],
    is_passthrough: bool,
) -> Result<(), InputError> {
    if !is_passthrough {
        let generic = |path: &PathBuf| Some((path.clone(), nvme_block_device(path)?));
        let Some((path, block)) = places.iter().find_map(generic) else { return Ok(()) };
        refuse!(
            "--cache-dir {} takes NVMe commands alone: give --nvme-passthrough, or {} in its place",
            path.display(),
            block.display()
        );
    }
    let told = match places.iter().find(|path| path.exists() && !is_block_device(path)) {
        _ if places.is_empty() => "no drive is given".to_owned(),
        Some(path) => format!("{} is no drive", path.display()),
        // What is not there is found when it is opened.
        None => return Ok(()),
    };
    refuse!(
        "--nvme-passthrough: {told}: give --cache-dir an NVMe namespace that nothing uses, such as \
         /dev/nvme0n1"
    )
}

/// A signal that came after the measurement ended the run as well: while its results were written
/// or its data was deleted.
fn exit_of(result: &RunResult, interrupt: &Interrupt) -> Exit {
    match (result.interrupted || interrupt.is_set(), why_failed(result).is_empty()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::Failed,
    }
}

/// Exit status of a run that was shown; prints at last why it is 1, also where it is quiet. A batch
/// takes that from the end of its log.
fn concluded(result: &RunResult, interrupt: &Interrupt) -> Exit {
    let exit = exit_of(result, interrupt);
    if exit == Exit::Failed {
        tell_error(why_failed(result).join("; "));
    }
    exit
}

/// Signs that the drive failed or the run could not go on, a clause for each; none of them in a
/// run whose figures are those of a drive.
fn why_drive_failed(result: &RunResult) -> Vec<String> {
    let mut why: Vec<String> = result.failure.iter().cloned().collect();
    if let Some(first) = result.errors.first() {
        why.push(format!("there were I/O errors, the first: {}", told_io(first)));
    }
    let lost = result.drives.iter().filter(|drive| drive.failed_s.is_some()).count();
    if lost > 0 {
        why.push(format!("{lost} of {} drives failed during the run", result.drives.len()));
    }
    if result.engine.verify.blocks_bad > 0 {
        let blocks = counted(result.engine.verify.blocks_bad, "block");
        why.push(format!("{blocks} differed from what was written when they were read back"));
    }
    why
}

/// Why the run ends with status 1, a clause for each reason; none when it does not.
fn why_failed(result: &RunResult) -> Vec<String> {
    let mut why = why_drive_failed(result);
    if result.requests.refused_share() > REFUSED_SHARE_MAX {
        let remedy = match result.plan.is_without_storage {
            true => "raise --cpu-mem-gb",
            false if result.lacks_room() => "free space on its drive, or give another --cache-dir",
            false => "raise --storage-capacity-gb",
        };
        why.push(format!(
            "{:.1} % of the requests could not be served, as the last tier has no room for their \
             KV entry: {remedy}",
            result.requests.refused_share() * 100.0
        ));
    }
    if result.population_failed > 0 {
        let entries = counted(result.population_failed, "entry");
        why.push(format!("{entries} that the run reads could not be written before it"));
    }
    if result.plan.fail_on_health {
        let health = judge(result);
        match &*health.overall_status {
            "PASS" => {}
            "FAIL" => why.push(
                "the storage's health is FAIL, which --fail-on-health makes an error".to_owned(),
            ),
            status => why.push(format!(
                "the storage's health is {status} ({}), and --fail-on-health wants it shown: give \
                 a longer --duration",
                health.why_no_data()
            )),
        }
    }
    why
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{plan_of, run_args};

    /// "With the results of what was measured", which would be in /dev/null.
    #[test]
    fn a_run_of_another_command_s_answer_keeps_no_results() {
        let words = ["./kv", "--model=tiny-1b", "--output=/dev/null"].map(str::to_owned);
        let work = work_of_part(&plan_of(&run_args(words).unwrap()).unwrap());
        assert_eq!((work.output, work.keeps.contains("with the results")), (None, false));
    }
}
