//! Which folder of the program, of the engine and of the workloads may know which: tables that have
//! no circle, held against the sources.

use std::collections::{BTreeMap, BTreeSet};

use super::tidy::sources;

/// Each folder (or file beside them) and all that it may import, from the leaves up. A row may name
/// only rows above it, so a table that passes has no circle.
type Table = &'static [(&'static str, &'static [&'static str])];

const PROGRAM: Table = &[
    ("exit", &[]),
    ("escape", &[]),
    ("remedy", &[]),
    ("outlet", &[]),
    ("stderr", &["outlet"]),
    ("interrupt", &["escape", "exit", "outlet", "stderr"]),
    ("files", &["interrupt"]),
    ("iotrace", &["files"]),
    ("group", &["files"]),
    ("host", &["escape", "files", "outlet", "stderr"]),
    ("facts", &["host"]),
    ("blocktrace", &["escape", "facts"]),
    ("precondition", &["facts", "host"]),
    ("objects", &["host"]),
    ("checkpoint", &["files", "host", "objects"]),
    ("datagen", &["files", "host"]),
    ("iostat", &["host"]),
    ("store", &["files", "host", "interrupt", "objects", "remedy"]),
    ("config", &["escape", "host", "objects", "precondition"]),
    ("batch", &["config", "escape", "exit", "files", "host", "outlet"]),
    ("source", &["config", "facts", "host", "stderr"]),
    (
        "saturate",
        &["config", "escape", "facts", "group", "host", "interrupt", "objects", "precondition"],
    ),
    ("driver", &["facts", "iotrace"]),
    (
        "run",
        &[
            "driver",
            "facts",
            "group",
            "host",
            "interrupt",
            "iotrace",
            "objects",
            "remedy",
            "source",
            "store",
        ],
    ),
    ("results", &["config", "escape", "facts", "host", "objects", "precondition", "remedy"]),
    ("audit", &["host", "iostat", "results"]),
    ("analysis", &["config", "host", "iostat", "results"]),
    ("mlperf", &["analysis", "host", "results"]),
    ("suite", &["escape", "host", "results"]),
    (
        "show",
        &[
            "audit", "config", "escape", "facts", "host", "mlperf", "remedy", "results", "run",
            "suite",
        ],
    ),
    ("log_lines", &["config", "escape", "host", "outlet", "show"]),
    ("cli", &["analysis", "config", "host", "mlperf", "objects", "suite"]),
    (
        "commands",
        &[
            "analysis",
            "audit",
            "batch",
            "blocktrace",
            "checkpoint",
            "cli",
            "config",
            "datagen",
            "escape",
            "exit",
            "facts",
            "files",
            "host",
            "interrupt",
            "iotrace",
            "log_lines",
            "mlperf",
            "objects",
            "outlet",
            "precondition",
            "group",
            "remedy",
            "results",
            "run",
            "saturate",
            "show",
            "source",
            "stderr",
            "store",
            "suite",
        ],
    ),
];

const ENGINE: Table = &[
    ("clock", &[]),
    ("key", &[]),
    ("units", &[]),
    ("held", &[]),
    ("drive", &["units"]),
    ("error", &["key", "units"]),
    ("fill", &["key", "units"]),
    ("space", &["error", "units"]),
    ("placement", &["clock", "drive", "key", "space", "units"]),
    ("metrics", &["clock", "error", "key", "units"]),
    ("buffer", &["error", "units"]),
    ("tier", &["buffer", "clock", "error", "fill", "key", "space", "units"]),
    ("ring", &["buffer", "clock", "error", "units"]),
    ("device", &["buffer", "clock", "drive", "error", "held", "key", "ring", "space", "units"]),
    ("load", &["clock", "device", "error", "fill", "key", "metrics", "ring", "tier", "units"]),
    (
        "shard",
        &[
            "buffer",
            "clock",
            "device",
            "drive",
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
            "drive",
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

const WORKLOADS: Table = &[
    ("error", &[]),
    ("time", &[]),
    ("contract", &["time"]),
    ("conversation", &[]),
    ("dataset", &[]),
    ("rng", &[]),
    ("stats", &[]),
    ("autoscale", &[]),
    ("key", &["contract"]),
    ("model", &["error"]),
    ("config", &["error", "model"]),
    ("rag", &["config", "rng"]),
    ("ingest", &["config", "contract", "key", "rag"]),
    ("source", &["contract", "conversation", "dataset", "error", "key", "rng"]),
    ("row_buffer", &["contract", "source"]),
    ("user", &["config", "contract", "conversation", "dataset", "rng", "source"]),
    ("queue", &["contract", "user"]),
    ("request", &["config", "contract", "key", "rag", "source", "stats", "user"]),
    (
        "workload",
        &[
            "config",
            "contract",
            "conversation",
            "error",
            "ingest",
            "key",
            "queue",
            "rag",
            "request",
            "rng",
            "row_buffer",
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
    for (name, text) in sources(root) {
        let is_test = name.ends_with("test.rs") || name.ends_with("tests.rs");
        let path = name[root.len() + 1..].trim_end_matches(".rs");
        let modules: Vec<&str> = path.split('/').filter(|part| *part != "mod").collect();
        if !is_test && !matches!(path, "lib" | "main") {
            let imports = imports(&production_code(&text), modules.len());
            found.entry(modules[0].to_owned()).or_default().extend(imports);
        }
    }
    for (folder, imports) in &mut found {
        imports.remove(folder);
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
}

#[test]
fn every_folder_of_the_engine_imports_only_what_lies_below_it() {
    hold("engine/src", ENGINE);
}

#[test]
fn every_module_of_the_workloads_imports_only_what_lies_below_it() {
    hold("workloads/src", WORKLOADS);
}

/// The rooms of each row of a README's first table, from the top down: what stands in backquotes in
/// its first column, as a folder or a file without its ending.
fn rows_of(readme: &str) -> Vec<Vec<String>> {
    let rows = readme.lines().filter(|line| line.starts_with("| `"));
    let rooms = rows.filter_map(|row| row.split('|').nth(1));
    let names = |rooms: &str| {
        let quoted = rooms.split('`').skip(1).step_by(2);
        quoted.map(|name| name.trim_end_matches('/').to_owned()).collect()
    };
    rooms.map(names).collect()
}

#[test]
fn each_room_knows_only_rooms_above_it_in_the_readme() {
    let readme = super::tidy::root().join("src/README.md");
    let rows = rows_of(&std::fs::read_to_string(readme).unwrap());
    let mut named: Vec<&String> = rows.iter().flatten().collect();
    named.sort_unstable();
    let found = imports_by_folder("src");
    assert_eq!(
        named,
        found.keys().collect::<Vec<_>>(),
        "left: the table's rooms; right: all rooms"
    );
    for (place, row) in rows.iter().enumerate() {
        let known: BTreeSet<&String> = rows[..=place].iter().flatten().collect();
        for room in row {
            let below: Vec<_> = found[room].iter().filter(|other| !known.contains(other)).collect();
            assert!(
                below.is_empty(),
                "{room} imports {below:?}, which stand below it in src/README.md: cut the arrow, \
                 or move the row of {room} down"
            );
        }
    }
}

#[test]
fn rooms_are_read_from_a_table() {
    let table =
        "| room | what |\n|---|---|\n| `exit`, `escape/` | `no` |\ntext `no`\n| `a/` | b |\n";
    assert_eq!(rows_of(table), [vec!["exit", "escape"], vec!["a"]]);
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
