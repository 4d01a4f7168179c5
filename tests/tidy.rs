//! House rules that a machine can hold, and the directions that dependencies may run in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Lines of a file, a net for the careless: a file is cut where its subject changes, not here.
/// Clippy holds the lengths of functions and the numbers of their parameters in the same way.
const LINES_MAX: usize = 900;
/// A line that passes this has to be scrolled.
const COLUMNS_MAX: usize = 100;
/// A description of no more words than this says too little to stand by itself.
const DOC_WORDS_FEW: usize = 3;
/// Public items of each crate whose descriptions are that short. The numbers can only shrink: who
/// describes one so that a reader of the documentation needs nothing else lowers its crate's.
const SHORT_DOCS: [(&str, usize); 4] =
    [("engine/core/src", 0), ("engine/src", 0), ("workloads/src", 0), ("src", 0)];

/// Names that several public types still have. The list can only shrink.
const HOMONYMS: &str = "\
    Advice Answer Best Direction Engine Facts Group Interval Job Kind Launch Limit Limits Machine \
    Measure Named Nanos Operation Order Outcome Part Place Profile Progress Published \
    RankRow Reading Report Row Settings Shape Shard Skipped Stream StreamSettings Summary \
    TimeReport Verdict VerifyReport Word Workload";

/// Sources of the program and of the libraries.
const LIBRARIES: [&str; 4] = ["src", "engine/core/src", "engine/src", "workloads/src"];

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Rust files below a directory of the repository.
pub(super) fn sources(directory: &str) -> Vec<(String, String)> {
    sources_where(directory, &|_| true)
}

/// Rust files below a directory that are of its own package, not of one that lies inside it.
pub(super) fn package_sources(directory: &str) -> Vec<(String, String)> {
    sources_where(directory, &|path| !path.join("Cargo.toml").exists())
}

fn sources_where(directory: &str, is_wanted: &dyn Fn(&Path) -> bool) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = vec![root().join(directory)];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.extend(Some(path).filter(|path| is_wanted(path)));
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
    let tests = ["engine/tests", "engine/examples", "tests", "benches"];
    LIBRARIES.into_iter().chain(tests).flat_map(sources).collect()
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
fn no_line_is_too_wide() {
    let all = all();
    let wide = all.iter().flat_map(|(name, text)| {
        let lines = text.lines().zip(1..);
        let wide = lines.filter(|(line, _)| line.chars().count() > COLUMNS_MAX);
        wide.map(move |(_, number)| format!("{name}:{number}"))
    });
    assert_eq!(wide.collect::<Vec<_>>(), [""; 0], "lines of more than {COLUMNS_MAX} columns");
}

/// The lines at which a description of at most [`DOC_WORDS_FEW`] words of a public item begins.
fn short_docs(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let doc = |line: &&str| line.strip_prefix("///").map(str::to_owned);
    let mut found = Vec::new();
    let mut next = 0;
    while next < lines.len() {
        let begin = next;
        let block: Vec<String> = lines[begin..].iter().map_while(doc).collect();
        next += block.len().max(1);
        let words = block.iter().flat_map(|line| line.split_whitespace()).count();
        if block.is_empty() || words > DOC_WORDS_FEW {
            continue;
        }
        // What it describes stands behind attributes, which may take several lines.
        let mut open = 0;
        let item = lines[next..].iter().find(|line| {
            let is_attribute = open > 0 || line.starts_with("#[");
            if is_attribute {
                open += line.matches('[').count();
                open = open.saturating_sub(line.matches(']').count());
            }
            !is_attribute && !line.starts_with("//")
        });
        if item.is_some_and(|item| item.starts_with("pub ")) {
            found.push(begin + 1);
        }
    }
    found
}

#[test]
fn short_descriptions_are_found() {
    let text = "/// By name.\n#[serde(\n    default = \"x[0]\"\n)]\npub a: u8,\n/// Of two\n\
                /// whole lines.\npub b: u8,\n/// Why.\npub(super) c: u8,\n/// One.\nfn d() {}\n\
                ///\n/// Why.\n// A remark.\npub e: u8,\n";
    assert_eq!(short_docs(text), [1, 13]);
}

#[test]
fn public_items_are_described_and_the_number_of_those_that_are_not_only_shrinks() {
    for (directory, expected) in SHORT_DOCS {
        let of_files = sources(directory).into_iter().flat_map(|(name, text)| {
            let lines = short_docs(&text).into_iter();
            lines.map(move |line| format!("{name}:{line}")).collect::<Vec<_>>()
        });
        let mut found: Vec<String> = of_files.collect();
        found.sort_unstable();
        let number = found.len();
        assert_eq!(
            number,
            expected,
            "{directory}: left, the descriptions of at most {DOC_WORDS_FEW} words; right, the \
             number in SHORT_DOCS. Say more where one is new (unit, range, who sets it, what \
             absent means); lower the number where there are fewer:\n{}",
            found.join("\n")
        );
    }
}

/// Words that a description does not begin with: they make a riddle of it.
const RIDDLES: [&str; 5] = ["What", "How", "Whoever", "Of", "As which"];

/// Lines of doc comments that begin with one of [`RIDDLES`].
fn riddles(text: &str) -> Vec<usize> {
    let is_riddle = |line: &str| {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let begins = |doc: &str, word: &str| {
            let rest = doc.trim_start().strip_prefix(word);
            rest.is_some_and(|rest| rest.starts_with(' '))
        };
        doc.is_some_and(|doc| RIDDLES.iter().any(|word| begins(doc, word)))
    };
    text.lines().zip(1..).filter(|(line, _)| is_riddle(line)).map(|(_, number)| number).collect()
}

#[test]
fn doc_lines_begin_with_a_noun_or_a_verb() {
    let text = "//! What it is.\n/// Number of them.\n    /// How many.\n/// Offset.\n// What.\n";
    assert_eq!(riddles(text), [1, 3]);
    let found = all().into_iter().flat_map(|(name, text)| {
        let lines = riddles(&text).into_iter();
        lines.map(move |line| format!("{name}:{line}")).collect::<Vec<_>>()
    });
    assert_eq!(
        found.collect::<Vec<_>>(),
        [""; 0],
        "doc lines that begin with one of {RIDDLES:?}: name the thing, or say what it does"
    );
}

#[test]
fn the_engine_knows_no_users_and_the_workloads_know_no_world() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    assert!(!read("engine/Cargo.toml").contains("ringfall-workloads"));
    assert!(!read("workloads/Cargo.toml").contains("ringfall-engine"));
    assert!(!read("engine/core/Cargo.toml").contains("ringfall-workloads"));
    let workloads = sources("workloads/src");
    for word in ["std::fs", "std::net", "std::thread", "Instant::now", "SystemTime", "unsafe {"] {
        assert_eq!(with_word(&workloads, word, &[]), [""; 0], "{word} in pure code");
    }
    let engine = [sources("engine/src"), sources("engine/core/src")].concat();
    let clocks = with_word(&engine, "ClockId::Monotonic", &["engine/core/src/clock.rs"]);
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

/// Reading, comparing and showing results takes neither io_uring nor an executor nor CUDA.
#[test]
fn what_reads_results_builds_without_the_engine() {
    let packages =
        ["engine/core", "src/host", "src/config", "src/model", "src/foreign", "src/report"];
    for package in packages {
        let manifest = root().join(package).join("Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        for needed in ["ringfall-engine", "ringfall-running", "io-uring", "glommio", "cudarc"] {
            assert!(!manifest.contains(needed), "{package} depends on {needed}");
        }
    }
}

/// Only [`HeldDirectory`](ringfall_core::held::HeldDirectory) looks at the links on the way.
#[test]
fn directories_are_made_by_the_one_who_looks_at_links() {
    for directory in ["src", "engine/core/src", "engine/src"] {
        for (name, text) in sources(directory) {
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
            let is_test = name.ends_with("_test.rs") || name.ends_with("/tests.rs");
            assert!(is_test || !code.contains("create_dir_all("), "{name}: HeldDirectory::make");
        }
    }
}

/// The names of the public types that a source declares outside of its tests.
fn public_types(text: &str) -> Vec<&str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let declared = code.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("pub ")?;
        let (kind, rest) = rest.split_once(' ')?;
        let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next();
        // A macro's have none yet.
        let is_named = |name: &&str| !name.is_empty();
        name.filter(|_| matches!(kind, "struct" | "enum" | "trait" | "type")).filter(is_named)
    });
    declared.collect()
}

#[test]
fn a_name_means_one_public_type_and_the_list_of_others_only_shrinks() {
    let all = LIBRARIES.into_iter().flat_map(sources);
    let all: Vec<_> = all.filter(|(name, _)| !name.ends_with("test.rs")).collect();
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, text) in all.iter().filter(|(name, _)| !name.ends_with("tests.rs")) {
        for name in public_types(text) {
            files.entry(name).or_default().insert(file);
        }
    }
    let homonyms: Vec<&str> =
        files.iter().filter(|(_, files)| files.len() > 1).map(|(name, _)| *name).collect();
    assert_eq!(
        homonyms,
        HOMONYMS.split_whitespace().collect::<Vec<_>>(),
        "left: names of public types in several files; right: those listed. Give a new type a name \
         of its own; take one out of the list that has become the only one"
    );
    let text = "pub struct A;\n    pub type B = u8;\npub(crate) enum C {}\npub fn d() {}\n\
                #[cfg(test)]\nmod tests {\n    pub struct E;\n}\n";
    assert_eq!(public_types(text), ["A", "B"]);
}

#[test]
fn every_room_says_what_it_is() {
    for room in ["src", "engine", "workloads", "config", "tests", "benches", "tools"] {
        let readme = root().join(room).join("README.md");
        let text = std::fs::read_to_string(&readme).unwrap_or_default();
        assert!(text.len() > 200, "{} says too little", readme.display());
    }
}
