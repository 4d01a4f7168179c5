//! `ringfall datagen`: content analyzed, written and compared.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::Result;
use ringfall_config::InputError;
use ringfall_core::fill::{ContentName, NamedContent};
use ringfall_core::key::EntryKey;
use ringfall_core::units::{BLOCK_BYTES, GIB, MIB, gib, round_up_to_block};
use ringfall_host::escape::{terminal, terminal_path};
use ringfall_host::exit::Exit;
use ringfall_host::interrupt::Interrupt;
use ringfall_host::outlet::Stream;
use ringfall_host::{ProgressLine, Room, counted, human};
use ringfall_report::show::table::{Table, fixed};
use ringfall_running::datagen::{
    Analysis, AnalyzeSettings, DatagenError, Item, analyze, items_of, verify_file, write_file,
};
use serde::Serialize;

use super::run::check_output_writable;
use super::{interrupt, write_result};
use crate::cli::{DatagenAnalyzeArgs, DatagenArgs, DatagenCommand, DatagenFileArgs, ShapeArgs};

/// Smallest and largest block among which duplicates are counted, bytes.
const COUNTED_BLOCK_BYTES: (u64, u64) = (512, 16 * MIB);

/// Analyzes, writes or compares content, as asked.
pub fn run(args: &DatagenArgs) -> Result<Exit> {
    let interrupt = interrupt()?;
    let done = match &args.command {
        DatagenCommand::Analyze(args) => look(args, &interrupt),
        DatagenCommand::Write(args) => write(args, &interrupt),
        DatagenCommand::Verify(args) => verify(args, &interrupt),
    };
    done.or_else(|error| match error.downcast_ref::<DatagenError>() {
        Some(DatagenError::Interrupted) => {
            ringfall_host::stderr::tell(format_args!("interrupted: nothing was left half-done"));
            Ok(Exit::Interrupted)
        }
        Some(DatagenError::Lacks(what)) => Err(InputError::new(what.clone()).into()),
        _ => Err(error),
    })
}

/// An analysis's result.
#[derive(Serialize)]
struct AnalysisResult {
    format: &'static str,
    format_version: u32,
    ringfall_version: &'static str,
    source: Vec<String>,
    elapsed_s: f64,
    #[serde(flatten)]
    analysis: Analysis,
}

fn look(args: &DatagenAnalyzeArgs, interrupt: &Interrupt) -> Result<Exit> {
    if let Some(output) = &args.output {
        check_output_writable("--output", output)?;
    }
    let block_bytes = block_sizes(args)?;
    let memory_bytes = args.memory_mib * MIB;
    if let Some(memory) = Room::look().lacks(memory_bytes) {
        refuse!(
            "--memory-mib {}: {} are left ({}); give less",
            args.memory_mib,
            human(memory.bytes),
            memory.source
        );
    }
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let settings = AnalyzeSettings {
        block_bytes,
        memory_bytes,
        exact: args.exact,
        sample_percent: args.sample_percent,
        threads: args.threads.unwrap_or(cores),
    };
    let (items, source) = match args.generated_gib {
        Some(size_gib) => {
            let (content, bytes) = content(&args.shape, size_gib);
            let source = format!("content that ringfall makes, seed {}", args.shape.seed);
            (vec![Item::Content { content, bytes }], vec![source])
        }
        None => {
            let shown = args.paths.iter().map(|path| path.display().to_string());
            (items_of(&args.paths)?, shown.collect())
        }
    };
    if let Some(output) = &args.output {
        super::refuse_input("--output", output, items.iter().filter_map(Item::path))?;
    }
    let line = Line::new(args.json);
    let began = Instant::now();
    let analysis = analyze(&items, &settings, &|done, all| {
        line.show(|| {
            let rate = gib(done) / began.elapsed().as_secs_f64().max(1e-9);
            format!("analyzing: {:.2} of {:.2} GiB, {rate:.2} GiB/s", gib(done), gib(all))
        });
        !interrupt.is_set()
    })?;
    line.end();
    let result = AnalysisResult {
        format: "ringfall-datagen-analysis",
        format_version: 1,
        ringfall_version: env!("CARGO_PKG_VERSION"),
        source,
        elapsed_s: began.elapsed().as_secs_f64(),
        analysis,
    };
    let written = write_result(&result, args.output.as_deref());
    // What was found is shown also when it could not be kept.
    let shown = super::show(&result, args.json, args.json, || analysis_page(&result));
    written.and(shown).map(|()| Exit::Done)
}

fn block_sizes(args: &DatagenAnalyzeArgs) -> Result<Vec<u64>, InputError> {
    let mut sizes: Vec<u64> = args.block_sizes.iter().map(|size| size.0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (least, most) = COUNTED_BLOCK_BYTES;
    let is_wrong = |size: &&u64| !size.is_power_of_two() || !(least..=most).contains(*size);
    let wrong = sizes.iter().find(is_wrong);
    match wrong {
        None => Ok(sizes),
        Some(size) => refuse!("--block-sizes {size}: give powers of two from 512 to 16m"),
    }
}

fn analysis_page(result: &AnalysisResult) -> String {
    let Analysis { files, bytes, passes, duplicates, packed } = &result.analysis;
    let rate = gib(bytes * passes) / result.elapsed_s.max(1e-9);
    let passes = if *passes == 1 { String::new() } else { format!(", read {passes} times") };
    let source: Vec<String> = result.source.iter().map(|source| terminal(source)).collect();
    let table = Table::of(duplicates)
        .text("block", |size| block_name(size.block_bytes))
        .count("blocks", |size| size.blocks)
        .count("duplicates", |size| size.blocks.saturating_sub(size.distinct))
        .number("ratio", fixed(3), |size| size.dedupe_ratio)
        .count("zeros", |size| size.zeros)
        .text(" counted", |size| match size.exact {
            true => " exactly".to_owned(),
            false => {
                format!(" 1 in {}, ± {:.2} %", size.sampled_one_in, size.distinct_error_percent)
            }
        })
        .widths(&[10, 14, 14, 10, 12]);
    format!(
        "{}: {:.3} GiB in {}{passes}, {rate:.2} GiB/s\n{}  compressed in units of {}: zstd -1 \
         {}, LZ4 {}; entropy {} bits a byte\n",
        source.join(", "),
        gib(*bytes),
        counted(*files as u64, "file"),
        table.done().page(),
        human(packed.unit_bytes as u64),
        shown(packed.zstd_ratio),
        shown(packed.lz4_ratio),
        shown(packed.entropy_bits)
    )
}

fn block_name(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..MIB => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

fn shown(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.3}"))
}

fn content(shape: &ShapeArgs, size_gib: f64) -> (NamedContent, u64) {
    let bytes = round_up_to_block((size_gib * GIB as f64) as u64).max(4096);
    let name = ContentName { seed: shape.seed, key: EntryKey(0), version: 0 };
    (NamedContent::new(name, bytes, &shape.content.shape), bytes)
}

fn write(args: &DatagenFileArgs, interrupt: &Interrupt) -> Result<Exit> {
    let (content, bytes) = content(&args.shape, args.size_gib);
    let line = Line::new(false);
    let began = Instant::now();
    write_file(&args.path, &content, bytes, args.overwrite, &|done| {
        line.show(|| format!("writing: {:.2} of {:.2} GiB", gib(done), gib(bytes)));
        !interrupt.is_set()
    })?;
    line.end();
    super::print(&format!(
        "{}: {:.3} GiB in {:.2} s\n",
        terminal_path(&args.path),
        gib(bytes),
        began.elapsed().as_secs_f64()
    ))
}

fn verify(args: &DatagenFileArgs, interrupt: &Interrupt) -> Result<Exit> {
    let (content, bytes) = content(&args.shape, args.size_gib);
    let line = Line::new(false);
    let checked = verify_file(&args.path, &content, bytes, &|done| {
        line.show(|| format!("comparing: {:.2} of {:.2} GiB", gib(done), gib(bytes)));
        !interrupt.is_set()
    })?;
    line.end();
    let shown = terminal_path(&args.path);
    match checked.first_bad_block {
        None => super::print(&format!(
            "{shown}: {} of 4 KiB, 0 bad\n",
            counted(checked.blocks_checked, "block")
        )),
        Some(block) => Err(anyhow::anyhow!(
            "{} of {} blocks of {shown} are not what `datagen write` writes with these flags, the \
             first at offset {}: give the flags with which it was written, or look at dmesg",
            checked.blocks_bad,
            checked.blocks_checked,
            block * BLOCK_BYTES
        )),
    }
}

/// Progress of several threads, on a terminal alone.
struct Line(Mutex<ProgressLine>);

impl Line {
    fn new(is_quiet: bool) -> Line {
        Line(Mutex::new(ProgressLine::new(Stream::Err, is_quiet, None)))
    }

    fn show(&self, text: impl FnOnce() -> String) {
        // Who finds it locked leaves it to whoever shows.
        if let Ok(mut line) = self.0.try_lock() {
            line.show_if_due(text);
        }
    }

    fn end(self) {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
