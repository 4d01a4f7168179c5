use ringfall_model::metrics::DECODE_READ;

use super::*;

const FAST: &[u8] = include_bytes!("../../../tests/data/discovery_fast.xlsx");
const SLOW: &[u8] = include_bytes!("../../../tests/data/discovery_slow.xlsx");
const SLOW_CSV: &[u8] = include_bytes!("../../../tests/data/discovery_slow.csv");

fn error_of(read: Result<Collection, FileProblem>) -> String {
    read.unwrap_err().to_string()
}

fn csv_error(text: &str) -> String {
    error_of(csv(Path::new("a.csv"), text.as_bytes()))
}

#[test]
fn the_published_spreadsheets_are_read_whole() {
    assert_eq!(xlsx(Path::new("f"), FAST.to_vec()).unwrap().runs.len(), 1411);
    let slow = xlsx(Path::new("s"), SLOW.to_vec()).unwrap().runs;
    let same = csv(Path::new("s"), SLOW_CSV).unwrap().runs;
    assert_eq!((slow.len(), same.len()), (268, 268));
    for (left, right) in slow.iter().zip(&same) {
        assert_eq!(left.configuration, right.configuration);
        assert_eq!(left.values, right.values);
    }
    let decode = METRICS.iter().position(|metric| metric.key == DECODE_READ).unwrap();
    assert_eq!(slow[0].values[decode], Some(Value::exact(498.582_519_531_25)));
}

#[test]
fn rows_that_make_no_sense_are_named() {
    let head = "Filename,Decode Bytes Read (GB)\n";
    let good = "a_m_cpu0GB_qd0_gennone_users5.json";
    assert!(csv_error("").contains("Filename"));
    assert!(csv_error("File,Decode Bytes Read (GB)\n").contains("Filename"));
    assert!(csv_error(head).contains("no row of a complete run"));
    assert!(csv_error("Filename,Nonsense\nx,1\n").contains("no column of a metric"));
    let text = csv_error(&format!("{head}{good},1\nwhat.json,2\n"));
    assert!(text.contains("row 3") && text.contains("what.json"), "{text}");
    let text = csv_error(&format!("{head}{good},lots\n"));
    assert!(text.contains("row 2") && text.contains("lots"), "{text}");
    assert!(csv_error(&format!("{head}{good},inf\n")).contains("inf"));
    assert!(csv_error(&format!("{head}{good},1,2\n")).contains("CSV"));
    assert!(error_of(csv(Path::new("a"), b"Filename,\xff\xfe\n")).contains("CSV"));
}

#[test]
fn a_figure_that_was_not_measured_is_absent() {
    let text = "\u{feff}Filename,Decode Bytes Read (GB),Cache Hit Rate\n\
                a_m_cpu0GB_qd0_gennone_users5.json,N/A,0.5\n,,\n";
    let runs = csv(Path::new("a"), text.as_bytes()).unwrap().runs;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].values.iter().flatten().collect::<Vec<_>>(), [&Value::exact(0.5)]);
    assert_eq!((runs[0].load.hit_rates.reads, runs[0].load.is_row), (Some(0.5), true));
}

/// A sheet of a directory had the averages of its complete runs and of its interrupted ones.
#[test]
fn an_interrupted_run_of_a_table_is_named_and_does_not_count() {
    let name = |users: u32| format!("a_m_cpu0GB_qd0_gennone_users{users}.json");
    let text = format!(
        "Filename,Decode Bytes Read (GB),Interrupted\n{},1,true\n{},2,false\n{},3,\n",
        name(5),
        name(6),
        name(7)
    );
    let rows = csv(Path::new("a.csv"), text.as_bytes()).unwrap();
    assert_eq!(rows.left_out, [LeftOut { path: name(5).into(), why: INTERRUPTED }]);
    assert_eq!(rows.runs.len(), 2);
    let none = text.lines().take(2).collect::<Vec<_>>().join("\n");
    assert!(csv_error(&none).contains("no row of a complete run"));
}

/// A damaged spreadsheet is an error or, where the damage hit nothing that is read, the same rows;
/// never a panic.
#[test]
fn damaged_spreadsheets_are_told() {
    let whole = SLOW.len();
    for keep in [0, 1, 100, whole / 2, whole - 30, whole - 1] {
        let error = error_of(xlsx(Path::new("cut.xlsx"), SLOW[..keep].to_vec()));
        assert!(error.starts_with("cut.xlsx: ") && error.contains("xlsx"), "{error}");
    }
    for at in (0..whole).step_by(whole / 150) {
        let mut bytes = SLOW.to_vec();
        bytes[at] ^= 0x55;
        if let Ok(rows) = xlsx(Path::new("flipped.xlsx"), bytes) {
            assert_eq!(rows.runs.len(), 268, "at {at}");
        }
    }
    let error = error_of(xlsx(Path::new("text.xlsx"), b"not a zip".to_vec()));
    assert!(error.contains("xlsx"), "{error}");
}
