use std::io::Read;

use ringfall_workloads::contract::Class;

use super::*;
use crate::results::tests::{busy, nothing};

#[test]
fn the_reference_columns_are_there_with_the_values_of_the_document() {
    let mut result = busy();
    (0..30).for_each(|_| result.requests.record_unfinished(Class::Batch, 60_000_000_000));
    let document = Document::of(&result);
    let all: Vec<(String, Cell)> =
        parameters(&document).into_iter().chain(metrics(&document)).collect();
    let cell =
        |name: &str| all.iter().find(|(column, _)| column == name).map(|(_, cell)| cell.clone());
    for name in [
        "Model",
        "Num Users",
        "Total Requests",
        "Avg Throughput (tok/s)",
        "E2E Latency P99.99 (ms)",
        "Storage Tier Read Device P95 (ms)",
        "Storage Tier Write Host P99.9 (ms)",
        "Tier Storage Read Bandwidth (GiB/s)",
        "Multi-turn Hit Rate",
    ] {
        assert!(cell(name).is_some_and(|cell| cell != Cell::Nothing), "{name}");
    }
    assert_eq!(cell("Total Requests"), Some(Cell::Number(3.0)));
    assert_eq!(cell("Batch Requests Finished"), Some(Cell::Number(1.0)));
    assert_eq!(cell("Batch Requests Unfinished"), Some(Cell::Number(30.0)));
    let p95 = cell("Batch Requests P95 With Unfinished (ms)");
    assert!(matches!(&p95, Some(Cell::Text(text)) if text.starts_with("≥ 6")), "{p95:?}");
    let mut names: Vec<&String> = all.iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all.len(), "each name once");
}

#[test]
fn csv_has_one_row_and_quotes_what_must_be() {
    let mut result = busy();
    result.plan.model = "odd, \"name\"".into();
    let text = String::from_utf8(csv::bytes(&Document::of(&result)).unwrap()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("Model,Num Users,"));
    assert!(lines[1].starts_with("\"odd, \"\"name\"\"\",4,"), "{}", lines[1]);
    // What was not measured is empty, not 0.
    let text = String::from_utf8(csv::bytes(&Document::of(&nothing())).unwrap()).unwrap();
    assert!(text.lines().nth(1).unwrap().contains(",,,"));
}

#[test]
fn the_workbook_is_one_with_all_its_sheets() {
    let path = std::env::temp_dir().join(format!("ringfall-{}.xlsx", std::process::id()));
    for result in [busy(), nothing()] {
        write_sheet(&Document::of(&result), &path).unwrap();
        let mut bytes = Vec::new();
        std::fs::File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes.starts_with(b"PK"));
        // The sheets' files are named in the archive's directory, which is not compressed.
        for part in ["xl/worksheets/sheet6.xml", "xl/workbook.xml"] {
            assert!(bytes.windows(part.len()).any(|window| window == part.as_bytes()), "{part}");
        }
    }
    std::fs::remove_file(&path).unwrap();
}
