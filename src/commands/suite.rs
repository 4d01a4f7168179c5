//! `ringfall suite`: the named workloads one after the other, and a table of all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ringfall_config::{Facts, GpuBackend, InputError, Options, Plan, Word, compact_utc, resolve};
use ringfall_core::held::HeldDirectory;
use ringfall_host::exit::Exit;
use ringfall_host::survey::{Root, Survey};
use ringfall_host::{Room, escape, human};
use ringfall_model::document::ResultFile;
use ringfall_model::{Document, write_json};
use ringfall_report::show::{
    Named, SHEET_ENDING, SuiteSource, suite_head, suite_page, suite_plan_page, suite_row,
    write_html, write_suite_html, write_suite_sheet,
};
use ringfall_report::suite::{End, Invocation, Place, Row, SavedSuite, SuiteTable, invocations};

use super::run::system_disk;
use super::{
    file_of, interrupt, is_bounded, machine_of, plan_of, print, print_json, run_args, write_form,
};
use crate::batch::{Batch, Ended, Job, Outcome, Report, Screen, unusable};
use crate::cli::SuiteArgs;

/// Time that a run takes besides its measurement, s: opening, draining, writing results.
const BESIDES_S: f64 = 6.0;

/// Runs the workloads that are not done, and makes the tables.
pub fn run(args: &SuiteArgs, command_line: &[String]) -> Result<Exit> {
    let (directory, suite) = match &args.resume {
        Some(directory) => match SavedSuite::read(directory)? {
            Some(suite) => (directory.clone(), suite),
            None => refuse!(
                "--resume {}: no suite was begun there (it has no suite.plan): give the directory \
                 of its results",
                directory.display()
            ),
        },
        None => planned(args)?,
    };
    let plans = plans(&suite)?;
    if !args.dry_run {
        super::refuse_launcher("a suite")?;
    }
    let say = |page: &str| -> Result<()> {
        match (args.quiet, args.json) {
            (true, _) => Ok(()),
            (false, true) => {
                ringfall_host::stderr::tell(format_args!("{}", escape::terminal_page(page)));
                Ok(())
            }
            (false, false) => print(page).map(drop),
        }
    };
    say(&outlook(&suite, &directory, &plans))?;
    if args.dry_run {
        return Ok(Exit::Done);
    }
    let is_settled = args.resume.is_some() || args.yes;
    if !is_settled && !system_disk::is_agreed(plans.iter().map(|run| &run.plan), true, false) {
        refuse!(
            "the suite did not begin: its data goes to the system's own disk (the file system of \
             /), and nobody has agreed to the space that its runs take; give --yes, a size with \
             --storage-capacity-gb, or --cache-dir on the drive to be measured"
        );
    }
    let read = |directory: &PathBuf| Baseline::read(directory, &suite.invocations);
    let baseline = args.baseline.as_ref().map(read).transpose()?;
    let baseline = baseline.as_ref();
    let interrupt = interrupt()?;
    HeldDirectory::make(&directory)
        .map_err(|error| unusable(&format!("cannot create {}", directory.display()), error))?;
    write_json(&suite, &SavedSuite::path(&directory))
        .with_context(|| format!("the plan can't be written to {}", directory.display()))?;
    let batch = Batch::new("suite", &directory, plans.into_iter().map(job).collect());
    let mut screen = Screen::new(args.quiet || args.json);
    screen.lines(&[suite_head()]);
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let report = batch.run(&|| interrupt.is_set(), &mut screen, &mut |ended| {
        let row = row_of(&suite, ended, baseline);
        let line = suite_row(&row);
        rows.insert(ended.job.name.clone(), row);
        vec![line]
    })?;
    let row_of = |one: &Invocation| {
        rows.remove(&one.name).unwrap_or_else(|| Row::of(one, &End::NotRun, None, None))
    };
    let rows = suite.invocations.iter().map(row_of).collect();
    let other = baseline.map(|other| other.directory.clone());
    let table = SuiteTable::new(suite.host.clone(), other, rows);
    let written = write_tables(&table, &suite, command_line, &directory);
    let left = left(&report, &directory, written.is_ok());
    say(&format!("{}{left}", suite_page(&table)))?;
    if args.json {
        print_json(&table)?;
    }
    written.map(|()| report.exit())
}

/// The results of another suite.
struct Baseline {
    directory: PathBuf,
    /// By the name of their invocation.
    documents: BTreeMap<String, Document>,
}

impl Baseline {
    /// Reads them before the first workload runs, and says which are missing.
    fn read(directory: &Path, invocations: &[Invocation]) -> Result<Baseline> {
        let shown = escape::terminal_path(directory);
        let (mut documents, mut missing) = (BTreeMap::new(), Vec::new());
        for name in invocations.iter().map(|invocation| &invocation.name) {
            let path = directory.join(format!("{name}.json"));
            if !path.exists() {
                missing.push(name.as_str());
                continue;
            }
            let read = ResultFile::read_ours(&path);
            let file = read.map_err(|problem| InputError::new(format!("--baseline: {problem}")))?;
            documents.insert(name.clone(), file.document);
        }
        if documents.is_empty() {
            refuse!(
                "--baseline {shown}: it has no result of this suite's workloads ({}.json): give \
                 the directory of another suite",
                missing.join(".json, ")
            );
        }
        if !missing.is_empty() {
            ringfall_host::stderr::tell(format_args!(
                "warning: --baseline {shown} has no result of {}: they are compared with nothing",
                missing.join(", ")
            ));
        }
        Ok(Baseline { directory: directory.to_owned(), documents })
    }
}

/// Returns the requested suite, or the saved one if it was begun there with the same settings.
fn planned(args: &SuiteArgs) -> Result<(PathBuf, SavedSuite)> {
    let workloads = args.chosen().map_err(InputError::new)?;
    let mut asked = args.asked();
    // The beginning of a name is enough; what it stands for is kept.
    let model = Options { model: Some(asked.model.clone()), ..Options::default() };
    let facts = Facts::look();
    asked.model = resolve(&model, None, &facts)?.model.clone();
    let survey = Survey::look(&Root::machine(), Some(&Room::look()));
    let mut machine = machine_of(&survey, args.cache_dir.as_deref());
    machine.place = Place::usual(&survey, args.cache_dir.as_deref());
    // What is wrong with them is told with the first run that they would be given to.
    let more = given_in(&args.more_flags).unwrap_or_default();
    if more.gpu_backend == Some(Word(GpuBackend::Emulated)) {
        machine = machine.with_emulated_gpu(more.gpu_mem_gb.map(|size| size.0));
    }
    let runs = workloads.iter().flat_map(|one| invocations(*one, &asked, &machine)).collect();
    let more = (args.cache_dir.clone(), args.more_flags.clone());
    let suite = SavedSuite::new(survey.host.clone(), asked, workloads, more, runs);
    let usual = || format!("results/suite-{}", compact_utc(facts.unix_s)).into();
    let directory = args.output_dir.clone().unwrap_or_else(usual);
    let Some(begun) = SavedSuite::read(&directory)? else { return Ok((directory, suite)) };
    let differences = suite.differences(&begun);
    if !differences.is_empty() {
        refuse!(
            "--output-dir {} holds a suite that was begun with other settings: {}; give another \
             directory, or --resume {} to go on with it",
            directory.display(),
            differences.join(", "),
            directory.display()
        );
    }
    Ok((directory, begun))
}

/// A run that is possible here.
struct Planned {
    name: String,
    /// The words after the program's name.
    arguments: Vec<String>,
    plan: Plan,
}

/// The runs that are possible here. Each is checked before the first begins.
fn plans(suite: &SavedSuite) -> Result<Vec<Planned>> {
    let possible = suite.invocations.iter().filter(|one| one.impossible.is_none());
    let plans = possible.map(|invocation| {
        let mut arguments = invocation.arguments();
        arguments.extend(suite.more_flags.iter().cloned());
        // The first word is the subcommand.
        let plan = run_args(arguments.iter().skip(1).cloned()).and_then(|args| plan_of(&args));
        let plan = plan.map_err(|error| in_run(&invocation.name, error))?;
        Ok(Planned { name: invocation.name.clone(), arguments, plan })
    });
    plans.collect()
}

fn job(planned: Planned) -> Job {
    let Planned { name, arguments, plan } = planned;
    let measured_s = plan.duration_s.saturating_add(plan.warmup_s) as f64;
    let expected_s = f64::from(plan.trials) * (measured_s + BESIDES_S);
    Job { is_bounded: is_bounded(&plan), ..Job::new(name, arguments, expected_s) }
}

fn in_run(name: &str, error: InputError) -> InputError {
    let sentences = error.sentences.into_iter();
    InputError { sentences: sentences.map(|one| format!("{name}: {one}")).collect() }
}

/// The settings that these flags give, and below them their file.
fn given_in(flags: &[String]) -> Result<Options, InputError> {
    let args = run_args(flags.iter().cloned())?;
    Ok(args.typed()?.over(file_of(&args)?.map(|file| file.options).unwrap_or_default()))
}

/// Describes the planned runs before the first begins.
fn outlook(suite: &SavedSuite, directory: &Path, plans: &[Planned]) -> String {
    let most =
        |of: fn(&Plan) -> u64| human(plans.iter().map(|run| of(&run.plan)).max().unwrap_or(0));
    let disk = most(|plan| system_disk::taken(plan).map_or(0, |taken| taken.bytes));
    let takes = format!("at most {disk} of disk and {} of memory", most(system_disk::memory_bytes));
    let data = suite.invocations.iter().flat_map(|one| &one.flags);
    let data = data
        .filter(|flag| flag.flag == "--cache-dir")
        .find_map(|flag| Some(format!("{}: {}", flag.value.as_ref()?, flag.reason)));
    format!(
        "Suite of {} runs; --seed 42 for all of them\n  {:<20} {}\n  {:<20} {}\n  {:<20} {}\n{}\n",
        suite.invocations.iter().filter(|one| one.impossible.is_none()).count(),
        "data",
        escape::terminal(&data.unwrap_or_else(|| "no run needs storage".to_owned())),
        "each run takes",
        takes,
        "results",
        escape::terminal_path(directory),
        suite_plan_page(&suite.invocations, &suite.more_flags)
    )
}

/// The row of an invocation that has ended, with what its result holds.
fn row_of(suite: &SavedSuite, ended: &Ended<'_>, baseline: Option<&Baseline>) -> Row {
    let invocation = suite.invocations.iter().find(|one| one.name == ended.job.name);
    let invocation = invocation.expect("the jobs are made of the invocations");
    let read = ResultFile::read_ours(&ended.output).map(|file| file.document);
    let end = match (ended.outcome, &read) {
        (Outcome::Failed(why), _) => End::Failed(why.clone()),
        (Outcome::Done, Err(problem)) => End::Failed(problem.to_string()),
        (Outcome::Done, Ok(_)) => End::Done,
    };
    let other = baseline.and_then(|other| other.documents.get(&invocation.name));
    Row::of(invocation, &end, read.ok().as_ref(), other)
}

/// Writes the tables, and a page for each run that has a result.
fn write_tables(
    table: &SuiteTable,
    plan: &SavedSuite,
    command_line: &[String],
    directory: &Path,
) -> Result<()> {
    let results = plan.invocations.iter().filter_map(|one| {
        // Why a run has no result is told in its row.
        let read = ResultFile::read_ours(&directory.join(format!("{}.json", one.name)));
        Some(Named { name: one.name.clone(), document: read.ok()?.document })
    });
    let results: Vec<Named> = results.collect();
    for named in &results {
        let page = directory.join(format!("{}.html", named.name));
        write_form(Some(&page), "the page of a run", |path| {
            write_html(std::slice::from_ref(named), path)
        })?;
    }
    let source = SuiteSource { plan, command_line, results: &results };
    let what = "the table";
    let sheet = format!("table.{SHEET_ENDING}");
    let [page, sheet, tables] = ["table.html", &sheet, "table"].map(|name| directory.join(name));
    let page = write_form(Some(&page), what, |path| write_suite_html(table, &source, path));
    let sheet = write_form(Some(&sheet), what, |path| write_suite_sheet(table, path));
    // Not beside the results, where `compare` and `report` would take it for one.
    let json = write_form(Some(&tables), what, |path| {
        HeldDirectory::make(path)?;
        write_json(table, &path.join("table.json"))
    });
    page.and(sheet).and(json)
}

/// Where everything is, if the tables are written, and how to go on.
fn left(report: &Report, directory: &Path, has_tables: bool) -> String {
    let shown = escape::terminal(&escape::shell(&directory.to_string_lossy()));
    let mut page = String::new();
    if has_tables {
        page.push_str(&format!(
            "  tables       {shown}/table.html, table.{SHEET_ENDING}, table/table.json\n"
        ));
    }
    if report.outcomes.iter().any(|outcome| *outcome != Some(Outcome::Done)) {
        page.push_str(&format!("  to go on     ringfall suite --resume {shown}\n"));
    }
    page
}
