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
    results configuration device roofline spreadsheet table burst_trace block_trace operations
    dataset validation compressed bpftrace iostat audit checkpoint suite
    journal ranks
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
