//! Which folder of a package may know which: tables that have no circle, held against the sources.
//! Which package may know which cargo holds.

use std::collections::{BTreeMap, BTreeSet};

use super::tidy::package_sources;

/// Each folder (or file beside them) and all that it may import, from the leaves up. A row may name
/// only rows above it, so a table that passes has no circle.
type Table = &'static [(&'static str, &'static [&'static str])];

const PROGRAM: Table = &[
    ("batch", &[]),
    ("cli", &[]),
    ("log_lines", &[]),
    ("progress", &[]),
    ("prometheus", &[]),
    ("remedy", &[]),
    ("commands", &["batch", "cli", "log_lines", "progress", "prometheus", "remedy"]),
];

const RUNNING: Table = &[
    ("blocktrace", &[]),
    ("group", &[]),
    ("iotrace", &[]),
    ("precondition", &[]),
    ("remedy", &[]),
    ("source", &[]),
    // How threads are started and what they share is locked, the same wherever they work.
    ("threads", &[]),
    ("objects", &["threads"]),
    ("checkpoint", &["objects", "remedy", "threads"]),
    ("datagen", &["remedy", "threads"]),
    ("driver", &["iotrace"]),
    ("saturate", &["group", "objects", "precondition"]),
    ("layouts", &["remedy", "saturate", "threads"]),
    ("store", &["layouts", "objects"]),
    ("run", &["driver", "group", "iotrace", "layouts", "source", "store"]),
];

const CORE: Table = &[
    ("arenas", &[]),
    ("clock", &[]),
    ("held", &[]),
    ("named", &[]),
    ("nvme", &[]),
    ("units", &[]),
    ("facts", &["named"]),
    ("key", &["named"]),
    ("drive", &["units"]),
    ("error", &["drive", "key", "named", "units"]),
    ("fill", &["key", "named", "units"]),
    ("occupation", &["clock"]),
    ("metrics", &["clock", "error", "key", "units"]),
    ("model", &["clock", "drive", "key", "occupation"]),
    ("space", &["clock", "error", "units"]),
    ("placement", &["clock", "drive", "key", "space", "units"]),
];

const ENGINE: Table = &[
    ("buffer", &[]),
    ("ring", &["buffer"]),
    ("tier", &["buffer"]),
    ("device", &["buffer", "ring"]),
    ("files", &["buffer", "device", "ring"]),
    ("load", &["device", "ring", "tier"]),
    ("shard", &["buffer", "device", "ring", "tier"]),
    ("engine", &["device", "shard", "tier"]),
];

const WORKLOADS: Table = &[
    ("error", &[]),
    ("time", &[]),
    ("contract", &["time"]),
    ("conversation", &[]),
    ("rng", &[]),
    ("digest", &["rng"]),
    ("dataset", &["digest"]),
    ("stats", &[]),
    ("autoscale", &["contract"]),
    ("key", &["contract"]),
    ("model", &["error"]),
    ("layout", &["error", "model", "rng"]),
    ("prefill", &["model"]),
    ("config", &["error", "model"]),
    ("rag", &["config", "rng"]),
    ("ingest", &["config", "contract", "key", "rag"]),
    ("source", &["contract", "conversation", "dataset", "digest", "error", "key", "rng"]),
    ("recording", &["error", "source"]),
    ("tiers", &[]),
    ("reuse", &["tiers"]),
    ("trace", &["error", "reuse", "source"]),
    ("depth", &["contract"]),
    ("sample", &["rng"]),
    ("row_buffer", &["contract", "source"]),
    ("habits", &["config", "dataset", "rng", "source"]),
    ("user", &["config", "contract", "conversation", "dataset", "habits", "rng", "source"]),
    ("queue", &["contract", "user"]),
    ("request", &["config", "contract", "conversation", "key", "rag", "source", "stats", "user"]),
    (
        "workload",
        &[
            "config",
            "contract",
            "conversation",
            "depth",
            "error",
            "habits",
            "ingest",
            "key",
            "queue",
            "rag",
            "request",
            "rng",
            "row_buffer",
            "sample",
            "source",
            "stats",
            "user",
        ],
    ),
    ("estimate", &["config", "rag", "workload"]),
];

/// A source without the tests at its end and without comments, in which a path is a link for
/// readers.
pub(super) fn production_code(text: &str) -> String {
    let mut lines = text.lines().peekable();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        let is_tests = line == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.ends_with("mod tests {"));
        if is_tests {
            break;
        }
        if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// The word that a path begins with.
pub(super) fn first_word(path: &str) -> String {
    let path = path.trim_start();
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    path[..end.unwrap_or(path.len())].to_owned()
}

/// Names that a path leads to: one, or those of a group in braces, whatever groups are inside it.
fn heads(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else { return vec![first_word(path)] };
    let (mut heads, mut depth, mut is_new) = (Vec::new(), 0, true);
    for (place, letter) in group.char_indices() {
        match letter {
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            '{' => depth += 1,
            ',' if depth == 0 => is_new = true,
            _ if is_new && !letter.is_whitespace() => {
                heads.push(first_word(&group[place..]));
                is_new = false;
            }
            _ => {}
        }
    }
    heads
}

/// The names below the crate's root that code imports, or names in passing. `depth` is the number
/// of `super::` that lead from it to the root.
fn imports(code: &str, depth: usize) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = code.split("crate::").skip(1).flat_map(heads).collect();
    let mut rest = code;
    while let Some(at) = rest.find("super::") {
        let path = rest[at..].trim_start_matches("super::");
        let ups = (rest.len() - at - path.len()) / "super::".len();
        if ups >= depth {
            found.extend(heads(path));
        }
        rest = path;
    }
    found
}

/// Imports of each folder, by the name of the folder or of the file beside them.
fn imports_by_folder(root: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, text) in package_sources(root) {
        let is_test = name.ends_with("test.rs") || name.ends_with("tests.rs");
        let path = name[root.len() + 1..].trim_end_matches(".rs");
        let modules: Vec<&str> = path.split('/').filter(|part| *part != "mod").collect();
        if !is_test && !matches!(path, "lib" | "main") {
            let imports = imports(&production_code(&text), modules.len());
            found.entry(modules[0].to_owned()).or_default().extend(imports);
        }
    }
    // Other names at the root come from other packages.
    let folders: BTreeSet<String> = found.keys().cloned().collect();
    for (folder, imports) in &mut found {
        imports.retain(|name| name != folder && folders.contains(name));
    }
    found
}

fn hold(root: &str, table: Table) {
    for (place, (folder, allowed)) in table.iter().enumerate() {
        for name in *allowed {
            let is_above = table[..place].iter().any(|(row, _)| row == name);
            assert!(is_above, "{root}: {folder} may import {name}, which is in no row above it");
        }
    }
    let allowed = table.iter().map(|(folder, allowed)| {
        ((*folder).to_owned(), allowed.iter().map(|name| (*name).to_owned()).collect())
    });
    let allowed: BTreeMap<String, BTreeSet<String>> = allowed.collect();
    let found = imports_by_folder(root);
    let rows = |table: &BTreeMap<String, BTreeSet<String>>| -> Vec<String> {
        table.keys().cloned().collect()
    };
    assert_eq!(
        rows(&found),
        rows(&allowed),
        "{root}: the table has a row for each folder, no other"
    );
    for (folder, found) in &found {
        let allowed = &allowed[folder];
        let new: Vec<_> = found.difference(allowed).collect();
        assert!(new.is_empty(), "{root}: {folder} imports {new:?}: cut the arrow, or list it");
        let gone: Vec<_> = allowed.difference(found).collect();
        assert!(
            gone.is_empty(),
            "{root}: {folder} imports {gone:?} no more: take it out of the table"
        );
    }
}

#[test]
fn every_folder_of_the_program_imports_only_what_lies_below_it() {
    hold("src", PROGRAM);
    hold("src/running", RUNNING);
}

#[test]
fn every_folder_of_the_engine_imports_only_what_lies_below_it() {
    hold("engine/core/src", CORE);
    hold("engine/src", ENGINE);
}

#[test]
fn every_module_of_the_workloads_imports_only_what_lies_below_it() {
    hold("workloads/src", WORKLOADS);
}

#[test]
fn imports_are_seen_however_they_are_written() {
    let code = "use crate::{a, b::{self, c}};\nuse super::super::d::{e, f};\nuse super::g;\n\
                let x = crate::h::I; pub(in crate::j) fn k() { super::super::{l, m::n}; }";
    let expected = ["a", "b", "d", "h", "j", "l", "m"].map(str::to_owned);
    assert_eq!(imports(code, 2), BTreeSet::from(expected));
    let text = "use crate::a;\n// crate::b\n#[cfg(test)]\nuse crate::c;\n#[cfg(test)]\n\
                pub(crate) mod tests {\n    use crate::d;\n}\n";
    assert_eq!(production_code(text), "use crate::a;\n#[cfg(test)]\nuse crate::c;\n");
}
