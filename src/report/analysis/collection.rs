//! A collection of runs: a directory of JSON results, or a spreadsheet (.xlsx, .csv) with a row a
//! run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[cfg(not(feature = "xlsx"))]
use ringfall_config::Part;
use ringfall_foreign::iostat;
use ringfall_model::configuration::Configuration;
use ringfall_model::document;
use ringfall_model::document::{FileProblem, Kind, ResultFile, files, json_files};
use ringfall_model::metrics::{DEVICE_READ, DEVICE_TOTAL, METRICS};
use ringfall_model::trust::Situation;
use serde::Serialize;

use super::compare::{HitRates, Load, Value, gpus_told};
#[cfg(feature = "xlsx")]
use super::spreadsheet;

/// Column of a spreadsheet that says which run a row is.
const NAME_COLUMN: &str = "Filename";
/// Cell contents, in lower case, that stand for a figure that was not measured.
const ABSENT: [&str; 6] = ["", "n/a", "na", "nan", "none", "null"];

/// Reason for which an interrupted run is left out.
const INTERRUPTED: &str = "the run was interrupted";

/// One complete run of a system, with its configuration.
#[derive(Clone, Debug)]
pub struct Run {
    /// Configuration of the run; `None` where nothing states it. Such runs are one group.
    pub configuration: Option<Configuration>,
    /// Measured values, in the order of [`METRICS`]; finite.
    pub(super) values: Vec<Option<Value>>,
    /// Load that the values are of.
    pub(super) load: Load,
}

/// The runs of one system.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    /// The directory or spreadsheet that the runs were read from.
    pub path: PathBuf,
    /// The runs that count, at least one.
    pub runs: Vec<Run>,
    /// Results that are no complete single run, or not to be relied on, and why they were left out.
    pub left_out: Vec<LeftOut>,
    /// Runs whose configuration is that of the published invocation that they are named after.
    pub by_invocation: usize,
    /// Runs of which nothing says what was run.
    pub unnamed: usize,
    /// Runs with a file of iostat's beside them.
    pub with_iostat: usize,
    /// Runs that were simulated, in which no drive moved a byte.
    pub simulated: usize,
}

/// A result that doesn't count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// The file that was left out.
    pub path: PathBuf,
    /// Why it was left out, as a clause for the report.
    pub why: &'static str,
}

impl Collection {
    /// Reads the collection at `path`.
    ///
    /// # Errors
    /// The first file that can't be understood, or that there is none.
    pub fn read(path: &Path) -> Result<Collection, FileProblem> {
        let metadata =
            std::fs::metadata(path).map_err(|error| FileProblem::new(path, error.to_string()))?;
        if metadata.is_dir() {
            return directory(path);
        }
        let extension =
            path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        let what = match extension.as_deref() {
            Some("xlsx") => return xlsx(path, read_bytes(path)?),
            Some("csv") => return csv(path, &read_bytes(path)?),
            Some("json") => {
                // What is wrong with the file comes first.
                let _single = ResultFile::read(path)?;
                "this is a single result, and the other is a collection: give two directories of \
                 results, or two single ones"
            }
            _ => {
                "this is not a collection of runs; give a directory of JSON results, an .xlsx or a \
                 .csv file"
            }
        };
        Err(FileProblem::new(path, what))
    }
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, FileProblem> {
    document::read_bytes(path).map_err(|what| FileProblem::new(path, what))
}

fn directory(path: &Path) -> Result<Collection, FileProblem> {
    let mut whole = Collection { path: path.to_owned(), ..Collection::default() };
    let logs = files(path, iostat::is_named_so)?;
    for file in json_files(path, iostat::is_named_so)? {
        let result = ResultFile::read(&file)?;
        let values: Vec<Option<Value>> =
            METRICS.iter().map(|metric| Value::of(metric, &result.document)).collect();
        let load = Load::of(&result);
        let why = incomplete(&result).or(unreliable(&load));
        let empty = values.iter().all(Option::is_none).then_some("it holds no figure to compare");
        if let Some(why) = why.or(empty) {
            whole.left_out.push(LeftOut { path: file, why });
            continue;
        }
        whole.add(&result, values, load, iostat::beside(&file, &logs))?;
    }
    if whole.runs.is_empty() {
        let what = "the directory holds no results of complete single runs (*.json)";
        return Err(FileProblem::new(path, what));
    }
    Ok(whole)
}

impl Collection {
    /// Takes in a result of a directory, and what iostat counted beside it where the result itself
    /// has no counters of the kernel.
    fn add(
        &mut self,
        result: &ResultFile,
        mut values: Vec<Option<Value>>,
        load: Load,
        log: Option<&PathBuf>,
    ) -> Result<(), FileProblem> {
        let name = result.path.file_name().unwrap_or_default().to_string_lossy();
        let said = Configuration::from_result(&result.document)
            .or_else(|| Configuration::from_file_name(&name));
        let named = || Configuration::from_invocation(&name);
        let configuration = match said.is_some() {
            true => said,
            false => named().inspect(|_| self.by_invocation += 1),
        };
        self.unnamed += usize::from(configuration.is_none());
        self.simulated += usize::from(result.document.ringfall.simulation.is_some());
        if let Some(log) = log {
            let rates = iostat::read_rates(log)?;
            self.with_iostat += 1;
            for (key, rate) in
                [(DEVICE_READ, rates.read_mb_per_s), (DEVICE_TOTAL, rates.total_mb_per_s)]
            {
                let place = METRICS.iter().position(|metric| metric.key == key);
                if let Some(value) = place.and_then(|place| values.get_mut(place)) {
                    value.get_or_insert(Value::exact(rate));
                }
            }
        }
        self.runs.push(Run { configuration, values, load });
        Ok(())
    }
}

/// Why a result can't be averaged with others; `None`: it can.
fn incomplete(result: &ResultFile) -> Option<&'static str> {
    let window = &result.document.ringfall.window;
    if result.kind() == Kind::Merged {
        // Its runs may be here too, and would count twice.
        Some("it sums up several runs")
    } else if window.interrupted.known() == Some(true) {
        Some(INTERRUPTED)
    } else if !window.failure.is_unknown() {
        Some("the run failed")
    } else {
        None
    }
}

/// Why the figures of a result can't be relied on; `None`: they can.
fn unreliable(load: &Load) -> Option<&'static str> {
    if load.blocks_bad > 0 {
        Some("blocks were read back wrong")
    } else {
        load.contradiction.as_ref().map(|_| "the result contradicts itself")
    }
}

fn unnamed(name: &str) -> String {
    format!(
        "what was run can't be told: the result doesn't hold its configuration, and the name \
         {name:?} is not like …_MODEL_cpuNGB_qdN_genMODE_usersN.json"
    )
}

/// Runs that a table may have: a hundred times what anybody has measured.
const RUNS_MAX: usize = 200_000;
/// Separators of a .csv file, which are as many as its cells.
const SEPARATORS_MAX: usize = 4_000_000;

/// Cells of one row, by column.
pub(super) type Row = BTreeMap<u32, String>;

#[cfg(not(feature = "xlsx"))]
fn xlsx(path: &Path, _bytes: Vec<u8>) -> Result<Collection, FileProblem> {
    Err(FileProblem::new(path, Part::Workbooks.refusal()))
}

#[cfg(feature = "xlsx")]
fn xlsx(path: &Path, bytes: Vec<u8>) -> Result<Collection, FileProblem> {
    let is_wanted = |header: &Row| header.values().any(|title| title.trim() == NAME_COLUMN);
    let Some(rows) = spreadsheet::rows(path, bytes, is_wanted)? else {
        let what = format!("no sheet has a column {NAME_COLUMN:?} in its first row");
        return Err(FileProblem::new(path, what));
    };
    let mut rows = rows.into_iter();
    let header = rows.next().map(|(_, header)| header).unwrap_or_default();
    table(path, &header, rows.map(Ok))
}

fn csv(path: &Path, bytes: &[u8]) -> Result<Collection, FileProblem> {
    let unreadable =
        |error: csv::Error| FileProblem::new(path, format!("it can't be read as CSV: {error}"));
    // Spreadsheet programs write a mark of the encoding first.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let separators = bytes.iter().filter(|byte| matches!(byte, b',' | b'\n')).count();
    if separators > SEPARATORS_MAX {
        let what = format!(
            "it has {separators} cells, and at most {SEPARATORS_MAX} are read; give a part of its \
             rows"
        );
        return Err(FileProblem::new(path, what));
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes);
    let mut rows = reader.records().map(|record| {
        let record = record.map_err(unreadable)?;
        let line = record.position().map_or(0, csv::Position::line);
        Ok((line, (0..).zip(record.iter().map(str::to_owned)).collect::<Row>()))
    });
    let header = rows.next().transpose()?.map(|(_, header)| header).unwrap_or_default();
    if !header.values().any(|title| title.trim() == NAME_COLUMN) {
        let what = format!("the first line has no column {NAME_COLUMN:?}");
        return Err(FileProblem::new(path, what));
    }
    table(path, &header, rows)
}

/// The runs of a table whose header has a column of names.
fn table(
    path: &Path,
    header: &Row,
    rows: impl Iterator<Item = Result<(u64, Row), FileProblem>>,
) -> Result<Collection, FileProblem> {
    let column = |title: &str| header.iter().find(|(_, t)| t.trim() == title).map(|(at, _)| *at);
    let columns: Vec<Option<u32>> = METRICS
        .iter()
        .map(|metric| metric.columns.iter().find_map(|title| column(title)))
        .collect();
    if columns.iter().all(Option::is_none) {
        let what = "it has no column of a metric, such as \"Decode Bytes Read (GB)\"";
        return Err(FileProblem::new(path, what));
    }
    let mut kept = Collection { path: path.to_owned(), ..Collection::default() };
    for row in rows {
        let (line, cells) = row?;
        let text = |at: u32| cells.get(&at).map_or("", |text| text.trim());
        let name = column(NAME_COLUMN).map_or("", text);
        if name.is_empty() && cells.values().all(|cell| cell.trim().is_empty()) {
            continue;
        }
        let configuration = Configuration::from_file_name(name)
            .or_else(|| said_in_row(&|title| column(title).map(text)))
            .or_else(|| Configuration::from_invocation(name))
            .ok_or_else(|| FileProblem::new(path, format!("row {line}: {}", unnamed(name))))?;
        let mut values = Vec::with_capacity(METRICS.len());
        for (at, metric) in columns.iter().zip(METRICS) {
            let text = at.map_or("", text);
            let value = number(text).map_err(|()| {
                let title = metric.columns.first().copied().unwrap_or(metric.key);
                FileProblem::new(
                    path,
                    format!("row {line}, {title:?}: {text:?} is not a number of 0 or more"),
                )
            })?;
            values.push(value.map(Value::exact));
        }
        let load = load_in_row(&configuration, &|title| column(title).map(text));
        let is_interrupted = column("Interrupted").map_or("", text).eq_ignore_ascii_case("true");
        match is_interrupted {
            true => kept.left_out.push(LeftOut { path: name.into(), why: INTERRUPTED }),
            false => kept.runs.push(Run { configuration: Some(configuration), values, load }),
        }
        if kept.runs.len() + kept.left_out.len() > RUNS_MAX {
            let what = format!("it has more than {RUNS_MAX} runs; give a part of its rows");
            return Err(FileProblem::new(path, what));
        }
    }
    if kept.runs.is_empty() {
        return Err(FileProblem::new(path, "it has a header, but no row of a complete run"));
    }
    Ok(kept)
}

/// The load in the columns that sheets of ringfall and of the reference have for it.
fn load_in_row<'a>(configuration: &Configuration, cell: &dyn Fn(&str) -> Option<&'a str>) -> Load {
    let figure = |title: &str| number(cell(title)?).ok().flatten();
    let gpus = figure("GPU Memory per Card (GiB)").map(|gib_each| {
        let count = |title: &str| figure(title).unwrap_or(0.0);
        gpus_told(gib_each, count("Num GPUs"), count("Tensor Parallel"))
    });
    let window_s = figure("Elapsed Time (s)");
    Load {
        gpus,
        hit_rates: HitRates {
            looks: None,
            earlier_turns: figure("Multi-turn Hit Rate"),
            reads: figure("Cache Hit Rate"),
            counts: None,
        },
        // 0 stands for what was free.
        storage_gib: figure("Storage Capacity (GiB)").filter(|&gib| gib > 0.0),
        windows_s: window_s.into_iter().collect(),
        situation: Some(Situation {
            seconds: window_s,
            ..Situation::of_configuration(configuration)
        }),
        seeds: cell("Seed").and_then(|seed| Some(vec![seed.parse().ok()?])),
        is_row: true,
        ..Load::of_configuration(configuration)
    }
}

/// The configuration in the columns that sheets of ringfall and of the reference have for it.
fn said_in_row<'a>(cell: &dyn Fn(&str) -> Option<&'a str>) -> Option<Configuration> {
    let number = |title: &str| cell(title)?.parse::<f64>().ok().filter(|n| VALUES.contains(n));
    let text = |title: &str| Some(cell(title)?.to_owned()).filter(|text| !text.is_empty());
    // Numbers from 0 to 10¹⁸, which 64 bits hold.
    let count = |title: &str| number(title).map(|n| n.round() as u64);
    let gib = number("CPU Memory (GiB)").or_else(|| number("CPU Memory (GB)"))?;
    Some(Configuration {
        cpu_memory_mib: (gib * 1024.0).min(1e18).ceil() as u64,
        model: text("Model")?,
        users: count("Num Users")?,
        max_concurrent_allocs: count("Max Concurrent Allocs")?,
        generation_mode: text("Generation Mode")?,
    })
}

/// Range of a metric's values; all count or measure something.
const VALUES: std::ops::RangeInclusive<f64> = 0.0..=1e18;

fn number(text: &str) -> Result<Option<f64>, ()> {
    if ABSENT.contains(&text.to_ascii_lowercase().as_str()) {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(value) if VALUES.contains(&value) => Ok(Some(value)),
        _ => Err(()),
    }
}

#[cfg(test)]
#[path = "collection_test.rs"]
mod tests;
