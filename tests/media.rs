//! Real devices made for the occasion: loop devices, zram, file systems on them. Needs root; where
//! the machine does not allow one, the test says so and ends.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{
    Scratch, assert_fails, copy_program, ended_well, finish, output, skipped, spawn, text,
    wait_until,
};

pub const IMAGE_BYTES: u64 = 768 << 20;

/// Output of a command, or why it could not run.
pub fn tool(program: &str, args: &[&str]) -> Result<String, String> {
    let told = |what: String| format!("{program} {}: {what}", args.join(" "));
    let output =
        Command::new(program).args(args).output().map_err(|error| told(error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(told(text(&output))),
    }
}

pub fn is_root() -> bool {
    tool("id", &["-u"]).is_ok_and(|id| id == "0")
}

/// Longest wait for a file system that is still in use.
const BUSY_PATIENCE: Duration = Duration::from_secs(5);

/// A loop device over a sparse file, detached on drop.
pub struct Loop {
    pub device: String,
    pub mounted: Vec<PathBuf>,
}

impl Loop {
    pub fn new(scratch: &Scratch, bytes: u64) -> Result<Loop, String> {
        if !is_root() {
            return Err("it needs root".to_owned());
        }
        let image = scratch.file("image");
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        let device = tool("losetup", &["-f", "--show", image.to_str().unwrap()])?;
        Ok(Loop { device, mounted: Vec::new() })
    }

    pub fn mount(&mut self, what: &str, point: PathBuf, options: &str) -> Result<PathBuf, String> {
        std::fs::create_dir_all(&point).unwrap();
        tool("mount", &["-o", options, what, point.to_str().unwrap()])?;
        self.mounted.push(point.clone());
        Ok(point)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        for point in self.mounted.iter().rev() {
            if let Err(why) = unmount(point) {
                eprintln!("{why}");
            }
        }
        // Where there is one.
        let _partition = tool("delpart", &[&self.device, "1"]);
        if let Err(why) = tool("losetup", &["-d", &self.device]) {
            eprintln!("{why}");
        }
    }
}

/// Unmounts what a process that was just killed may hold until its last I/O has ended; of one that
/// is held for longer the kernel keeps the file system until then.
pub fn unmount(point: &Path) -> Result<(), String> {
    let (point, began) = (point.to_str().unwrap(), Instant::now());
    loop {
        match tool("umount", &[point]) {
            Err(why) if !why.contains("busy") => return Err(why),
            Err(_) if began.elapsed() < BUSY_PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(_) => return tool("umount", &["-l", point]).map(drop),
            Ok(_) => return Ok(()),
        }
    }
}

/// A test that failed just after it had killed a run left both behind.
#[test]
fn a_mount_that_is_held_for_a_while_is_gone_and_its_loop_device_too() {
    let scratch = Scratch::new("held-mount");
    let (device, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("a mount that is held", &why),
    };
    let loop_file = format!("/sys/block/{}/loop", device.device.trim_start_matches("/dev/"));
    let held = std::fs::File::create(point.join("held")).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(device));
        std::thread::sleep(Duration::from_millis(500));
        drop(held);
    });
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(point.to_str().unwrap()), "{mounts}");
    assert!(!Path::new(&loop_file).exists(), "{loop_file}");
}

/// Tells the kernel of a partition of 40 MiB; no table is written, which not every kernel reads.
fn partition(device: &str) -> Result<(), String> {
    tool("addpart", &[device, "1", "2048", "81920"]).map(|_| ())
}

pub fn on(scratch: &Scratch, place: &Path, more: &[&str]) -> std::process::Output {
    let mut args = vec!["--cache-dir", place.to_str().unwrap()];
    args.extend(more);
    scratch.run(&args)
}

/// The file behind a loop device was just written, so it is in the page cache, and reads of the
/// loop device are none of the disk below, unless others read as much from that.
fn assert_cached_below_the_loop(result: &Value) {
    let device = &result["ringfall"]["device"];
    let chain = device["chain"].as_array().unwrap();
    let ours = device["engine_read_bytes"].as_u64().unwrap();
    let disk = chain.last().and_then(|link| link["read_bytes"].as_u64()).unwrap();
    let cold = &device["cold_reads"];
    if chain.len() < 2 || disk as f64 >= 0.99 * ours as f64 {
        return skipped("reads below a loop device", "its disk is not seen, or busy with others");
    }
    assert_eq!(cold["verdict"], "cached", "{cold} {chain:?}");
    let told = cold["told"].as_str().unwrap();
    assert!(told.contains("the file behind loop") && told.contains("page cache"), "{told}");
    let warnings = result["ringfall"]["warnings"].to_string();
    assert!(warnings.contains("reads_cached") && warnings.contains(told), "{warnings}");
}

fn assert_clean(result: &Value, file_system: Option<&str>) {
    let ours = &result["ringfall"];
    assert_eq!(ours["verify"]["blocks_bad"], 0, "{}", ours["verify"]);
    assert!(ours["verify"]["blocks_checked"].as_u64() > Some(1_000), "{}", ours["verify"]);
    assert_eq!(ours["errors"]["by_kind"].as_array().map(Vec::len), Some(0), "{}", ours["errors"]);
    let mount = &ours["machine"]["mount"]["file_system"];
    assert_eq!(mount.as_str(), file_system, "{}", ours["machine"]);
}

#[test]
fn a_raw_loop_device_is_a_store_and_its_chain_is_known() {
    let scratch = Scratch::new("raw-loop");
    let device = match Loop::new(&scratch, IMAGE_BYTES) {
        Ok(device) => device,
        Err(why) => return skipped("raw loop device", &why),
    };
    let path = Path::new(&device.device);
    assert_fails(&on(&scratch, path, &[]), 2, &["--destroy-device-contents"]);
    // Twice: the first one's claim must not stop the second.
    for _ in 0..2 {
        ended_well(on(&scratch, path, &["--destroy-device-contents"]));
    }
    let result = scratch.json();
    assert_clean(&result, None);
    let chain = result["ringfall"]["machine"]["device_chain"].as_array().unwrap();
    assert_eq!(chain[0]["kind"], "loop");
    assert!(chain.len() == 1 || chain[1]["above"] == chain[0]["name"], "{chain:?}");
    let kernel = &result["ringfall"]["device"]["kernel"];
    assert!(kernel["read_bytes"].as_u64() > Some(0), "{kernel}");
    // More than it holds is said before anything is written.
    let more = ["--destroy-device-contents", "--storage-capacity-gb", "64"];
    let words = ["has room for 768.0 MiB", "less than the 64.0 GiB"];
    assert_fails(&on(&scratch, path, &more), 1, &words);
}

#[test]
fn a_device_that_anybody_uses_is_refused_and_keeps_every_byte() {
    let scratch = Scratch::new("raw-used");
    let mut device = match Loop::new(&scratch, 96 << 20) {
        Ok(device) => device,
        Err(why) => return skipped("devices in use", &why),
    };
    let whole = PathBuf::from(&device.device);
    let part = PathBuf::from(format!("{}p1", device.device));
    let image = scratch.file("image");
    let hash = || tool("sha256sum", &[image.to_str().unwrap()]).unwrap();
    let destroy = ["--destroy-device-contents", "--storage-capacity-gb", "0"];
    let partitions = partition(&device.device).and_then(|()| {
        wait_until("the partition is there", || part.exists());
        tool("mkfs.ext4", &["-q", "-F", part.to_str().unwrap()])
    });
    if let Err(why) = partitions {
        skipped("a partition in use", &why);
    } else {
        let point = scratch.file("mounted");
        device.mount(part.to_str().unwrap(), point.clone(), "ro,noload").unwrap();
        let before = hash();
        assert_fails(&on(&scratch, &whole, &destroy), 1, &["its partition", "is mounted at"]);
        assert_fails(&on(&scratch, &part, &destroy), 1, &["it is mounted at"]);
        assert_eq!(hash(), before);
        tool("umount", &[point.to_str().unwrap()]).unwrap();
        device.mounted.clear();
        // A loop device on top does not claim what is below it.
        let above = tool("losetup", &["-f", "--show", &device.device]).unwrap();
        let refused = on(&scratch, &whole, &destroy);
        tool("losetup", &["-d", &above]).unwrap();
        assert_fails(&refused, 1, &["sits on it"]);
        assert_eq!(hash(), before);
    }
    let before = hash();
    // Claimed by another process.
    let script = "import os,sys,time;os.open(sys.argv[1],os.O_RDWR|os.O_EXCL);print(1,flush=True);\
                  time.sleep(60)";
    let mut holder = Command::new("python3");
    holder.args(["-c", script, &device.device]).stdout(std::process::Stdio::piped());
    match holder.spawn() {
        Err(error) => skipped("a device held by another", &error.to_string()),
        Ok(mut child) => {
            let mut line = [0u8; 1];
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
            let refused = on(&scratch, &whole, &destroy);
            child.kill().unwrap();
            child.wait().unwrap();
            assert_fails(&refused, 1, &["in use", "claimed"]);
        }
    }
    // Nobody's right to open it.
    let mut unprivileged = Command::new("setpriv");
    unprivileged.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    let copy = std::env::temp_dir().join(format!("ringfall-media-{}", std::process::id()));
    copy_program(&copy);
    unprivileged.arg(&copy).args(["run", "--output", "/dev/null", "--cache-dir"]);
    unprivileged.arg(&whole).args(destroy).current_dir("/");
    let refused = output(unprivileged);
    std::fs::remove_file(&copy).unwrap();
    assert_fails(&refused, 1, &["no permission to open", device.device.as_str()]);
    // Read-only.
    tool("blockdev", &["--setro", &device.device]).unwrap();
    let refused = on(&scratch, &whole, &destroy);
    tool("blockdev", &["--setrw", &device.device]).unwrap();
    assert_fails(&refused, 1, &["is read-only"]);
    assert_eq!(hash(), before);
}

#[test]
fn two_runs_do_not_share_a_device() {
    let scratch = Scratch::new("raw-two");
    let device = match Loop::new(&scratch, IMAGE_BYTES) {
        Ok(device) => device,
        Err(why) => return skipped("two runs on a device", &why),
    };
    let destroy = "--destroy-device-contents";
    let writes = || {
        let stat = format!("/sys/block/{}/stat", device.device.trim_start_matches("/dev/"));
        let text = std::fs::read_to_string(stat).unwrap();
        text.split_whitespace().nth(4).unwrap().parse::<u64>().unwrap()
    };
    let before = writes();
    let first = scratch.start(&["--cache-dir", &device.device, destroy, "--duration", "30"]);
    wait_until("the first run writes", || writes() > before);
    let second = Scratch::new("raw-second");
    let refused = on(&second, Path::new(&device.device), &[destroy]);
    assert_fails(&refused, 1, &["in use"]);
    Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap();
    assert_eq!(finish(first).status.code(), Some(130));
}

#[test]
fn file_systems_on_a_loop_device_hold_a_store_and_can_be_unmounted_at_once() {
    for (file_system, make) in [("ext4", "mkfs.ext4"), ("xfs", "mkfs.xfs")] {
        let scratch = Scratch::new(file_system);
        let mut device = match Loop::new(&scratch, IMAGE_BYTES) {
            Ok(device) => device,
            Err(why) => return skipped(file_system, &why),
        };
        let name = device.device.clone();
        let force = if file_system == "xfs" { "-f" } else { "-F" };
        let mounted = tool(make, &["-q", force, &name])
            .and_then(|_| device.mount(&name, scratch.file("mounted"), "rw"));
        let point = match mounted {
            Ok(point) => point,
            Err(why) => {
                skipped(file_system, &why);
                continue;
            }
        };
        ended_well(on(&scratch, &point.join("store"), &["--storage-capacity-gb", "0.4"]));
        let result = scratch.json();
        assert_clean(&result, Some(file_system));
        assert_cached_below_the_loop(&result);
        // Nothing of the run holds the file system once it has ended.
        tool("umount", &[point.to_str().unwrap()]).unwrap();
        device.mounted.clear();
    }
}

/// The page cache's speed was given as the limit of the drive, without a warning.
#[test]
fn limits_of_a_loop_device_whose_file_is_in_the_page_cache_say_so() {
    let scratch = Scratch::new("limits-loop");
    let (_image, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("limits of a loop device", &why),
    };
    let mut saturate = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    saturate.args(["saturate", "--size-gb", "0.0625", "--time-limit", "3", "--no-iops"]);
    saturate.args(["--read-percent", "100", "--threads", "1", "--depth-max", "8"]);
    saturate.args(["--output", "limits.json", "--cache-dir"]).arg(point.join("kv"));
    saturate.current_dir(&scratch.path).stdin(Stdio::null());
    let ended = ended_well(output(saturate));
    let found = std::fs::read(scratch.file("limits.json")).unwrap();
    let found: Value = serde_json::from_slice(&found).unwrap();
    let chain = found["machine"]["device_chain"].as_array().unwrap();
    let is_counted = |link: &Value| {
        let numbers = link["numbers"].as_str().unwrap();
        !numbers.is_empty() && Path::new(&format!("/sys/dev/block/{numbers}/stat")).exists()
    };
    if chain.len() < 2 || !chain.iter().all(is_counted) {
        return skipped("limits of a loop device", "the disk below it is not seen");
    }
    let told = found["warnings"].to_string();
    for words in ["the kernel counted only", "the file behind loop", "page cache"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let words = text(&ended).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("is in the page cache"), "{words}");
}

#[test]
fn memory_as_a_device_zram_and_tmpfs() {
    let scratch = Scratch::new("zram");
    let added = if is_root() {
        std::fs::read_to_string("/sys/class/zram-control/hot_add").map_err(|e| e.to_string())
    } else {
        Err("it needs root".to_owned())
    };
    match added {
        Err(why) => skipped("zram", &why),
        Ok(number) => {
            let number = number.trim();
            let device = PathBuf::from(format!("/dev/zram{number}"));
            std::fs::write(format!("/sys/block/zram{number}/disksize"), "512M").unwrap();
            wait_until("the device is there", || device.exists());
            let ran = on(&scratch, &device, &["--destroy-device-contents"]);
            let removed = remove_zram(number);
            assert_eq!(ran.status.code(), Some(0), "{}", text(&ran));
            removed.unwrap();
            assert_clean(&scratch.json(), None);
        }
    }
    let store = Path::new("/dev/shm").join(format!("ringfall-media-{}", std::process::id()));
    if !Path::new("/dev/shm").is_dir() {
        return skipped("tmpfs", "there is no /dev/shm");
    }
    let output = on(&scratch, &store, &[]);
    let said = text(&output);
    if output.status.code() == Some(1) && said.contains("O_DIRECT") {
        return skipped("tmpfs", "it has no O_DIRECT before Linux 6.6; the run says so");
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_clean(&scratch.json(), Some("tmpfs"));
    assert!(!store.exists());
    limits_and_checkpoints_say_what_is_in_memory(&scratch, &store);
}

/// Only a run said so.
fn limits_and_checkpoints_say_what_is_in_memory(scratch: &Scratch, store: &Path) {
    const SENTENCE: &str = "the data was in memory (tmpfs): no drive was measured";
    let ran = scratch.json()["ringfall"]["warnings"].to_string();
    assert!(ran.contains(SENTENCE), "{ran}");
    let of = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(arguments.split(' ')).current_dir(&scratch.path).stdin(Stdio::null());
        command
    };
    let mut saturate = of("saturate --size-gb 0.0625 --time-limit 3 --no-iops --read-percent 100 \
         --threads 1 --depth-max 8 --output limits.json");
    saturate.arg("--cache-dir").arg(store);
    let mut write = of("checkpoint write --size-gib 0.0078125 --output checkpoint.json");
    write.arg(store);
    let told = [(saturate, "limits.json"), (write, "checkpoint.json")].map(|(command, name)| {
        let output = finish(spawn(command));
        (output, std::fs::read(scratch.file(name)))
    });
    std::fs::remove_dir_all(store).unwrap();
    for (output, json) in told {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let words = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(SENTENCE), "{words}");
        let json: Value = serde_json::from_slice(&json.unwrap()).unwrap();
        assert_eq!(json["warnings"], serde_json::json!([SENTENCE]));
    }
}

/// The kernel frees a zram device when its last user is gone.
fn remove_zram(number: &str) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let reset = std::fs::write(format!("/sys/block/zram{number}/reset"), "1");
        let removed =
            reset.and_then(|()| std::fs::write("/sys/class/zram-control/hot_remove", number));
        match removed {
            Ok(()) => return Ok(()),
            Err(error) if began.elapsed() > Duration::from_secs(10) => {
                return Err(format!("zram{number} is still in use: {error}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// A file system of 768 MiB on a loop device, mounted; or why there is none.
pub fn small_ext4(scratch: &Scratch) -> Result<(Loop, PathBuf), String> {
    ext4_of(scratch, IMAGE_BYTES)
}

/// A file system of that size, which takes as much of the disk as is written to it.
pub fn ext4_of(scratch: &Scratch, bytes: u64) -> Result<(Loop, PathBuf), String> {
    let mut device = Loop::new(scratch, bytes)?;
    let name = device.device.clone();
    tool("mkfs.ext4", &["-q", "-F", &name])?;
    let point = device.mount(&name, scratch.file("mounted"), "rw")?;
    Ok((device, point))
}

fn free_bytes(point: &Path) -> u64 {
    let stat = rustix::fs::statvfs(point).unwrap();
    stat.f_bavail * stat.f_frsize
}

#[test]
fn two_runs_without_a_size_share_a_small_file_system() {
    let scratch = Scratch::new("shared-ext4");
    let (_device, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("two runs on one file system", &why),
    };
    let free_before = free_bytes(&point);
    let second = Scratch::new("shared-second");
    let [one, two] = [(&scratch, "one"), (&second, "two")].map(|(scratch, name)| {
        let place = point.join(name);
        scratch.start(&["--storage-capacity-gb", "0", "--cache-dir", place.to_str().unwrap()])
    });
    for (child, scratch) in [(one, &scratch), (two, &second)] {
        ended_well(finish(child));
        let result = scratch.json();
        assert_clean(&result, Some("ext4"));
        let written = result["ringfall"]["io"]["write"]["bytes"].as_u64().unwrap();
        assert!(written > 32 << 20, "it had room to write: {written}");
    }
    let kept = free_bytes(&point).abs_diff(free_before);
    assert!(kept < 4 << 20, "all but metadata was given back, not {kept} bytes");
}

#[test]
fn space_that_others_take_lowers_the_limit_and_the_run_goes_on() {
    let scratch = Scratch::new("crowded-ext4");
    let (_device, point) = match small_ext4(&scratch) {
        Ok(made) => made,
        Err(why) => return skipped("a file system that fills up", &why),
    };
    let store = point.join("store");
    let more = ["--storage-capacity-gb", "0.6", "--duration", "6"];
    let child = scratch.start(&[&more[..], &["--cache-dir", store.to_str().unwrap()]].concat());
    wait_until("the run has its data file", || crate::support::data_bytes(&store) > 0);
    // All but 64 MiB of what is left: the run has had its first step, 38 MiB.
    let others = (free_bytes(&point) - (64 << 20)).to_string();
    let file = point.join("others");
    tool("fallocate", &["-l", &others, file.to_str().unwrap()]).unwrap();
    ended_well(finish(child));
    let result = scratch.json();
    assert_clean(&result, Some("ext4"));
    let shortage = &result["ringfall"]["shortages"][0];
    assert_eq!(shortage["tier"], "storage", "{}", result["ringfall"]["shortages"]);
    let given = shortage["given_bytes"].as_u64().unwrap();
    assert!((32 << 20..512 << 20).contains(&given), "{shortage}");
    let evicted = &result["ringfall"]["evictions"]["storage_to_none"];
    assert!(evicted["entries"].as_u64() > Some(0), "eviction went on inside: {evicted}");
    assert_eq!(std::fs::metadata(&file).unwrap().len().to_string(), others);
}

/// The lock file stayed, empty, and the directory that was made for it.
#[test]
fn a_full_file_system_keeps_nothing_of_a_run_that_can_not_begin() {
    let scratch = Scratch::new("full-tmpfs");
    let point = match full_tmpfs(&scratch, "size=64k") {
        Ok(point) => point,
        Err(why) => return skipped("a full file system", &why),
    };
    let ended = on(&scratch, &point.join("made/kv"), &[]);
    let left: Vec<_> = std::fs::read_dir(&point).unwrap().map(|one| one.unwrap().path()).collect();
    unmount(&point).unwrap();
    assert_fails(&ended, 1, &["can't write the lock file in", "free space there"]);
    assert_eq!(left, [point.join("others")]);
}

/// It was told as a lack of space, and what had been made until then stayed.
#[test]
fn inodes_that_are_used_up_are_told_as_that() {
    // The mounted directory itself and the file in it have two of them; a directory that is made
    // takes the third.
    for inodes in ["nr_inodes=2", "nr_inodes=3", "nr_inodes=4"] {
        let scratch = Scratch::new(&format!("tmpfs-{inodes}"));
        let point = match full_tmpfs(&scratch, &format!("size=1m,{inodes}")) {
            Ok(point) => point,
            Err(why) => return skipped("a file system without inodes", &why),
        };
        let place = if inodes == "nr_inodes=4" { "made/kv" } else { "kv" };
        let ended = on(&scratch, &point.join(place), &[]);
        let mut sweep = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        let device = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices/fast-nvme.yaml");
        sweep.args(["sweep", "--vary", "users=1,2", "--duration=1", "--device", device]);
        sweep.arg("--results").arg(point.join(place)).current_dir(&scratch.path);
        let swept = output(sweep);
        let entries = std::fs::read_dir(&point).unwrap();
        let left: Vec<_> = entries.map(|one| one.unwrap().path()).collect();
        unmount(&point).unwrap();
        assert_fails(&ended, 1, &["no inodes left (df -i)", "--cache-dir"]);
        assert_fails(&swept, 1, &["no inodes left (df -i)", "a directory on another file system"]);
        assert_eq!(left, [point.join("others")], "{inodes}");
    }
}

/// A tmpfs that has room for one file of 64 KiB, which is there.
fn full_tmpfs(scratch: &Scratch, options: &str) -> Result<PathBuf, String> {
    if !is_root() {
        return Err("it needs root".to_owned());
    }
    let point = scratch.file("mounted");
    std::fs::create_dir(&point).unwrap();
    tool("mount", &["-t", "tmpfs", "-o", options, "tmpfs", point.to_str().unwrap()])?;
    std::fs::write(point.join("others"), vec![1; 64 << 10]).unwrap();
    Ok(point)
}
