use std::io::Read;

use ringfall_model::facts::{GpuOutcome, SimulationFigures};
use ringfall_model::testing::{busy, judged, nothing};
use ringfall_model::{Document, RunResult, SimulationReport};
use ringfall_workloads::contract::Class;

use super::*;
use crate::show::table::Cell;

fn named(document: Document) -> Named {
    Named { name: "d/a.json".into(), document }
}

fn cell_of<'a>(rows: &'a Table, result: usize, name: &str) -> &'a Cell {
    rows.cell(result, name).unwrap_or_else(|| panic!("no column {name}"))
}

/// The columns of the reference's workbook and of its converter, by who writes them.
fn reference_columns(writer: &str) -> Vec<&'static str> {
    let lines = include_str!("../../../../tests/data/reference_columns.tsv").lines();
    let rows = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
    rows.filter(|(by, _)| by.starts_with(writer)).map(|(_, column)| column).collect()
}

#[test]
fn every_column_of_the_reference_is_there_by_its_name_and_ours_come_after_them() {
    let rows = summary(&[named(Document::of(&busy()))]);
    let theirs = reference_columns("cli.py");
    assert_eq!(theirs.len(), 99);
    let names = rows.names();
    assert_eq!(names[0], "Filename");
    assert_eq!(names[1..=theirs.len()], theirs, "in the reference's order");
    let converter = reference_columns("json_to_xlsx.py");
    assert_eq!(converter.len(), 75);
    for column in &converter {
        let at = names.iter().position(|name| name == column).unwrap_or(usize::MAX);
        assert!(at <= theirs.len() + 2, "{column} is at {at}");
    }
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), names.len(), "each name once");
}

#[test]
fn the_columns_hold_the_values_of_the_document() {
    let mut result = judged();
    (0..30).for_each(|_| result.requests.record_unfinished(Class::Batch, 60_000_000_000));
    result.plan.seed = 42;
    result.plan.gpus = 2;
    let rows = summary(&[named(Document::of(&result))]);
    let cell = |name: &str| cell_of(&rows, 0, name).clone();
    for name in [
        "Model",
        "Num Users",
        "E2E Latency P99.99 (ms)",
        "Storage Tier Read Device P95 (ms)",
        "Storage Tier Write Host P99.9 (ms)",
        "Tier Storage Read Bandwidth (GiB/s)",
        "Multi-turn Hit Rate",
        "Precondition",
        "Precondition Size (GiB)",
        "Precondition Threads",
        "Storage Requests/sec",
        "Decode Bytes Read (GB)",
        "Device Total (MB/s)",
        "Time in Storage (share)",
    ] {
        assert_ne!(cell(name), Cell::Nothing, "{name}");
    }
    assert_eq!(cell("Filename"), Cell::Text("d/a.json".into()));
    assert_eq!(cell("Timestamp"), Cell::Text("2001-09-09 01:46:40".into()));
    assert_eq!(cell("Seed"), Cell::Number(42.0));
    assert_eq!(cell("GPU Memory per Card (GiB)"), Cell::Number(0.0));
    assert_eq!(cell("GPU Backend"), Cell::Nothing);
    assert_eq!(cell("Total Requests"), Cell::Number(3.0));
    assert_eq!(cell("Total I/O Time (s)"), Cell::Number(0.003));
    assert_eq!(cell("Health Criteria Passed"), Cell::Number(4.0));
    assert_eq!(cell("Mean Context (tokens)"), Cell::Number(10.0));
    assert_eq!(cell("Batch Requests Finished"), Cell::Number(1.0));
    assert_eq!(cell("Batch Requests Unfinished"), Cell::Number(30.0));
    let p95 = cell("Batch Requests P95 With Unfinished (ms)");
    assert!(matches!(&p95, Cell::Text(text) if text.starts_with("≥ 6")), "{p95:?}");
}

#[test]
fn a_run_that_was_interrupted_is_told_in_a_column() {
    let mut result = busy();
    result.interrupted = true;
    let documents = [Document::of(&busy()), Document::of(&result), Document::default()];
    let rows = summary(&documents.map(named));
    let cells = [0, 1, 2].map(|row| cell_of(&rows, row, "Interrupted").clone());
    assert_eq!(cells, [Cell::Flag(false), Cell::Flag(true), Cell::Nothing]);
}

#[test]
fn a_seed_that_no_number_of_a_spreadsheet_holds_keeps_its_digits() {
    let mut result = nothing();
    result.plan.seed = (1 << 53) + 1;
    let rows = summary(&[named(Document::of(&result))]);
    assert_eq!(*cell_of(&rows, 0, "Seed"), Cell::Text("9007199254740993".into()));
}

#[test]
fn csv_has_a_row_for_each_result_and_quotes_what_must_be() {
    let mut result = busy();
    result.plan.model = "odd, \"name\"".into();
    // What was not measured is empty, not 0; the reference's results do not say what was run.
    let results =
        [named(Document::of(&result)), named(Document::of(&nothing())), named(Document::default())];
    let text = String::from_utf8(summary(&results).csv().unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[0].starts_with("Filename,Timestamp,Model,Num Users,"));
    let row = "d/a.json,2001-09-09 01:46:40,\"odd, \"\"name\"\"\",4,";
    assert!(lines[1].starts_with(row), "{}", lines[1]);
    assert!(lines[2].contains(",,,"));
    assert!(lines[3].starts_with("d/a.json,,,,"), "{}", lines[3]);
}

#[test]
fn the_workbook_is_one_with_all_its_sheets() {
    let path = std::env::temp_dir().join(format!("ringfall-{}.xlsx", std::process::id()));
    let one = |document| vec![named(document)];
    // Two have the conclusion, and their ratios where they have a figure in common.
    let two = |other| vec![named(Document::of(&busy())), named(other)];
    let (alike, apart) = (two(Document::of(&busy())), two(Document::default()));
    for (results, sheets) in [
        (one(Document::of(&busy())), 7),
        (one(Document::of(&nothing())), 7),
        (alike, 4),
        (apart, 3),
    ] {
        write_sheet(&results, &path).unwrap();
        let mut bytes = Vec::new();
        std::fs::File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes.starts_with(b"PK"));
        // The sheets' files are named in the archive's directory, which is not compressed.
        let holds =
            |part: String| bytes.windows(part.len()).any(|window| window == part.as_bytes());
        assert!(holds(format!("xl/worksheets/sheet{sheets}.xml")), "{sheets}");
        assert!(!holds(format!("xl/worksheets/sheet{}.xml", sheets + 1)), "{sheets}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_column_says_that_a_run_was_simulated() {
    let mut result = busy();
    let cell = |result: &RunResult| {
        cell_of(&summary(&[named(Document::of(result))]), 0, "Simulated").clone()
    };
    assert_eq!(cell(&result), Cell::Nothing);
    let device = ("nvme".to_owned(), "measured".to_owned());
    let report = SimulationReport::of(
        device,
        SimulationFigures::default(),
        None,
        Err(String::new()),
        &result,
    );
    result.simulation = Some(report);
    let told = cell(&result);
    assert!(matches!(&told, Cell::Text(text) if text.contains("description nvme")), "{told:?}");
}

#[test]
fn a_column_says_what_stood_behind_the_gpu_tier() {
    let left_out = GpuOutcome::left_out(16, "no driver was found".to_owned());
    for (gpu, told) in
        [(GpuOutcome::simulated(16), "simulated: not a GPU's figures"), (left_out, "none")]
    {
        let mut result = busy();
        result.gpu = Some(gpu);
        let rows = summary(&[named(Document::of(&result))]);
        assert_eq!(cell_of(&rows, 0, "GPU Backend"), &Cell::Text(told.to_owned()));
    }
}
