//! Real devices that answer late or never again, and file systems that shut down. Needs root, as
//! [`crate::media`] does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::media::{IMAGE_BYTES, Loop, ext4_of, on, small_ext4, tool};
use crate::support::{
    Scratch, assert_fails, ended_well, finish, insist, skipped, spawn, text, wait_until,
};

/// Thawed when it is over, also by a failure: what is frozen can't be unmounted.
struct Frozen(PathBuf);

impl Frozen {
    fn new(point: &Path) -> Result<Frozen, String> {
        tool("fsfreeze", &["-f", point.to_str().unwrap()]).map(|_| Frozen(point.to_owned()))
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Err(why) = tool("fsfreeze", &["-u", self.0.to_str().unwrap()]) {
            eprintln!("{why}");
        }
    }
}

/// A device that stopped answering near the end of a window lost the whole result.
#[test]
fn what_was_measured_is_written_while_the_device_does_not_answer() {
    let scratch = Scratch::new("frozen");
    let (_image, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("a device that does not answer", &why),
    };
    let place = point.join("kv");
    let shape = ["--cache-dir", place.to_str().unwrap(), "--duration", "8", "--prefill-only"];
    let run = scratch.start(&shape);
    // The file grows by steps of which each is due when half of the one before has been written.
    wait_until("entries are written", || crate::support::data_bytes(&place) > 100 << 20);
    let frozen = match Frozen::new(&point) {
        Ok(frozen) => frozen,
        Err(why) => {
            drop(finish(run));
            return skipped("a device that does not answer", &why);
        }
    };
    let result = scratch.file("result.json");
    let began = Instant::now();
    while !result.exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let kept = result.exists().then(|| scratch.json());
    drop(frozen);
    let ended = finish(run);
    let kept = kept.expect("it was written before the device answered again");
    let told = kept["ringfall"]["window"]["failure"].to_string();
    assert!(told.contains("nothing has ended for 5 s"), "{told}");
    assert!(kept["ringfall"]["cache"]["writes"].as_u64() > Some(0), "{kept}");
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    let whole = &scratch.json()["ringfall"]["window"]["failure"];
    assert!(whole.is_null(), "{whole}");
}

/// A group whose processes read and write that device at so many bytes a second; lifted on drop.
struct Throttled {
    group: PathBuf,
    numbers: String,
}

impl Throttled {
    const FILES: [&str; 2] = ["blkio.throttle.write_bps_device", "blkio.throttle.read_bps_device"];

    fn new(scratch: &Scratch, device: &str, bytes_per_s: u64) -> Result<Throttled, String> {
        let name = Path::new(device).file_name().unwrap().to_string_lossy();
        let numbers = std::fs::read_to_string(format!("/sys/block/{name}/dev"));
        let numbers = numbers.map_err(|error| error.to_string())?.trim().to_owned();
        let unique = scratch.file("").file_name().unwrap().to_string_lossy().into_owned();
        let group = Path::new("/sys/fs/cgroup/blkio").join(unique);
        std::fs::create_dir(&group).map_err(|error| format!("no group for blkio: {error}"))?;
        let throttled = Throttled { group, numbers };
        throttled.limit(bytes_per_s).map_err(|error| format!("no limit for blkio: {error}"))?;
        Ok(throttled)
    }

    /// 0: none.
    fn limit(&self, bytes_per_s: u64) -> std::io::Result<()> {
        Self::FILES.iter().try_for_each(|file| {
            std::fs::write(self.group.join(file), format!("{} {bytes_per_s}", self.numbers))
        })
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        let _lifted = self.limit(0);
        if let Err(why) = std::fs::remove_dir(&self.group) {
            eprintln!("{}: {why}", self.group.display());
        }
    }
}

/// Nothing was said for 36 s; a signal then changed nothing, and the status was 0 in the end.
#[test]
fn a_drive_of_a_tenth_of_a_megabyte_a_second_is_told_and_an_interrupted_run_on_it_ends() {
    let scratch = Scratch::new("slow-drive");
    let (mut image, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("a slow drive", &why),
    };
    let throttled = match Throttled::new(&scratch, &image.device, 100_000) {
        Ok(throttled) => throttled,
        Err(why) => return skipped("a slow drive", &why),
    };
    let place = point.join("kv");
    let shape = ["--cache-dir", place.to_str().unwrap(), "--duration", "2", "--prefill-only"];
    let command = scratch.run_command(&shape);
    let mut slow = Command::new("sh");
    slow.args(["-c", "echo $$ >$0/cgroup.procs; exec \"$@\""]).arg(&throttled.group);
    slow.arg(command.get_program()).args(command.get_args());
    let log = scratch.file("log");
    let file = std::fs::File::create(&log).unwrap();
    slow.current_dir(scratch.file("")).stdout(file.try_clone().unwrap()).stderr(file);
    let mut child = slow.spawn().unwrap();
    let has = |words: &str| std::fs::read_to_string(&log).unwrap().contains(words);
    wait_until("the drive is said to be slow", || has("waiting for the drive: "));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_until("the signal is answered", || has("interrupted: ending the run within 30 s"));
    wait_until("what was measured is shown", || has("(interrupted)"));
    let result = scratch.json();
    assert_eq!(result.pointer("/ringfall/window/interrupted"), Some(&true.into()));
    let limit = result.pointer("/ringfall/machine/throttles/1/limit");
    assert_eq!(limit, Some(&"write_bps=100000".into()));
    // The kernel keeps a process whose I/Os have not ended.
    throttled.limit(0).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // The I/Os end behind the process, and hold the file system until then.
    let unmounts = || tool("umount", &[point.to_str().unwrap()]).is_ok();
    wait_until("the kernel lets the file system go", unmounts);
    image.mounted.clear();
}

/// Its results were lost, and the drive was said not to answer.
#[test]
fn saves_that_were_measured_are_kept_when_a_slow_drive_keeps_the_next_one_from_ending() {
    let scratch = Scratch::new("slow-saves");
    let (mut image, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("saves on a slow drive", &why),
    };
    let throttled = match Throttled::new(&scratch, &image.device, 0) {
        Ok(throttled) => throttled,
        Err(why) => return skipped("saves on a slow drive", &why),
    };
    let place = point.join("saves");
    let mut slow = Command::new("sh");
    slow.args(["-c", "echo $$ >$0/cgroup.procs; exec \"$@\""]).arg(&throttled.group);
    slow.arg(env!("CARGO_BIN_EXE_ringfall")).args(["checkpoint", "run"]).arg(&place);
    slow.args(["--size-gib", "0.25", "--interval", "1", "--restore-every", "0"]);
    slow.args(["--duration", "100", "--output", "o.json"]);
    let log = scratch.file("log");
    let file = std::fs::File::create(&log).unwrap();
    slow.current_dir(scratch.file("")).stdout(file.try_clone().unwrap()).stderr(file);
    let mut child = slow.spawn().unwrap();
    wait_until("a save has ended", || place.join("slot-1/checkpoint.json").exists());
    throttled.limit(1_000_000).unwrap();
    let draft = place.join("slot-0/rank-00000-of-00001.ckpt.part");
    wait_until("the next one has begun", || draft.exists());
    std::thread::sleep(Duration::from_secs(1));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let told = || std::fs::read_to_string(&log).unwrap();
    wait_until("it is ended", || told().contains("and is ended now"));
    throttled.limit(0).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let unmounts = || tool("umount", &[point.to_str().unwrap()]).is_ok();
    wait_until("the kernel lets the file system go", unmounts);
    image.mounted.clear();
    for words in ["has not finished what was in flight", "is in o.json", "anew with --overwrite"] {
        assert!(told().contains(words), "{}", told());
    }
    let kept = std::fs::read(scratch.file("o.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    crate::support::assert_valid_as("checkpoint", &kept);
    assert_eq!(kept["training"]["interrupted"], true);
    assert_eq!(kept["saves"].as_array().map(Vec::len), Some(1), "{kept}");
}

/// They were lost with the save that failed.
#[test]
fn saves_that_were_measured_are_kept_when_the_file_system_is_full() {
    let scratch = Scratch::new("full-saves");
    let (mut image, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("saves on a full file system", &why),
    };
    let place = point.join("saves");
    let mut job = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    job.args(["checkpoint", "run"]).arg(&place).args(["--size-gib", "0.05", "--interval", "1"]);
    job.args(["--restore-every", "0", "--duration", "100", "--output", "o.json"]);
    job.current_dir(scratch.file("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = job.spawn().unwrap();
    wait_until("a save has ended", || place.join("slot-1/checkpoint.json").exists());
    let mut fill = std::fs::File::create(point.join("fill")).unwrap();
    while fill.write_all(&[1; 1 << 16]).is_ok() {}
    let ended = child.wait_with_output().unwrap();
    drop(fill);
    let unmounts = || tool("umount", &[point.to_str().unwrap()]).is_ok();
    wait_until("the kernel lets the file system go", unmounts);
    image.mounted.clear();
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{told}");
    let kept = std::fs::read(scratch.file("o.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["training"]["interrupted"], false);
    let warnings = kept["warnings"].to_string();
    assert!(warnings.contains("the job ended early: "), "{warnings}");
    assert!(kept["saves"].as_array().is_some_and(|saves| !saves.is_empty()), "{kept}");
}

/// Only a run's own I/Os were waited for aloud.
#[test]
fn a_drive_that_does_not_take_what_is_written_before_the_run_is_told() {
    let scratch = Scratch::new("frozen-before");
    let (_image, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("a device that does not answer before the run", &why),
    };
    let place = point.join("kv");
    let shape = ["--cache-dir", place.to_str().unwrap(), "--duration", "1", "--precondition"];
    let log = scratch.file("log");
    let command = scratch.run_command(&[&shape[..], &["--precondition-size-gb", "2"]].concat());
    let mut logged = Command::new("sh");
    logged.args(["-c", "exec \"$0\" \"$@\" 2>log"]).arg(command.get_program());
    let run = spawn({
        logged.args(command.get_args()).current_dir(&scratch.path);
        logged
    });
    wait_until("it is written full", || crate::support::data_bytes(&place) > 100 << 20);
    let frozen = match Frozen::new(&point) {
        Ok(frozen) => frozen,
        Err(why) => {
            drop(finish(run));
            return skipped("a device that does not answer before the run", &why);
        }
    };
    wait_until("the wait is told", || {
        std::fs::read_to_string(&log).unwrap().contains("waiting for the")
    });
    drop(frozen);
    ended_well(finish(run));
    let told = std::fs::read_to_string(&log).unwrap();
    let name = place.join("ringfall.kv");
    let of_drive = format!("waiting for the drive of {} to write, 10 s so far", name.display());
    let of_space = format!("waiting for the space of {}, 10 s so far", place.display());
    assert!(told.contains(&of_drive) || told.contains(&of_space), "{told}");
}

/// Its thread waited for the device, and the process ended without a word of what it left.
#[test]
fn a_second_signal_names_what_a_device_that_does_not_answer_keeps() {
    let scratch = Scratch::new("frozen-insisting");
    let (_image, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("a second signal while a device does not answer", &why),
    };
    let place = point.join("kv");
    let mut run = scratch.start(&["--cache-dir", place.to_str().unwrap(), "--duration", "100"]);
    wait_until("entries are written", || crate::support::data_bytes(&place) > 0);
    let frozen = match Frozen::new(&point) {
        Ok(frozen) => frozen,
        Err(why) => {
            run.kill().unwrap();
            drop(finish(run));
            return skipped("a second signal while a device does not answer", &why);
        }
    };
    let insisting = insist(&run);
    // It can't end before the file system is thawed, but says so at once.
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let mut told = String::new();
    while !told.contains("could not be deleted in time") {
        told = lines.next().expect("it says what it leaves").unwrap();
    }
    drop(frozen);
    let ended = finish(run);
    insisting.join().unwrap();
    for word in ["a second signal ended", "kv/ringfall.kv", "kv/ringfall.lock", "next run"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    assert_eq!(ended.status.code(), Some(130));
    ended_well(on(&scratch, &place, &[]));
    assert!(!place.join("ringfall.kv").exists() && !place.join("ringfall.lock").exists());
}

/// Its search for the drive's limits went on without a word for as long as the device was silent.
#[test]
fn a_quick_answer_that_is_interrupted_says_so_while_the_device_does_not_answer() {
    let scratch = Scratch::new("frozen-quick");
    let (_image, point) = match ext4_of(&scratch, 1_200 << 20) {
        Ok(made) => made,
        Err(why) => return skipped("an interrupted quick answer on a silent device", &why),
    };
    let place = point.join("kv");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["quick", "--time=15s", "--space=800MiB", "--model=tiny-1b"]).arg(&place);
    let mut quick = spawn({
        command.current_dir(&scratch.path);
        command
    });
    wait_until("its limits are searched", || crate::support::data_bytes(&place) > 0);
    let frozen = match Frozen::new(&point) {
        Ok(frozen) => frozen,
        Err(why) => {
            quick.kill().unwrap();
            drop(finish(quick));
            return skipped("an interrupted quick answer on a silent device", &why);
        }
    };
    let pid = rustix::process::Pid::from_child(&quick);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut lines = BufReader::new(quick.stderr.take().unwrap()).lines();
    let mut told = String::new();
    while !told.contains("interrupted") {
        told = lines.next().expect("it answers the signal").unwrap();
    }
    drop(frozen);
    assert_eq!(finish(quick).status.code(), Some(130), "{told}");
}

/// A file system that has shut down fails each look, and was said to hold another file.
#[test]
fn a_file_system_that_shuts_down_is_told_as_that() {
    let scratch = Scratch::new("shut-down");
    if let Err(why) = shut_down(&scratch) {
        skipped("a file system that shuts down", &why);
    }
}

fn shut_down(scratch: &Scratch) -> Result<(), String> {
    let mut device = Loop::new(scratch, IMAGE_BYTES)?;
    let name = device.device.clone();
    tool("mkfs.xfs", &["-q", "-f", &name])?;
    let point = device.mount(&name, scratch.file("mounted"), "rw")?;
    let place = point.join("kv");
    let run = scratch.start(&["--cache-dir", place.to_str().unwrap(), "--duration", "100"]);
    wait_until("entries are written", || crate::support::data_bytes(&place) > 0);
    let lost = tool("xfs_io", &["-x", "-c", "shutdown", point.to_str().unwrap()]);
    if lost.is_err() {
        insist(&run);
    }
    let ended = finish(run);
    lost?;
    assert_fails(&ended, 1, &["Input/output error"]);
    assert!(!text(&ended).contains("another file has its name"), "{}", text(&ended));
    Ok(())
}

/// Only one error was told of several, without what is left behind, and the status of a run that
/// was interrupted was 1.
#[test]
fn a_file_system_that_turns_read_only_keeps_files_which_are_named_and_then_reclaimed() {
    let scratch = Scratch::new("read-only");
    if let Err(why) = turn_read_only(&scratch) {
        skipped("a file system that turns read-only", &why);
    }
}

fn turn_read_only(scratch: &Scratch) -> Result<(), String> {
    let mut device = Loop::new(scratch, IMAGE_BYTES)?;
    let name = device.device.clone();
    tool("mkfs.ext4", &["-q", "-F", &name])?;
    let point = device.mount(&name, scratch.file("mounted"), "rw,errors=remount-ro")?;
    let abort = || tool("mount", &["-o", "remount,abort", point.to_str().unwrap()]);
    let place = point.join("kv");
    let mut saturate = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    saturate.args(["saturate", "--size-gb", "0.25", "--output", "limits.json", "--cache-dir"]);
    saturate.arg(&place).current_dir(&scratch.path).stdin(Stdio::null());
    let searching = spawn(saturate);
    wait_until("the search has its data file", || crate::support::data_bytes(&place) > 0);
    // Else the file may have no space yet in the journal, and the next run nothing to reclaim.
    let synced = tool("sync", &["--file-system", point.to_str().unwrap()]);
    let aborted = synced.and_then(|_| abort());
    if aborted.is_err() {
        insist(&searching);
    }
    let ended = finish(searching);
    aborted?;
    let left =
        ["kv/ringfall.kv and ", "kv/ringfall.lock, left behind", "next run in that directory"];
    assert_fails(&ended, 1, &[&[" failed: "][..], &left].concat());

    mount_again(&mut device, &point)?;
    let next = ended_well(on(scratch, &place, &[]));
    assert!(text(&next).contains("reclaimed"), "{}", text(&next));
    assert!(!place.join("ringfall.kv").exists());

    let results = point.join("o.json");
    let more = ["--duration", "100", "--output", results.to_str().unwrap(), "--cache-dir"];
    let run = scratch.start(&[&more[..], &[place.to_str().unwrap()]].concat());
    wait_until("entries are written", || crate::support::data_bytes(&place) > 0);
    let aborted = abort();
    let pid = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let ended = finish(run);
    aborted?;
    let lost = ["o.json: Read-only file system", "name a file on another disk"];
    assert_fails(&ended, 130, &[&lost[..], &left].concat());
    Ok(())
}

/// Mounts a file system again whose journal was given up, once nothing uses it.
fn mount_again(device: &mut Loop, point: &Path) -> Result<(), String> {
    wait_until("nothing uses it", || tool("umount", &[point.to_str().unwrap()]).is_ok());
    device.mounted.clear();
    // Its status says that it has mended something.
    let _mended = tool("e2fsck", &["-f", "-y", &device.device]);
    let name = device.device.clone();
    device.mount(&name, point.to_path_buf(), "rw,errors=remount-ro").map(drop)
}

/// Only the failed call was told: neither what was left nor what to do about it.
#[test]
fn a_comparison_of_layouts_names_what_it_leaves_on_a_file_system_that_turns_read_only() {
    let scratch = Scratch::new("layouts-read-only");
    if let Err(why) = turn_read_only_below_layouts(&scratch) {
        skipped("layouts on a file system that turns read-only", &why);
    }
}

fn turn_read_only_below_layouts(scratch: &Scratch) -> Result<(), String> {
    let mut device = Loop::new(scratch, IMAGE_BYTES)?;
    let name = device.device.clone();
    tool("mkfs.ext4", &["-q", "-F", &name])?;
    let point = device.mount(&name, scratch.file("mounted"), "rw,errors=remount-ro")?;
    let place = point.join("kv");
    let compare = |seconds: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(["layouts", "compare", "--model", "tiny-1b", "--layout", "vllm", "--space"]);
        command.args(["128MiB", "--seconds-each", seconds, "--cache-dir"]).arg(&place);
        command.current_dir(&scratch.path).stdin(Stdio::null());
        spawn(command)
    };
    let comparing = compare("5");
    let made = || crate::layouts::directories(&place);
    let is_stored = || made().first().is_some_and(|made| made.read_dir().unwrap().count() > 0);
    wait_until("objects are stored", is_stored);
    let aborted = tool("mount", &["-o", "remount,abort", point.to_str().unwrap()]);
    if aborted.is_err() {
        insist(&comparing);
    }
    let ended = finish(comparing);
    aborted?;
    let left =
        ["kv/ringfall-layouts-", "kv/ringfall.lock, left behind", "next run in that directory"];
    assert_fails(&ended, 1, &[&["Read-only file system"][..], &left].concat());

    mount_again(&mut device, &point)?;
    ended_well(finish(compare("0.3")));
    assert_eq!(place.read_dir().unwrap().count(), 0);
    Ok(())
}

/// The lock file, which says that the data file is ours, was never synced: it came back empty.
#[test]
fn what_a_power_failure_leaves_is_reclaimed() {
    for file_system in ["ext4", "xfs"] {
        let scratch = Scratch::new("power");
        if let Err(why) = lose_power(&scratch, file_system) {
            skipped(&format!("a power failure on {file_system}"), &why);
        }
    }
}

fn lose_power(scratch: &Scratch, file_system: &str) -> Result<(), String> {
    let mut device = Loop::new(scratch, IMAGE_BYTES)?;
    let name = device.device.clone();
    let force = if file_system == "xfs" { "-f" } else { "-F" };
    tool(&format!("mkfs.{file_system}"), &["-q", force, &name])?;
    let point = device.mount(&name, scratch.file("mounted"), "rw")?;
    let place = point.join("kv");
    let more = ["--cache-dir", place.to_str().unwrap(), "--duration", "100"];
    let mut run = scratch.start(&more);
    wait_until("entries are written", || crate::support::data_bytes(&place) > 0);
    // Its journal is written, as it would be after some seconds: the names are there for good.
    let beside = std::fs::File::create(point.join("beside")).unwrap();
    beside.sync_all().unwrap();
    drop(beside);
    let lost = tool("xfs_io", &["-x", "-c", "shutdown", point.to_str().unwrap()]);
    run.kill().unwrap();
    drop(finish(run));
    lost?;
    // What the run had in flight is given up a moment after it has ended.
    wait_until("nothing uses it", || tool("umount", &[point.to_str().unwrap()]).is_ok());
    device.mounted.clear();
    device.mount(&name, point.clone(), "rw")?;
    assert!(place.join("ringfall.kv").exists(), "the power failure left the data file");
    let next = ended_well(on(scratch, &place, &[]));
    assert!(text(&next).contains("reclaimed"), "{}", text(&next));
    assert!(!place.join("ringfall.kv").exists());
    Ok(())
}
