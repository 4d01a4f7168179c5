//! Which folder of a package may know which: an order of folders, from the leaves up, held against
//! the sources; and folders inside folders have no circles either: what lies in a sub-folder and
//! what lies beside it know each other in one direction. Files of one folder may know each other as
//! they like. Which package may know which cargo holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::tidy::package_sources;

/// Packages with the folders (or files beside them) of each: one may import those before it.
const ORDER: [(&str, &str); 5] = [
    ("src", "batch cli log_lines progress prometheus remedy commands"),
    (
        "src/running",
        "blocktrace group iotrace precondition remedy source threads objects checkpoint datagen \
         driver saturate layouts store run",
    ),
    (
        "engine/core/src",
        "arenas clock held named nvme units facts key drive error space placement fill occupation \
         metrics model",
    ),
    ("engine/src", "buffer ring tier device files load shard engine"),
    (
        "workloads/src",
        "error time contract conversation rng digest dataset stats autoscale key model layout \
         prefill config rag ingest source recording tiers reuse trace depth sample row_buffer \
         habits user queue request sightings workload estimate",
    ),
];

/// A source without the tests at its end and without comments, in which a path is a link for
/// readers.
fn production_code(text: &str) -> String {
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

fn first_word(path: &str) -> String {
    let path = path.trim_start();
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    path[..end.unwrap_or(path.len())].to_owned()
}

/// A module, by the names that lead to it from the crate's root.
type Module = Vec<String>;
type Modules = BTreeMap<Module, String>;
/// Names that a module hands on, and where they come from.
type HandedOn = BTreeMap<String, Module>;

/// The modules of a crate without their tests.
fn modules(root: &str) -> Modules {
    let files = package_sources(root).into_iter();
    let files = files.filter(|(name, _)| !name.ends_with("test.rs") && !name.ends_with("tests.rs"));
    let of_file = |(name, text): (String, String)| {
        let path = name[root.len() + 1..].trim_end_matches(".rs");
        let parts = path.split('/').filter(|part| !matches!(*part, "mod" | "lib" | "main"));
        (parts.map(str::to_owned).collect(), production_code(&text))
    };
    // The library's root and the program's are one module: the program's has next to nothing.
    let mut found = Modules::new();
    for (module, code) in files.map(of_file) {
        found.entry(module).or_default().push_str(&code);
    }
    found
}

/// All that a path leads to, as names: several where it has groups in braces.
fn ends(path: &str) -> Vec<Module> {
    let path = path.trim_start();
    if let Some(group) = path.strip_prefix('{') {
        return members(group).into_iter().flat_map(ends).collect();
    }
    let word = first_word(path);
    match path[word.len()..].strip_prefix("::") {
        _ if word.is_empty() || word == "self" => vec![Vec::new()],
        None => vec![vec![word]],
        Some(rest) => {
            let with_word = |rest: Module| std::iter::once(word.clone()).chain(rest).collect();
            ends(rest).into_iter().map(with_word).collect()
        }
    }
}

/// The parts of a group in braces, of which the first is passed over already.
fn members(group: &str) -> Vec<&str> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (place, letter) in group.char_indices() {
        let is_end = letter == '}' && depth == 0;
        if is_end || (letter == ',' && depth == 0) {
            found.push(&group[begin..place]);
            begin = place + 1;
        }
        match letter {
            '}' if is_end => break,
            '}' => depth -= 1,
            '{' => depth += 1,
            _ => {}
        }
    }
    found.into_iter().filter(|part| !part.trim().is_empty()).collect()
}

/// All that code names by a path from the crate's root, from its own module or from one above.
fn named(module: &Module, code: &str, modules: &Modules) -> Vec<Module> {
    let mut found = Vec::new();
    let mut before = ' ';
    for (place, letter) in code.char_indices() {
        let is_begin = !(before.is_alphanumeric() || before == '_' || before == ':');
        before = letter;
        if !is_begin || !(letter.is_alphabetic() || letter == '_') {
            continue;
        }
        let word = first_word(&code[place..]);
        let Some(mut rest) = code[place + word.len()..].strip_prefix("::") else { continue };
        let mut base = module.clone();
        match &word[..] {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop();
                while let Some(further) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = further;
                }
            }
            _ => {
                base.push(word);
                if !modules.contains_key(&base) {
                    continue;
                }
            }
        }
        found.extend(ends(rest).into_iter().map(|end| [&base[..], &end].concat()));
    }
    found
}

/// Names that a module hands on with `pub use`, and its code without those statements.
fn handed_on(module: &Module, code: &str, modules: &Modules) -> (HandedOn, String) {
    let (mut names, mut rest) = (HandedOn::new(), String::new());
    for statement in code.split_inclusive(';') {
        let used = statement.rfind("use ").map(|at| statement.split_at(at));
        let is_public = |head: &str| head.lines().last().unwrap_or("").trim().starts_with("pub");
        match used.filter(|(head, _)| is_public(head)) {
            None => rest.push_str(statement),
            Some((head, path)) => {
                rest.push_str(&head[..head.rfind("pub").unwrap_or(0)]);
                let path = &path["use ".len()..];
                let found = named(module, path, modules);
                names.extend(found.into_iter().filter_map(|end| Some((end.last()?.clone(), end))));
            }
        }
    }
    (names, rest)
}

/// The module in which a name stands that a path leads to, wherever it is handed on.
fn home(path: &[String], modules: &Modules, handed: &BTreeMap<Module, HandedOn>) -> Module {
    let mut path = path.to_vec();
    // A name is handed on less often than that.
    for _ in 0..8 {
        let length = (0..=path.len()).rev().find(|end| modules.contains_key(&path[..*end]));
        let (module, rest) = path.split_at(length.unwrap_or(0));
        let next = rest.first().and_then(|name| handed.get(module)?.get(name));
        match next {
            Some(next) if *next != path => path = next.clone(),
            _ => return module.to_vec(),
        }
    }
    path
}

fn arrows(modules: &Modules) -> BTreeMap<Module, BTreeSet<Module>> {
    let parts: BTreeMap<&Module, (HandedOn, String)> =
        modules.iter().map(|(module, code)| (module, handed_on(module, code, modules))).collect();
    let handed: BTreeMap<Module, HandedOn> =
        parts.iter().map(|(module, (names, _))| ((*module).clone(), names.clone())).collect();
    let of = |(module, (names, code)): (&&Module, &(HandedOn, String))| {
        let words: BTreeSet<&str> =
            code.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        let own = names.iter().filter(|(name, _)| words.contains(&name[..]));
        let named = named(module, code, modules).into_iter().chain(own.map(|(_, end)| end.clone()));
        let homes = named.map(|path| home(&path, modules, &handed)).filter(|home| home != *module);
        ((*module).clone(), homes.collect())
    };
    parts.iter().map(of).collect()
}

/// Component below a folder on the way to a module; the folder's own `mod.rs` for itself.
fn below(folder: usize, module: &Module) -> String {
    module.get(folder).cloned().unwrap_or_else(|| "mod.rs".to_owned())
}

/// The circles that a sub-folder is part of, each from the sub-folder back to itself.
fn circles(modules: &Modules) -> Vec<String> {
    let arrows = arrows(modules);
    let parent = |module: &Module| module.split_last().map(|(_, parent)| parent.to_vec());
    // Folders are modules with modules below them.
    let folders: BTreeSet<Module> = modules.keys().filter_map(parent).collect();
    let mut found = Vec::new();
    for folder in folders.iter().filter(|folder| !folder.is_empty()) {
        let beside = parent(folder).unwrap_or_default();
        let depth = beside.len();
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, all) in arrows.iter().filter(|(from, _)| from.starts_with(&beside)) {
            for to in all.iter().filter(|to| to.starts_with(&beside)) {
                let (from, to) = (below(depth, from), below(depth, to));
                if from != to {
                    graph.entry(from).or_default().insert(to);
                }
            }
        }
        let name = below(depth, folder);
        if let Some(way) = way_back(&name, &graph) {
            found.push(format!("{}: {}", beside.join("/"), way.join(" → ")));
        }
    }
    found
}

/// The shortest way from a name back to itself.
fn way_back(name: &str, graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![name.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in graph.get(way.last()?).into_iter().flatten() {
            let longer = [&way[..], std::slice::from_ref(next)].concat();
            if next == name {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

/// Arrows between the folders at a package's root, of which each should lead to one before it.
fn backward(modules: &Modules, order: &[&str]) -> Vec<String> {
    let place = |folder: &str| order.iter().position(|name| *name == folder);
    let mut found = BTreeSet::new();
    for (from, all) in arrows(modules).iter().filter(|(from, _)| !from.is_empty()) {
        for to in all.iter().filter(|to| !to.is_empty() && to[0] != from[0]) {
            if place(&to[0]).is_none_or(|to| Some(to) > place(&from[0])) {
                found.insert(format!("{} imports {}", from[0], to[0]));
            }
        }
    }
    found.into_iter().collect()
}

#[test]
fn every_folder_imports_only_what_lies_before_it() {
    for (root, order) in ORDER {
        let order: Vec<&str> = order.split_whitespace().collect();
        let modules = modules(root);
        let folders: BTreeSet<&str> =
            modules.keys().filter_map(|module| module.first().map(String::as_str)).collect();
        assert_eq!(folders, order.iter().copied().collect(), "{root}: the folders in their order");
        assert_eq!(
            backward(&modules, &order),
            [""; 0],
            "{root}: cut the arrow, or move one of them"
        );
    }
}

#[test]
fn no_folder_inside_a_folder_is_part_of_a_circle() {
    let of_root = |root: &str| -> Vec<String> {
        circles(&modules(root)).into_iter().map(|circle| format!("{root}: {circle}")).collect()
    };
    let packages = [
        "src",
        "src/config",
        "src/foreign",
        "src/host",
        "src/model",
        "src/report",
        "src/running",
        "engine/core/src",
        "engine/src",
        "workloads/src",
    ];
    let found: Vec<String> = packages.into_iter().flat_map(of_root).collect();
    assert_eq!(found, [""; 0], "cut an arrow of each");
}

#[test]
fn a_circle_is_found_wherever_a_name_is_handed_on() {
    let modules_of = |files: &[(&str, &str)]| -> Modules {
        let module = |path: &str| -> Module {
            path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
        };
        files.iter().map(|(path, code)| (module(path), production_code(code))).collect()
    };
    let circles_of = |files: &[(&str, &str)]| circles(&modules_of(files));
    let room = "mod page;\nmod part;\npub use page::Page;\npub(crate) use part::{a::A, b};\n";
    let base = [("", ""), ("room", room), ("room/part", "mod a;\nmod b;\n"), ("room/part/b", "")];
    let with =
        |page, a| circles_of(&[&base[..], &[("room/page", page), ("room/part/a", a)]].concat());
    assert_eq!(with("use super::part::a;", "struct A;"), [""; 0]);
    assert_eq!(with("struct Page;", "use crate::room::Page;"), [""; 0]);
    let circle = ["room: part → page → part"];
    assert_eq!(with("use super::part::a::A;", "use crate::room::Page;"), circle);
    assert_eq!(with("use crate::room::{A};", "fn f() { super::super::page::g() }"), circle);
    assert_eq!(with("use super::A;", "// crate::room::Page"), [""; 0]);
    // Between files of one folder nothing is asked.
    assert_eq!(circles_of(&[("", ""), ("a", "use crate::b;"), ("b", "use crate::a;")]), [""; 0]);
    let tested = "#[cfg(test)]\nmod tests {\n    use crate::b::C;\n}\n";
    let in_order =
        |a| backward(&modules_of(&[("", ""), ("a", a), ("b", "use crate::a::A;")]), &["a", "b"]);
    assert_eq!(in_order(tested), [""; 0]);
    assert_eq!(in_order("use crate::{b::C};"), ["a imports b"]);
}
