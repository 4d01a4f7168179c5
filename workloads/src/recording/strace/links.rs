//! Symbolic links that paths go through, as the names show that strace tells of the files opened.

use std::collections::{BTreeMap, BTreeSet};

use super::super::operation::FileAction;
use super::{Recording, Strace};

/// Name under which calls are counted that a link has where it led to several directories.
const LINKED: &str = "linked";

/// Names of opened files: those that calls gave, and those that strace told.
#[derive(Default)]
pub(super) struct Links {
    /// Names that strace told: none has a link in it.
    real: BTreeSet<u32>,
    /// Openings by other names, by their place among the operations, with the name that was told.
    otherwise: Vec<(usize, u32)>,
}

/// Directory that each link leads to; none where it led to several.
pub(super) type Directories = BTreeMap<String, Option<String>>;

impl Links {
    /// Takes note of the next operation, which opens a file by the name given.
    pub(super) fn opened(&mut self, place: usize, given: u32, told: u32) {
        self.real.insert(told);
        if given != told {
            self.otherwise.push((place, told));
        }
    }
}

impl Recording {
    /// The path behind the link that it goes through, if it does.
    pub(in super::super) fn behind_links(&self, path: String) -> String {
        real(&path, &self.directories).flatten().unwrap_or(path)
    }
}

impl Strace {
    /// Gives each operation the names behind links; what can't be told of is counted.
    pub(super) fn follow_links(&mut self) -> Result<(), String> {
        let links = std::mem::take(&mut self.links);
        if links.otherwise.is_empty() {
            return Ok(());
        }
        let directories = self.directories(&links);
        let (mut behind, mut changing) = (BTreeMap::new(), BTreeSet::new());
        for name in 0..self.found.names.len() as u32 {
            match real(&self.found.names[name as usize], &directories) {
                Some(Some(path)) => drop(behind.insert(name, self.number(&path)?)),
                Some(None) => drop(changing.insert(name)),
                None => {}
            }
        }
        let names = &self.found.names;
        let is_link = |name: &u32| directories.contains_key(&*names[*name as usize]);
        let mut counts = std::mem::take(&mut self.found.left_out);
        self.found.operations.retain_mut(|operation| {
            let is_of_entry = operation.failure.is_none()
                && !matches!(operation.action, FileAction::Open { .. } | FileAction::Look { .. });
            let mut linked = None;
            for name in operation.action.operands().0 {
                if changing.contains(name) || is_of_entry && is_link(name) {
                    linked = Some(*name);
                }
                *name = *behind.get(name).unwrap_or(name);
            }
            if linked.is_some() {
                counts.entry((LINKED, [linked, None])).or_default().count += 1;
            }
            linked.is_none()
        });
        let real = |name: u32| *behind.get(&name).unwrap_or(&name);
        self.found.handles.iter_mut().for_each(|name| *name = real(*name));
        for ((call, names), left_out) in counts {
            let key = (call, names.map(|name| name.map(real)));
            self.found.left_out.entry(key).or_default().add(&left_out);
        }
        self.found.directories = directories;
        Ok(())
    }

    /// Has the files that were opened through links be those that strace told; the directories
    /// that the links lead to.
    fn directories(&mut self, links: &Links) -> Directories {
        let (names, operations) = (&self.found.names, &mut self.found.operations);
        let path = |name: u32| &*names[name as usize];
        let renames = operations.iter().filter_map(|operation| match operation.action {
            FileAction::Rename { from, to, .. } if operation.failure.is_none() => {
                Some((path(from), path(to)))
            }
            _ => None,
        });
        let renames: BTreeSet<(&str, &str)> = renames.collect();
        let mut found = Directories::new();
        for (place, told) in &links.otherwise {
            let FileAction::Open { name, handle: Some(handle), .. } =
                &mut operations[*place].action
            else {
                continue;
            };
            let given = path(*name);
            let link = link(given, path(*told), &renames);
            // All paths begin elsewhere in a process that has another root.
            let Some((link, directory)) = link.filter(|(link, _)| !link.is_empty()) else {
                continue;
            };
            *name = *told;
            self.found.handles[*handle as usize] = *told;
            if link == given {
                continue;
            }
            let known = found.entry(link.to_owned());
            let known = known.or_insert_with(|| Some(directory.to_owned()));
            if known.as_deref() != Some(directory) {
                *known = None;
            }
        }
        let real: BTreeSet<&str> = links.real.iter().map(|name| path(*name)).collect();
        found.retain(|link, _| {
            let below = format!("{link}/");
            !real.range(&*below..).next().is_some_and(|path| path.starts_with(&below))
        });
        found
    }
}

/// Beginnings of a path and of the one that was told of it that differ; none where one was renamed
/// to the other before strace looked.
fn link<'a>(
    given: &'a str,
    told: &'a str,
    renames: &BTreeSet<(&str, &str)>,
) -> Option<(&'a str, &'a str)> {
    let mut paths = (given, told);
    loop {
        if renames.contains(&paths) {
            return None;
        }
        match (paths.0.rsplit_once('/'), paths.1.rsplit_once('/')) {
            (Some((given, end)), Some((told, same))) if end == same => paths = (given, told),
            _ => return Some(paths),
        }
    }
}

/// The path behind the link that it goes through; none within where that led to several.
fn real(path: &str, directories: &Directories) -> Option<Option<String>> {
    // The path itself first, and then each directory above it.
    let ends = std::iter::once(path.len()).chain(path.rmatch_indices('/').map(|(end, _)| end));
    ends.map(|end| path.split_at(end)).find_map(|(link, rest)| {
        let directory = directories.get(link)?.as_deref();
        Some(directory.map(|directory| format!("{directory}{rest}")))
    })
}
