//! The order in which a recording's operations can be done again: lanes, each one operation after
//! the other, and what each operation waits for in other lanes.
//!
//! An operation waits for those without which it would find something else: on names, those that
//! began before it; on open files, those that had ended by then:
//!
//! | operation | waits for |
//! |---|---|
//! | on a name | the last that changed it or a directory above it |
//! | that makes, changes or removes a name, empties a file or closes one | all that used it |
//! | that changes the flags of an open file | all that used it |
//! | on an open file | its opening |
//! | read, sync | the last write of each lane to the file |
//! | request to a drive | all that had ended when it began |
//!
//! Every one of them began earlier, so no two wait for each other. Threads that were not alive at
//! the same time share a lane.

use std::collections::{BTreeMap, BTreeSet};

use super::names::Part;
use super::operation::{After, FileAction, LaneOperation, RecordedOperation};
use crate::error::Error;

/// Most lanes, each of which is a thread.
const LANES_MAX: usize = 1024;
/// Most operations that others wait for, in all.
const AFTER_MAX: usize = 32 << 20;

/// Operations in their lanes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Order {
    /// Lanes, each in its order.
    pub lanes: Vec<Vec<LaneOperation>>,
    /// Time from the begin of the first operation to the end of the last, ns.
    pub took_ns: u64,
}

/// Thing that operations of several lanes can have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Shared {
    Name(u32),
    File(u32),
    Handle(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Finds what others changed.
    Read,
    /// Changes it beside others.
    Write,
    /// Changes it, after all others.
    Change,
}

/// The last place of each lane that used a thing.
#[derive(Default)]
struct Uses {
    read: BTreeMap<u32, u32>,
    changed: BTreeMap<u32, u32>,
}

impl Uses {
    fn add(&mut self, by: Use, lane: u32, place: u32) {
        let last = if by == Use::Read { &mut self.read } else { &mut self.changed };
        last.insert(lane, place);
    }
}

impl Order {
    /// Orders the operations of a part.
    ///
    /// # Errors
    /// More threads were alive at a time than lanes may be, or too much is waited for.
    pub fn of(part: &Part) -> Result<Order, Error> {
        let operations = &part.operations;
        let lane_of = lanes(operations)?;
        let count = lane_of.values().max().map_or(0, |last| last + 1);
        let mut lanes: Vec<Vec<LaneOperation>> = vec![Vec::new(); count as usize];
        let mut places = Vec::with_capacity(operations.len());
        let mut ends: Vec<u32> = (0..operations.len() as u32).collect();
        ends.sort_by_key(|index| (operations[*index as usize].end_ns(), *index));
        let mut ends = ends.into_iter().peekable();
        let start_ns = operations.first().map_or(0, |first| first.begin_ns);
        let (mut end_ns, mut waited) = (start_ns, 0);
        let (mut uses, mut known) = (BTreeMap::<Shared, Uses>::new(), BTreeMap::new());
        for (index, operation) in operations.iter().enumerate() {
            let has_ended = |ended: &u32| {
                let ended = *ended as usize;
                ended < index && operations[ended].end_ns() <= operation.begin_ns
            };
            while let Some(ended) = ends.next_if(has_ended) {
                let before = &operations[ended as usize];
                let (lane, place) = (lane_of[&before.thread], places[ended as usize]);
                for (shared, by) in used(part, before) {
                    if !matches!(shared, Shared::Name(_)) {
                        uses.entry(shared).or_default().add(by, lane, place);
                    }
                }
            }
            let lane = lane_of[&operation.thread];
            // Of each lane the last: those before it have ended then.
            let mut after: BTreeMap<u32, u32> = BTreeMap::new();
            let of_it = used(part, operation);
            for (shared, by) in &of_it {
                let Some(uses) = uses.get(shared) else { continue };
                let read = uses.read.iter().filter(|_| *by == Use::Change);
                let changed = uses.changed.iter().filter(|_| *by != Use::Write);
                for (other, place) in read.chain(changed).filter(|(other, _)| **other != lane) {
                    let last = after.entry(*other).or_default();
                    *last = (*last).max(*place);
                }
            }
            // What the lane has waited for already has ended.
            after.retain(|other, place| {
                let last = known.entry((lane, *other)).or_insert(None);
                let is_new = last.is_none_or(|last| last < *place);
                *last = (*last).max(Some(*place));
                is_new
            });
            let after: Box<[After]> =
                after.into_iter().map(|(lane, place)| After { lane, place }).collect();
            waited += after.len();
            if waited > AFTER_MAX {
                return Err(Error::new(
                    "its threads share too many files: record a shorter time".to_owned(),
                ));
            }
            let own = lanes[lane as usize].last().map(|own| own.operation.end_ns());
            let ended = after
                .iter()
                .map(|after| lanes[after.lane as usize][after.place as usize].operation.end_ns());
            let followed_ns = ended.chain(own).max().unwrap_or(start_ns);
            end_ns = end_ns.max(operation.end_ns());
            let place = lanes[lane as usize].len() as u32;
            places.push(place);
            for (shared, by) in of_it {
                if matches!(shared, Shared::Name(_)) {
                    uses.entry(shared).or_default().add(by, lane, place);
                }
            }
            lanes[lane as usize].push(LaneOperation {
                operation: *operation,
                gap_ns: operation.begin_ns.saturating_sub(followed_ns),
                after,
            });
        }
        Ok(Order { lanes, took_ns: end_ns - start_ns })
    }
}

fn lanes(operations: &[RecordedOperation]) -> Result<BTreeMap<u32, u32>, Error> {
    // By thread, in the order of their first operations: when they are over.
    let (mut order, mut spans) = (Vec::new(), BTreeMap::new());
    for operation in operations {
        let end_ns = operation.end_ns();
        match spans.get_mut(&operation.thread) {
            None => {
                order.push((operation.thread, operation.begin_ns));
                spans.insert(operation.thread, end_ns);
            }
            Some(end) => *end = end_ns.max(*end),
        }
    }
    let (mut found, mut free) = (BTreeMap::new(), BTreeSet::<(u64, u32)>::new());
    for (thread, begin_ns) in order {
        let lane = match free.first().copied() {
            Some((end_ns, lane)) if end_ns <= begin_ns => {
                free.remove(&(end_ns, lane));
                lane
            }
            _ => free.len() as u32,
        };
        free.insert((spans[&thread], lane));
        found.insert(thread, lane);
    }
    if free.len() > LANES_MAX {
        return Err(Error::new(format!(
            "{} operations were at work at a time, and {LANES_MAX} can be: record fewer, or give a \
             directory or drive that fewer use with --below",
            free.len()
        )));
    }
    Ok(found)
}

fn used(part: &Part, operation: &RecordedOperation) -> Vec<(Shared, Use)> {
    if part.follows_all {
        return vec![(Shared::File(0), Use::Change)];
    }
    let parent = |name: u32| part.parents[name as usize];
    let of_name = |name: u32, by: Use| {
        let by = if operation.failure.is_some() { Use::Read } else { by };
        let above = std::iter::successors(parent(name), move |name| parent(*name));
        let above = above.map(|directory| (Shared::Name(directory), Use::Read));
        std::iter::once((Shared::Name(name), by)).chain(above)
    };
    let file = |handle: u32| part.files[handle as usize].map(Shared::File);
    let of_file = |handle: u32, by: Use| {
        let file = file(handle).map(|file| (file, by));
        std::iter::once((Shared::Handle(handle), Use::Read)).chain(file).collect()
    };
    match operation.action {
        FileAction::Open { name, handle, mode } => {
            let mut used: Vec<_> =
                of_name(name, if operation.makes { Use::Change } else { Use::Read }).collect();
            if let Some(handle) = handle {
                used.push((Shared::Handle(handle), Use::Change));
                if mode.truncate {
                    used.extend(file(handle).map(|file| (file, Use::Change)));
                }
            }
            used
        }
        FileAction::Read { handle, .. } | FileAction::Sync { handle, .. } => {
            of_file(handle, Use::Read)
        }
        FileAction::Write { handle, .. } => of_file(handle, Use::Write),
        FileAction::LookAtOpen { handle, .. } => vec![(Shared::Handle(handle), Use::Read)],
        FileAction::SetFlags { handle, .. } | FileAction::Close { handle } => {
            vec![(Shared::Handle(handle), Use::Change)]
        }
        FileAction::Look { name, .. } => of_name(name, Use::Read).collect(),
        FileAction::MakeDirectory { name } | FileAction::Remove { name, .. } => {
            of_name(name, Use::Change).collect()
        }
        FileAction::Rename { from, to, .. } => {
            of_name(from, Use::Change).chain(of_name(to, Use::Change)).collect()
        }
        FileAction::Link { from, to } => {
            of_name(from, Use::Read).chain(of_name(to, Use::Change)).collect()
        }
    }
}
