//! `ringfall layouts replay`: an engine's calls on its files, as strace recorded them, or requests
//! that a drive was sent, done again.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use ringfall_config::InputError;
use ringfall_core::units::GIB;
use ringfall_engine::device::CacheDir;
use ringfall_host::exit::Exit;
use ringfall_host::files::unguessable;
use ringfall_host::interrupt::{Interrupt, leave_nothing_of};
use ringfall_host::{
    BlockDelta, Machine, ProgressLine, counted, free_bytes, human, human_time, takes_direct_io,
};
use ringfall_model::cold::caches_below;
use ringfall_report::show::{
    InjectedLatency, NotReplayed, REPLAY_VERSION, ReplayReport, replay_page,
};
use ringfall_running::layouts::{Replay, ReplayOutcome};
use ringfall_running::source::{Reading, open_file};
use ringfall_workloads::recording::{FileAction, OpenMode, Order, Part};

use super::{Output, buffer_bytes, check_place, directory, interrupted, with_setup, work};
use crate::cli::LayoutsReplayArgs;
use crate::commands::answer::Answer;
use crate::commands::run::check_output_writable;
use crate::commands::{interrupt, is_stdout, refuse_input, refuse_launcher, text_stream};

/// Random seed of the files' contents and of injected latencies.
const SEED: u64 = 42;
/// Duration of a replay from which on it is told before, s.
const LONG_S: f64 = 60.0;

/// Replays a recording.
pub(super) fn run(args: &LayoutsReplayArgs) -> Result<Exit> {
    refuse_launcher("layouts replay")?;
    let args = &LayoutsReplayArgs { cache_dir: directory(&args.cache_dir)?, ..args.clone() };
    let file = args.json.as_deref().filter(|output| !is_stdout(output));
    if let Some(output) = file {
        refuse_input("--json", output, [args.recording.as_path()])?;
        check_output_writable("--json", output)?;
    }
    check_place(&args.cache_dir)?;
    let interrupt = interrupt()?;
    let (part, order) = match read(args, &interrupt) {
        Err(_) if interrupt.is_set() => return Ok(interrupted()),
        read => read?,
    };
    let replay = Replay {
        part: &part,
        order: &order,
        speed: args.speed.0,
        injected: args.inject_latency,
        is_direct: takes_direct_io(&std::path::absolute(&args.cache_dir)?) != Some(false),
        seed: SEED,
        interrupt: &interrupt,
    };
    check_room(&args.cache_dir, &replay)?;
    let _answer = Answer::to(work("replay", &args.cache_dir), &interrupt);
    let mut place = CacheDir::open(&args.cache_dir)?;
    leave_nothing_of(place.made());
    let found = replayed(args, &replay, &mut place);
    let removed = place.remove();
    let output = Output { json: args.json.as_deref(), quiet: args.quiet };
    output.told(found, removed, replay_page, ReplayReport::differed)
}

/// Reads the recording, and puts its operations in order.
fn read(args: &LayoutsReplayArgs, interrupt: &Interrupt) -> Result<(Part, Order), InputError> {
    let path = &args.recording;
    let wrong = |why: String| InputError::new(format!("{}: {why}", path.display()));
    let ends = interrupt.clone();
    let reading = Reading::new(move || ends.is_set(), !args.quiet);
    let reader = open_file(path, &reading).map_err(wrong)?;
    let part = Part::read(reader, args.below.as_deref());
    let part = part.map_err(|error| wrong(error.to_string()))?;
    let order = Order::of(&part).map_err(|error| wrong(error.to_string()))?;
    Ok((part, order))
}

/// Refuses a recording that needs more space or memory than there is, when what a comparison or
/// replay that was killed left there is deleted.
fn check_room(place: &Path, replay: &Replay<'_>) -> Result<()> {
    CacheDir::reclaim_in(place)?;
    let before_bytes = bytes_before(replay.part);
    let written_bytes = replay.part.written_bytes;
    match free_bytes(place) {
        Some(free) if before_bytes.saturating_add(written_bytes) > free => refuse!(
            "the recording finds files of {} and needs {} more, and {} has {} free: free space \
             there, replay fewer files with --below, or record a shorter time",
            human(before_bytes),
            human(written_bytes),
            place.display(),
            human(free)
        ),
        _ => {}
    }
    let memory = buffer_bytes();
    if replay.buffer_bytes() > memory {
        refuse!(
            "the recording has {} at work at a time, whose buffers take {}, and {} are left for \
             them: replay fewer files with --below, or record a shorter time",
            counted(replay.order.lanes.len() as u64, "thread"),
            human(replay.buffer_bytes()),
            human(memory)
        );
    }
    Ok(())
}

fn bytes_before(part: &Part) -> u64 {
    part.files_before.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
}

/// Replays in a directory of its own; none where a signal ended that.
fn replayed(
    args: &LayoutsReplayArgs,
    replay: &Replay<'_>,
    place: &mut CacheDir,
) -> Result<Option<ReplayReport>> {
    let unique = unguessable().context("the system gives no random name for a directory")?;
    let directory = place.make_directory(&unique)?;
    let machine = Machine::look(place.path());
    let is_json = args.json.as_deref().is_some_and(is_stdout);
    let mut progress = ProgressLine::new(text_stream(is_json), args.quiet, None);
    long(replay.order.took_ns, replay.speed).iter().for_each(|text| progress.tell(text));
    progress.rewrite("making the files that the recording finds…");
    if let Some(failed) = replay.set_up(&directory).map_err(with_setup)? {
        bail!("{failed}");
    }
    progress.rewrite("replaying…");
    let outcome = replay.run(&directory, &machine).map_err(with_setup)?;
    progress.clear();
    Ok(outcome.map(|outcome| report(args, replay, &machine, outcome)))
}

/// Sentence about a replay that takes long, with its next step.
fn long(recorded_ns: u64, speed: Option<f64>) -> Option<String> {
    let about_s = recorded_ns as f64 / 1e9 / speed?;
    (about_s >= LONG_S).then(|| {
        format!(
            "the replay takes about {}, with the gaps of the recording: a higher --speed shortens \
             them, and --speed max leaves them out",
            human_time(about_s * 1e3)
        )
    })
}

/// Sentences that a reader of the figures must know.
fn notes(
    machine: &Machine,
    cached: Option<String>,
    reads_buffered: bool,
    is_direct: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if reads_buffered {
        let note = "reads without O_DIRECT may come from the page cache, and not the same ones in \
                    the recording and here, where files that were there before are not in it: a \
                    ratio of reads may compare a drive with memory";
        notes.push(note.to_owned());
    }
    notes.extend(machine.in_memory());
    match cached {
        // It has these, too.
        Some(told) => notes.push(told),
        None => notes.extend(caches_below(machine)),
    }
    if !is_direct {
        notes.push("the file system takes no O_DIRECT: files are opened without".to_owned());
    }
    notes
}

/// Whether a call read through the page cache.
fn reads_buffered(part: &Part) -> bool {
    let mut direct = BTreeSet::new();
    part.operations.iter().any(|operation| match operation.action {
        FileAction::Open {
            handle: Some(handle), mode: OpenMode { direct: is_direct, .. }, ..
        }
        | FileAction::SetFlags { handle, direct: is_direct, .. } => {
            match is_direct {
                true => direct.insert(handle),
                false => direct.remove(&handle),
            };
            false
        }
        FileAction::Read { handle, .. } => operation.is_call && !direct.contains(&handle),
        _ => false,
    })
}

/// Sentence about the requests that a drive completed meanwhile.
fn completed(drive: &BlockDelta) -> String {
    let told = |count: u64, kind: &str, bytes: u64| {
        format!("{} of {}", counted(count, kind), human(bytes))
    };
    format!(
        "the kernel counted {} and {} on {} meanwhile, with those of others",
        told(drive.reads, "read", drive.read_bytes),
        told(drive.writes, "write", drive.write_bytes),
        drive.device
    )
}

fn report(
    args: &LayoutsReplayArgs,
    replay: &Replay<'_>,
    machine: &Machine,
    outcome: ReplayOutcome,
) -> ReplayReport {
    let (part, order) = (replay.part, replay.order);
    let ReplayOutcome { elapsed_s, operations, differing, first_differing, .. } = outcome;
    let mut notes = notes(machine, outcome.cached, reads_buffered(part), replay.is_direct);
    notes.extend(outcome.drive.as_ref().filter(|_| part.follows_all).map(completed));
    ReplayReport {
        ringfall_layout_replay: REPLAY_VERSION,
        version: env!("CARGO_PKG_VERSION"),
        place: args.cache_dir.display().to_string(),
        drive: machine.device.as_ref().map(|device| device.name.clone()),
        file_system: machine.mount.as_ref().map(|mount| mount.file_system.clone()),
        recording: args.recording.display().to_string(),
        operation: if part.follows_all { "request" } else { "call" },
        below: part.below.clone(),
        lanes: order.lanes.len() as u64,
        files_before: part.files_before.len() as u64,
        gib_before: bytes_before(part) as f64 / GIB as f64,
        speed: replay.speed,
        injected: replay.injected.map(|latencies| InjectedLatency {
            p50_us: latencies.median.as_ns_f64() / 1e3,
            p99_us: latencies.p99.as_ns_f64() / 1e3,
        }),
        recorded_s: order.took_ns as f64 / 1e9,
        replayed_s: elapsed_s,
        recorded_in_flight: outcome.recorded_in_flight,
        in_flight: outcome.in_flight,
        operations,
        differing,
        first_differing,
        not_replayed: part
            .left_out
            .iter()
            .map(|(call, left)| NotReplayed { call, count: left.count, bytes: left.bytes })
            .collect(),
        elsewhere: part.elsewhere,
        untold: part.untold,
        unread_lines: part.skipped.rows,
        first_unread: part.skipped.first.clone(),
        notes,
    }
}

#[cfg(test)]
mod tests {
    use ringfall_host::{ChainLink, DeviceFacts, MountFacts};
    use ringfall_workloads::recording::Recording;

    use super::*;

    #[test]
    fn a_replay_that_takes_long_is_told_before() {
        let day_ns = 86_400_000_000_000;
        let told = long(day_ns, Some(1.0)).unwrap();
        assert!(told.contains("about 86400 s") && told.contains("--speed max"), "{told}");
        assert_eq!((long(day_ns, None), long(day_ns, Some(1_000.0 * 86.4))), (None, None));
    }

    /// Only the README told it.
    #[test]
    fn buffered_reads_are_told_of() {
        let told = |opened: &str| {
            let lines = format!(
                "1 100.0 open(\"/kv/a\", O_RDONLY{opened}\n\
                 1 101.0 read(3</kv/a>, \"\", 4096) = 10 <0.1>\n"
            );
            let recording = Recording::read(lines.as_bytes()).unwrap();
            let part = Part::of(recording, Some("/kv")).unwrap();
            notes(&Machine::default(), None, reads_buffered(&part), true)
        };
        let [note] = &told(") = 3</kv/a> <0.1>")[..] else { panic!("one note") };
        assert!(note.contains("may come from the page cache, and not the same ones"), "{note}");
        let direct = "|O_DIRECT) = 3</kv/a> <0.1>";
        let set = "\n1 100.5 fcntl(3</kv/a>, F_SETFL, O_RDONLY";
        assert!(told(direct).is_empty());
        assert!(told(&format!("{direct}{set}|O_DIRECT) = 0 <0.1>")).is_empty());
        assert_eq!(told(&format!("{direct}{set}) = 0 <0.1>")).len(), 1);
    }

    #[test]
    fn memory_in_place_of_a_drive_and_caches_below_are_told() {
        let file_system = "tmpfs".to_owned();
        let mount = Some(MountFacts { file_system, ..MountFacts::default() });
        let found = notes(&Machine { mount, ..Machine::default() }, None, false, true);
        assert_eq!(found, ["the data was in memory (tmpfs): no drive was measured"]);
        let [name, kind] = ["loop3", "loop"].map(str::to_owned);
        let link = ChainLink { name: name.clone(), numbers: String::new(), kind, above: None };
        let device = Some(DeviceFacts { name, ..DeviceFacts::default() });
        let on_loop = Machine { device, device_chain: vec![link], ..Machine::default() };
        let found = notes(&on_loop, None, false, true);
        assert_eq!(found, ["the file of loop3 may be in the page cache unseen"]);
        let counted = "the kernel counted only 1.0 %; below it, the file of loop3".to_owned();
        assert_eq!(notes(&on_loop, Some(counted.clone()), false, true), [counted]);
    }
}
