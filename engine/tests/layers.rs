//! Which folder of the engine may know which: a table that has no circle, held against the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each folder (or file beside them) and all that it may import, from the leaves up. A row may name
/// only rows above it, so a table that passes has no circle.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("key", &[]),
    ("units", &[]),
    ("error", &["key", "units"]),
    ("fill", &["key", "units"]),
    ("space", &["error", "units"]),
    ("placement", &["clock", "key", "space", "units"]),
    ("metrics", &["clock", "error", "key", "units"]),
    ("buffer", &["error", "units"]),
    ("tier", &["buffer", "error", "key", "space", "units"]),
    ("ring", &["buffer", "clock", "error", "units"]),
    ("device", &["buffer", "clock", "error", "key", "ring", "space", "units"]),
    ("load", &["clock", "device", "error", "fill", "key", "metrics", "ring", "units"]),
    (
        "shard",
        &[
            "buffer",
            "clock",
            "device",
            "error",
            "fill",
            "key",
            "metrics",
            "placement",
            "ring",
            "space",
            "tier",
            "units",
        ],
    ),
    (
        "engine",
        &[
            "buffer",
            "clock",
            "device",
            "error",
            "fill",
            "key",
            "metrics",
            "placement",
            "shard",
            "space",
            "tier",
            "units",
        ],
    ),
];

/// Files that hold tests, and what a file has of them at its end.
fn production_code(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    if name.ends_with("test.rs") || name.ends_with("tests.rs") {
        return None;
    }
    let text = std::fs::read_to_string(path).expect("a source can be read");
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    // A path in a comment is a link for readers, not an import.
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

fn imports(code: &str) -> BTreeSet<String> {
    let paths = code.split("crate::").skip(1);
    paths
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(group) => group.split('}').next().unwrap_or_default().split(',').collect(),
            None => vec![rest],
        })
        .map(|path| {
            let path = path.trim();
            let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            path[..end.unwrap_or(path.len())].to_owned()
        })
        .collect()
}

/// What each folder imports, by the name of the folder or of the file beside them.
fn imports_by_folder() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut open: Vec<PathBuf> = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("the sources are there") {
            let path = entry.expect("the sources can be listed").path();
            if path.is_dir() {
                open.push(path);
            } else if let Some(code) = production_code(&path) {
                let below = path.strip_prefix(&root).expect("it was found below the root");
                let folder = below.iter().next().and_then(|part| part.to_str()).unwrap_or_default();
                let folder = folder.trim_end_matches(".rs").to_owned();
                found.entry(folder).or_default().extend(imports(&code));
            }
        }
    }
    found.remove("lib");
    found
}

#[test]
fn every_folder_imports_only_what_lies_below_it() {
    for (place, (folder, allowed)) in MAY_IMPORT.iter().enumerate() {
        for name in *allowed {
            let below = MAY_IMPORT[..place].iter().any(|(row, _)| row == name);
            assert!(below, "{folder} may import {name}, which stands in no row above it");
        }
    }
    let found = imports_by_folder();
    let named: Vec<&str> = found.keys().map(String::as_str).collect();
    let mut rows: Vec<&str> = MAY_IMPORT.iter().map(|(folder, _)| *folder).collect();
    rows.sort_unstable();
    assert_eq!(named, rows, "the table has a row for each folder and no other");
    for (folder, allowed) in MAY_IMPORT {
        let extra: Vec<&String> = found[*folder]
            .iter()
            .filter(|name| *name != folder && !allowed.contains(&name.as_str()))
            .collect();
        assert!(extra.is_empty(), "{folder} imports {extra:?}: add a row or cut the arrow");
    }
}

#[test]
fn grouped_and_plain_imports_are_both_seen() {
    let code = "use crate::{ring, tier::cpu};\nlet x = crate::units::GIB;";
    let expected = ["ring", "tier", "units"].map(str::to_owned);
    assert_eq!(imports(code), BTreeSet::from(expected));
}

/// Options of other people's programs that a remedy may tell to use.
const OTHERS_OPTIONS: &[&str] = &["--setrw", "--security-opt"];

/// Words such as `--shards`, comments included: those of a library speak of its settings.
fn flags(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words
        .filter(|word| {
            word.strip_prefix("--").is_some_and(|rest| rest.starts_with(char::is_alphabetic))
        })
        .filter(|word| !OTHERS_OPTIONS.contains(word))
        .collect()
}

#[test]
fn no_sentence_of_the_engine_names_a_flag_of_a_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut naming = BTreeSet::new();
    let mut open: Vec<PathBuf> = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).expect("the sources are there") {
            let path = entry.expect("the sources can be listed").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source can be read");
            if !flags(&text).is_empty() {
                let below = path.strip_prefix(&root).expect("it was found below the root");
                naming.insert(below.display().to_string());
            }
        }
    }
    assert!(naming.is_empty(), "the program that has the flags names them: {naming:?}");
}
