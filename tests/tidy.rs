//! House rules that a machine can hold, and the directions that dependencies may run in.

use std::path::{Path, PathBuf};

/// A file that passes this wants to be two.
const LINES_MAX: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Rust files below a directory of the repository.
fn sources(directory: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = vec![root().join(directory)];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "{directory} has no sources");
    found
}

fn all() -> Vec<(String, String)> {
    ["src", "engine/src", "engine/tests", "workloads/src", "tests", "benches"]
        .into_iter()
        .flat_map(sources)
        .collect()
}

/// Names of the files, other than the allowed ones, in which a word stands.
fn with_word(files: &[(String, String)], word: &str, allowed: &[&str]) -> Vec<String> {
    let has = |(name, text): &&(String, String)| {
        text.contains(word) && !allowed.contains(&name.as_str()) && name != "tests/tidy.rs"
    };
    files.iter().filter(has).map(|(name, _)| name.clone()).collect()
}

#[test]
fn no_file_is_too_long_and_none_is_unfinished() {
    for (name, text) in all() {
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{name} has {lines} lines, more than {LINES_MAX}");
        let is_test = name.ends_with("test.rs") || name.ends_with("tests.rs");
        assert!(is_test || text.starts_with("//!"), "{name} does not say what it is for");
    }
    for word in ["todo!(", "unimplemented!(", "dbg!("] {
        assert_eq!(with_word(&all(), word, &[]), [""; 0], "{word}");
    }
}

#[test]
fn the_engine_knows_no_users_and_the_workloads_know_no_world() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    assert!(!read("engine/Cargo.toml").contains("ringfall-workloads"));
    assert!(!read("workloads/Cargo.toml").contains("ringfall-engine"));
    let workloads = sources("workloads/src");
    for word in ["std::fs", "std::net", "std::thread", "Instant::now", "SystemTime", "unsafe {"] {
        assert_eq!(with_word(&workloads, word, &[]), [""; 0], "{word} in pure code");
    }
    let engine = sources("engine/src");
    let clocks = with_word(&engine, "ClockId::Monotonic", &["engine/src/clock.rs"]);
    assert_eq!(clocks, [""; 0], "only the clock reads the time");
    for word in ["Instant::now", "SystemTime::now"] {
        assert_eq!(with_word(&engine, word, &[]), [""; 0], "{word}: the clock reads the time");
    }
    let decisions: Vec<_> =
        engine.into_iter().filter(|(name, _)| name.contains("/placement/")).collect();
    for word in ["async ", ".await", "Clock::Os", "io_uring"] {
        assert_eq!(with_word(&decisions, word, &[]), [""; 0], "{word} where decisions are made");
    }
}

#[test]
fn every_room_says_what_it_is() {
    for room in ["engine", "workloads", "config", "tests", "benches", "tools"] {
        let readme = root().join(room).join("README.md");
        let text = std::fs::read_to_string(&readme).unwrap_or_default();
        assert!(text.len() > 200, "{} says too little", readme.display());
    }
}
