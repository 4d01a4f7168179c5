//! Fuzzing on stable Rust: every reader of files against mutated ones, a second each in `cargo
//! test` and as long as wanted by `tools/fuzz`.
//!
//! An input is read in a child process of limited memory, so that a panic, an abort, a stack that
//! overflows, a hang and an appetite for memory are all seen for what they are. What lives here:
//! the tests. `readers` is what is read, `mutate` makes the inputs, `child` is the process that
//! reads, `parent` the one that watches it. `corpus/READER/` holds inputs to begin with and,
//! under telling names, those that once did harm: all are read before anything is mutated.

mod child;
mod mutate;
mod parent;
mod readers;

use std::time::Duration;

use parent::{Defect, Plan, fuzz, probe};

/// One test a reader; each takes as long as it is told to.
macro_rules! readers {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                fuzz(stringify!($name), &Plan::from_environment());
            }
        )*

        #[test]
        fn every_reader_has_a_corpus_and_a_test() {
            let tested = [$(stringify!($name)),*];
            let known: Vec<&str> = readers::READERS.iter().map(|reader| reader.name).collect();
            assert_eq!(tested[..], known[..]);
            for name in known {
                assert!(!parent::corpus(name).is_empty(), "{name}");
            }
        }
    };
}

readers! {
    results configuration device quick roofline spreadsheet table burst_trace block_trace
    prompt_blocks operations recording
    dataset validation compressed bpftrace iostat audit metadata profile answer
    checkpoint suite
    journal ranks upload
}

/// Words by which a source takes text or bytes from outside.
const READING: [&str; 6] = [
    "serde_json::from_",
    "serde_saphyr::from_",
    "open_to_read(",
    "open_plain(",
    "read_text(",
    "fs::read(",
];

/// The sources in which one of them stands, and what reads each: a reader, or why there is none.
const SOURCES_THAT_READ: [(&str, &str); 34] = [
    ("src/batch/journal.rs", "journal"),
    ("src/commands/mlperf/rank.rs", "none: it copies what others read"),
    ("src/commands/run/together.rs", "results"),
    ("src/config/device_file.rs", "device"),
    ("src/config/file.rs", "configuration"),
    ("src/config/reference/mod.rs", "configuration"),
    ("src/config/table.rs", "none: it reads the defaults that stand beside it"),
    ("src/foreign/audit/json.rs", "audit"),
    ("src/foreign/audit/log.rs", "audit"),
    ("src/foreign/iostat.rs", "iostat"),
    ("src/foreign/mlperf/metadata.rs", "metadata"),
    ("src/foreign/mlperf/published.rs", "none: the table that stands beside it"),
    ("src/foreign/mlperf/shim.rs", "none: it looks for a mark of its own in the first bytes"),
    ("src/host/pipe.rs", "none: it opens what the others read"),
    ("src/model/document/damage.rs", "results"),
    ("src/model/document/derive.rs", "results"),
    ("src/model/document/histograms.rs", "results"),
    ("src/model/document/kept.rs", "results"),
    ("src/model/document/read.rs", "results"),
    ("src/report/quick/read.rs", "quick"),
    ("src/report/show/sheet/meaning.rs", "none: the schema that the program itself holds"),
    ("src/report/suite/saved.rs", "suite"),
    ("src/running/blocktrace/parse.rs", "bpftrace"),
    ("src/running/checkpoint/commit.rs", "checkpoint"),
    ("src/running/checkpoint/file.rs", "checkpoint"),
    ("src/running/datagen/file.rs", "none: it compares a file with content, byte by byte"),
    ("src/running/group/card.rs", "ranks"),
    ("src/running/group/directory.rs", "ranks"),
    ("src/running/group/mod.rs", "ranks"),
    ("src/running/group/sent.rs", "ranks"),
    ("src/running/objects/profile.rs", "profile"),
    ("src/running/objects/upload.rs", "upload"),
    ("src/running/saturate/roofline.rs", "roofline"),
    ("src/running/source/files.rs", "burst_trace"),
];

/// A reader that nobody thought of is missing from every list but the sources themselves.
#[test]
fn every_source_that_reads_is_read_here_too() {
    let mut found: Vec<String> = Vec::new();
    for (name, text) in crate::tidy::sources("src") {
        let code: String = text.split("mod tests {").next().unwrap_or_default().to_owned();
        let mut lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        // A type that has its own way to be read is handed the deserializer of whoever reads.
        let is_second = |line: &str| {
            line.contains("::deserialize(") && !line.contains("::deserialize(deserializer)")
        };
        let is_first = |line: &str| READING.iter().any(|word| line.contains(word));
        let reads = lines.any(|line| is_first(line) || is_second(line));
        if reads && !name.ends_with("test.rs") && !name.ends_with("tests.rs") {
            found.push(name);
        }
    }
    found.sort();
    assert_eq!(found, SOURCES_THAT_READ.map(|(name, _)| name), "left: those that read");
    for (name, reader) in SOURCES_THAT_READ {
        let is_known = readers::READERS.iter().any(|known| known.name == reader);
        assert!(is_known || reader.starts_with("none: "), "{name}: there is no reader {reader}");
    }
}

/// Long enough for anything but a hang.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_child_process_reads() {
    match std::env::var(child::READER) {
        Ok(name) => child::serve(&name),
        // Not such a child: then one must answer, and end when there is nothing more to read.
        Err(_) => assert_eq!(probe("test_fine", b"x", PATIENCE), Ok("fine".to_owned())),
    }
}

#[test]
fn every_kind_of_harm_is_seen() {
    let of = |reader, patience| probe(reader, b"x", patience).unwrap_err();
    assert!(matches!(of("test_panics", PATIENCE), Defect::Panic(what) if what.contains("as told")));
    for reader in ["test_aborts", "test_overflows", "test_devours"] {
        assert!(matches!(of(reader, PATIENCE), Defect::Died(_)), "{reader}");
    }
    assert_eq!(of("test_hangs", Duration::from_millis(200)), Defect::Hang);
}
