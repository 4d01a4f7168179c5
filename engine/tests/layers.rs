//! Test that no sentence of this library names a flag: it knows nothing of the program around it.
//! The directions between its folders are held beside those of the program, by
//! `tests/tidy_directions.rs`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Words such as `--shards`, comments included: those of a library speak of its settings.
fn flags(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let is_flag = |word: &&str| {
        word.strip_prefix("--").is_some_and(|rest| rest.starts_with(char::is_alphabetic))
    };
    words.filter(is_flag).collect()
}

#[test]
fn no_sentence_of_the_engine_names_a_flag_of_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut naming = BTreeSet::new();
    let mut open: Vec<PathBuf> = vec![root.join("src"), root.join("core/src")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("the sources are there") {
            let path = entry.expect("the sources can be listed").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source can be read");
            if !flags(&text).is_empty() {
                let below = path.strip_prefix(root).expect("it was found below the root");
                naming.insert(below.display().to_string());
            }
        }
    }
    assert!(naming.is_empty(), "the program that has the flags names them: {naming:?}");
}
