//! The GPU tier: emulated, on a driver that is a stand-in, described, and not there at all.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Scratch, assert_fails, ended_well, output, skipped, text};

/// First of the names under which the library is looked for, so that a real one is not found.
const LIBRARY: &str = "libcuda.so";

/// A directory with a library of that name, made of a source by the host's C compiler.
fn library(scratch: &Scratch, source: &Path) -> PathBuf {
    library_called(LIBRARY, scratch, source)
}

/// The same with a library of another name, beside others.
pub(crate) fn library_called(name: &str, scratch: &Scratch, source: &Path) -> PathBuf {
    let directory = scratch.file("driver");
    std::fs::create_dir_all(&directory).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-pthread", "-x", "c", "-I"])
        .arg(root.join("engine/src/tier/gpu/cuda"))
        .arg("-o")
        .arg(directory.join(name))
        .arg(source)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    directory
}

pub(crate) fn fake_driver(scratch: &Scratch) -> PathBuf {
    library(scratch, &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/fake_cuda.c"))
}

fn run_with(scratch: &Scratch, driver: &Path, mode: &str, more: &[&str]) -> Output {
    let mut command = scratch.run_command(more);
    command.env("LD_LIBRARY_PATH", driver).env("FAKE_CUDA", mode);
    output(command)
}

pub(crate) fn number(json: &Value, key: &str) -> f64 {
    json.pointer(key).and_then(Value::as_f64).unwrap_or_else(|| panic!("{key} is not there"))
}

pub(crate) fn codes(json: &Value) -> Vec<&str> {
    let warnings = json["ringfall"]["warnings"].as_array().unwrap();
    warnings.iter().map(|warning| warning["code"].as_str().unwrap()).collect()
}

/// Three small tiers, in which all that is read is compared; enough requests to fill them, however
/// long a busy machine takes for those.
pub(crate) const THREE_TIERS: [&str; 10] = [
    "--gpu-mem-gb",
    "0.06",
    "--cpu-mem-gb",
    "0.06",
    "--duration",
    "60",
    "--max-requests",
    "40",
    "--verify",
    "full",
];

/// Entries went through all three tiers, and every byte was right.
pub(crate) fn assert_three_tiers(json: &Value) {
    let stats = "/summary/cache_stats";
    for tier in ["gpu", "cpu", "storage"] {
        let moved = |what| number(json, &format!("{stats}/tier_{tier}_kv_bytes_{what}_gb"));
        assert!(moved("written") > 0.0, "{tier}");
        assert!(tier == "storage" || moved("read") > 0.0, "{tier}");
    }
    assert!(number(json, &format!("{stats}/gpu_memory_used_gb")) > 0.0);
    assert!(number(json, &format!("{stats}/gpu_entries")) > 0.0);
    assert!(number(json, &format!("{stats}/gpu_write_p95_ms")) >= 0.0);
    assert!(number(json, "/ringfall/evictions/gpu_to_cpu/entries") > 0.0);
    assert!(number(json, "/ringfall/verify/blocks_checked") > 1_000.0);
    assert_eq!(number(json, "/ringfall/verify/blocks_bad"), 0.0);
}

#[test]
fn an_emulated_gpu_tier_is_a_tier_and_never_called_a_gpu() {
    let scratch = Scratch::new("emulated");
    let more = [&THREE_TIERS[..], &["--gpu-backend", "emulated"]].concat();
    let files = ["--html-output", "page.html", "--xlsx-output", "row.csv"];
    let ran = ended_well(scratch.run(&[&more[..], &files].concat()));
    let json = scratch.json();
    assert_three_tiers(&json);
    let told = |file: &str| std::fs::read_to_string(scratch.file(file)).unwrap();
    assert!(told("page.html").contains("<td>emulated: not a GPU&#39;s figures</td>"));
    assert!(told("row.csv").contains("emulated: not a GPU's figures"));
    let gpu = &json["ringfall"]["gpu"];
    assert_eq!((&gpu["backend"], &gpu["is_gpu"]), (&"emulated".into(), &false.into()));
    assert!(codes(&json).contains(&"gpu_emulated"), "{:?}", codes(&json));
    let told = text(&ran);
    for words in ["emulated: no GPU", "not a GPU's", "emulated write, entry"] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let promoted = [&more[..], &["--promotion", "on-hit", "--quiet"]].concat();
    ended_well(scratch.run(&promoted));
    let json = scratch.json();
    let up = &json["ringfall"]["promotions"];
    assert!(number(up, "/from_cpu_entries") + number(up, "/from_storage_entries") > 0.0, "{up}");
    assert_eq!(number(&json, "/ringfall/verify/blocks_bad"), 0.0);
}

#[test]
fn the_cuda_path_moves_the_same_bytes_on_one_device_and_on_two() {
    let scratch = Scratch::new("cuda");
    let driver = fake_driver(&scratch);
    let cuda = ["--gpu-backend", "cuda"];
    let two = ["--num-gpus", "2", "--gpu-devices", "1,0", "--promotion", "on-hit"];
    for (devices, more) in [(1, vec![]), (2, two.to_vec())] {
        let more = [&THREE_TIERS[..], &cuda, &more].concat();
        let ran = ended_well(run_with(&scratch, &driver, "works", &more));
        let json = scratch.json();
        assert_three_tiers(&json);
        let gpu = &json["ringfall"]["gpu"];
        assert_eq!(gpu["backend"], "cuda");
        assert_eq!(gpu["driver"], "12.4");
        assert_eq!(gpu["buffers_page_locked"], true);
        let names = gpu["devices"].as_array().unwrap();
        assert_eq!(names.len(), devices);
        assert!(names.iter().all(|device| device["name"] == "fake GPU"));
        assert!(!codes(&json).contains(&"gpu_left_out"), "{:?}", codes(&json));
        assert!(text(&ran).contains("fake GPU"), "{}", text(&ran));
    }
}

#[test]
fn a_tier_above_the_limits_on_a_gpus_memory_is_smaller_and_said_to_be() {
    let scratch = Scratch::new("limits");
    let driver = fake_driver(&scratch);
    let small = include_str!("small.yaml");
    let limited = |limits: &str| {
        std::fs::write(scratch.file("limits.yaml"), format!("{small}  gpu: {{{limits}}}\n"))
            .unwrap();
        ["--gpu-backend", "cuda", "--config", "limits.yaml", "--gpu-mem-gb", "1"]
    };
    // Of 8 GiB, all of it free: 164 MB, of which the tier is what its cutting leaves.
    for limits in ["memory_fraction: 0.02", "reserve_fraction: 0.98"] {
        let ran = ended_well(run_with(&scratch, &driver, "works", &limited(limits)));
        let json = scratch.json();
        let gpu = &json["ringfall"]["gpu"];
        assert_eq!(number(gpu, "/asked_bytes"), 2f64.powi(30));
        let capacity = number(gpu, "/capacity_bytes");
        assert!((100e6..171.8e6).contains(&capacity), "{capacity}");
        assert_eq!(gpu["backend"], "cuda");
        assert!(codes(&json).contains(&"gpu_smaller"), "{:?}", codes(&json));
        assert!(gpu["why_not"].as_str().unwrap().contains(limits.split(':').next().unwrap()));
        assert!(text(&ran).contains("workload.gpu allows 0.16"), "{}", text(&ran));
    }
    let strict = [&limited("memory_fraction: 0.02")[..], &["--strict"]].concat();
    assert_fails(&run_with(&scratch, &driver, "works", &strict), 2, &["workload.gpu", "0.16 GiB"]);
    let none = limited("reserve_fraction: 1");
    assert_fails(&run_with(&scratch, &driver, "works", &none), 2, &["allows 0.00 GiB"]);
    let enough = limited("memory_fraction: 0.8, reserve_fraction: 0.1");
    assert_eq!(run_with(&scratch, &driver, "works", &enough).status.code(), Some(0));
    assert_eq!(scratch.json()["ringfall"]["gpu"]["why_not"], Value::Null);
}

#[test]
fn a_device_that_is_lost_ends_the_run_with_the_reason_and_its_results() {
    let scratch = Scratch::new("lost");
    let driver = fake_driver(&scratch);
    let more = [&THREE_TIERS[..], &["--gpu-backend", "cuda", "--max-requests", "0"]].concat();
    let ran = run_with(&scratch, &driver, "lost", &more);
    assert_fails(&ran, 1, &["CUDA_ERROR_LAUNCH_FAILED, error 719", "GPU 0 (fake GPU)"]);
    let json = scratch.json();
    let kinds = json["ringfall"]["errors"]["by_kind"].as_array().unwrap();
    assert!(kinds.iter().any(|row| row["kind"] == "gone"), "{kinds:?}");
}

#[test]
fn a_driver_that_can_not_be_used_is_told_in_a_sentence_and_the_run_goes_on_without() {
    let scratch = Scratch::new("driver");
    let driver = fake_driver(&scratch);
    let must = ["--gpu-mem-gb", "0.03", "--gpu-backend", "cuda", "--duration", "1"];
    for (mode, words) in [
        ("no_device", ["finds no GPU", "CUDA_VISIBLE_DEVICES"]),
        ("mismatch", ["do not go together", "restart the machine"]),
        ("garbage", ["could not be started", "error 987654321"]),
        ("old", ["offers CUDA 9.2 only", "450 or newer"]),
        ("full", ["GPU 0 (fake GPU) has 0.0 of 8.0 GiB free", "nvidia-smi"]),
    ] {
        let ran = run_with(&scratch, &driver, mode, &must);
        assert_fails(&ran, 2, &words);
        assert_fails(&ran, 2, &["--gpu-mem-gb 0.03", "--gpu-backend emulated"]);
    }
    let many = [&must[..], &["--num-gpus", "3"]].concat();
    let ran = run_with(&scratch, &driver, "works", &many);
    assert_fails(&ran, 2, &["there is no GPU 2: the driver shows 2 of them"]);

    // A library that is not a driver, and one that is no library.
    let empty = scratch.file("empty.c");
    std::fs::write(&empty, "int cuInit(unsigned flags) { return 0; }\n").unwrap();
    let other = library(&scratch, &empty);
    let ran = run_with(&scratch, &other, "works", &must);
    assert_fails(&ran, 2, &["has no cuDriverGetVersion"]);
    if Path::new("/proc/driver/nvidia").exists() {
        skipped("a machine without a driver", "this one has one");
    } else {
        std::fs::remove_file(other.join(LIBRARY)).unwrap();
        let ran = run_with(&scratch, &other, "works", &must);
        assert_fails(&ran, 2, &["no NVIDIA driver was found", "libcuda.so.1"]);
        std::fs::write(other.join(LIBRARY), "no library").unwrap();
        let ran = run_with(&scratch, &other, "works", &must);
        assert_fails(&ran, 2, &["no NVIDIA driver was found", "libcuda.so.1"]);
    }

    // Left to it, the run goes on and says what it left out.
    let driver = fake_driver(&scratch);
    let left = ["--gpu-mem-gb", "16", "--duration", "1"];
    let ran = ended_well(run_with(&scratch, &driver, "no_device", &left));
    assert!(text(&ran).contains("left out: the NVIDIA driver finds no GPU"), "{}", text(&ran));
    let json = scratch.json();
    let gpu = &json["ringfall"]["gpu"];
    assert_eq!((number(gpu, "/asked_bytes"), number(gpu, "/capacity_bytes")), (2f64.powi(34), 0.0));
    assert!(gpu["why_not"].as_str().unwrap().contains("finds no GPU"), "{gpu}");
    assert_eq!((&gpu["backend"], &gpu["is_gpu"]), (&Value::Null, &false.into()));
    assert!(codes(&json).contains(&"gpu_left_out"), "{:?}", codes(&json));
    assert_eq!(number(&json, "/summary/cache_stats/gpu_entries"), 0.0);

    // Strict, it does not.
    let strict = ["--gpu-mem-gb", "16", "--duration", "1", "--strict"];
    assert_fails(&run_with(&scratch, &driver, "no_device", &strict), 2, &["finds no GPU"]);
}

#[test]
fn a_logical_trace_has_the_rows_of_the_gpu_tier() {
    let scratch = Scratch::new("tier0");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    let line = "run --model llama3.1-8b --num-users 30 --duration 20 --seed 5 --num-gpus 8 \
                --gpu-mem-gb 0.25 --tensor-parallel 8 --cpu-mem-gb 1 --io-trace-log trace.csv \
                --output result.json";
    command.args(line.split_whitespace()).current_dir(&scratch.path);
    ended_well(output(command));
    let trace = std::fs::read_to_string(scratch.file("trace.csv")).unwrap();
    for row in [
        ["Write", "Tier-0", "Prefill"],
        ["Read", "Tier-0", "Decode"],
        ["Read", "Tier-0", "Evict"],
        ["Write", "Tier-1", "Evict"],
        ["Write", "Tier-2", "Evict"],
    ] {
        let is_there = trace.lines().any(|line| {
            let columns: Vec<&str> = line.split(',').collect();
            [columns[1], columns[3], columns[5]] == row
        });
        assert!(is_there, "{row:?}");
    }
    let json = scratch.json();
    assert_eq!(json["ringfall"]["gpu"]["backend"], "simulated");
    assert_eq!(number(&json, "/ringfall/gpu/asked_bytes"), 2f64.powi(31));
}

#[test]
fn the_ways_between_gpu_memory_and_a_drive_are_measured_and_never_pass_as_a_gpus() {
    let scratch = Scratch::new("vram");
    let saturate = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(["saturate", "--target", "vram", "--size-gb", "0.0625", "--time-limit", "5"]);
        // I/Os that cross from one piece of GPU memory to the next, as the largest.
        command.args(["--io-size-max", "768k", "--depth-max", "8", "--threads", "2"]);
        command.arg("--cache-dir").arg(scratch.store()).args(["--output", "vram.json"]).args(more);
        command.current_dir(&scratch.path);
        command
    };
    let ran = ended_well(output(saturate(&["--gpu-backend", "emulated"])));
    let read = || -> Value {
        serde_json::from_slice(&std::fs::read(scratch.file("vram.json")).unwrap()).unwrap()
    };
    let limits = read();
    assert_eq!((&limits["backend"], &limits["is_gpu"]), (&"emulated".into(), &false.into()));
    let ways = limits["ways"].as_array().unwrap();
    assert_eq!(ways.len(), 8, "{limits}");
    assert!(ways.iter().all(|way| number(way, "/best/bytes_per_s") > 0.0), "{limits}");
    let last_bytes =
        |way: &Value| way["points"].as_array().unwrap().last().unwrap()["io_bytes"].clone();
    assert!(ways.iter().all(|way| last_bytes(way) == 768 << 10), "{limits}");
    assert!(text(&ran).contains("emulated: no GPU"), "{}", text(&ran));

    // On the stand-in for a driver, without a way past host memory.
    let driver = fake_driver(&scratch);
    let mut command = saturate(&["--gpu-backend", "cuda", "--json", "--quiet"]);
    command.env("LD_LIBRARY_PATH", &driver).env("FAKE_CUDA", "works");
    ended_well(output(command));
    let limits = read();
    assert_eq!((&limits["is_gpu"], &limits["is_page_locked"]), (&true.into(), &true.into()));
    assert_eq!(limits["ways"].as_array().unwrap().len(), 6, "{limits}");
    assert!(limits["why_not_gds"].as_str().unwrap().contains("libcufile"), "{limits}");

    let mut command = saturate(&["--gpu-backend", "cuda"]);
    command.env("LD_LIBRARY_PATH", &driver).env("FAKE_CUDA", "no_device");
    assert_fails(&output(command), 2, &["--target vram", "finds no GPU", "--gpu-backend emulated"]);
    let more = ["--gpu-backend", "none", "--iopoll"];
    assert_fails(&output(saturate(&more)), 2, &["--iopoll has no meaning", "needs a GPU backend"]);
}

/// The table was lost with the file.
#[test]
fn limits_of_gpu_memory_that_can_t_be_written_are_shown() {
    let scratch = Scratch::new("vram-full");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["saturate", "--target", "vram", "--gpu-backend", "emulated"]);
    command.args(["--size-gb", "0.0625", "--time-limit", "5", "--depth-max", "1"]);
    command.args(["--io-size-min", "64k", "--io-size-max", "64k", "--threads", "1"]);
    command.arg("--cache-dir").arg(scratch.store()).args(["--output", "/dev/full"]);
    command.current_dir(&scratch.path);
    let ended = output(command);
    assert_fails(&ended, 1, &["the limits can't be written to /dev/full: No space left"]);
    let page = String::from_utf8_lossy(&ended.stdout);
    assert!(page.contains("emulated: no GPU") && page.contains("64 KiB"), "{page}");
    assert!(!page.contains("  limits       "), "{page}");
}

#[test]
fn what_the_search_of_gpu_memory_can_not_heed_it_refuses() {
    let scratch = Scratch::new("vram-refused");
    let saturate = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(["saturate", "--size-gb", "0.0625", "--io-size-max", "768k"]);
        command.arg("--cache-dir").arg(scratch.store()).args(["--output", "vram.json"]).args(more);
        command.current_dir(&scratch.path);
        command
    };
    let vram = ["--target", "vram", "--gpu-backend", "emulated"];
    let refused: [(&[&str], &[&str]); 3] = [
        (&["--nvme-passthrough"], &["--nvme-passthrough has no meaning with --target vram"]),
        (&["--object-sizes", "1m"], &["--object-sizes has no meaning with --target vram"]),
        (&["--time-limit", "1", "--depth-max", "8"], &["--time-limit is 1", "measurements"]),
    ];
    for (more, words) in refused {
        assert_fails(&output(saturate(&[&vram[..], more].concat())), 2, words);
    }
    let words = ["--gpu-backend is for GPU memory", "--target vram"];
    assert_fails(&output(saturate(&["--gpu-backend", "auto"])), 2, &words);

    let mut command = saturate(&vram);
    command.envs([("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")]);
    assert_fails(&output(command), 2, &["from one process", "--ranks off"]);
}

#[test]
fn the_search_of_gpu_memory_keeps_no_more_in_flight_than_it_may() {
    let scratch = Scratch::new("vram-depth");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args([
        "saturate",
        "--target",
        "vram",
        "--gpu-backend",
        "emulated",
        "--time-limit",
        "1",
    ]);
    command.args(["--size-gb", "0.0625", "--io-size-max", "128k", "--depth-max", "1"]);
    command.args(["--threads", "4", "--output", "vram.json", "--cache-dir"]).arg(scratch.store());
    command.current_dir(&scratch.path);
    ended_well(output(command));
    let limits: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("vram.json")).unwrap()).unwrap();
    assert_eq!(limits["threads"], 1);
    let points = limits["ways"].as_array().unwrap().iter().flat_map(|way| way["points"].as_array());
    assert!(points.flatten().all(|point| point["depth"] == 1), "{limits}");
}

#[test]
fn a_table_says_how_many_users_gpu_memory_is_worth() {
    let scratch = Scratch::new("worth");
    let node = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices/h100-node.yaml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    let line = "--model llama3.1-8b --seed 7 --duration 20 --cpu-mem-gb 0 --what-if-gpu-gb 0,64 \
                --what-if-users 4,16 --output w.json --html-output w.html";
    command.args(["simulate", "--device", node]).args(line.split_whitespace());
    command.current_dir(&scratch.path);
    let ran = ended_well(output(command));
    let table: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("w.json")).unwrap()).unwrap();
    let rows = table["rows"].as_array().unwrap();
    let sizes: Vec<f64> = rows.iter().map(|row| number(row, "/gpu_memory_gib")).collect();
    assert_eq!(sizes, [0.0, 64.0, 0.0, 64.0]);
    let worth = table["gpu_memory"].as_array().unwrap();
    assert_eq!(worth.len(), 2, "{table}");
    let most = |place: usize| number(&worth[place], "/tokens_per_s_max");
    assert!(most(1) >= most(0), "{table}");
    let told = text(&ran);
    assert!(told.contains("64.00 GiB of VRAM") && told.contains("VRAM "), "{told}");
    let page = std::fs::read_to_string(scratch.file("w.html")).unwrap();
    assert!(page.contains("64.0 GiB of VRAM"), "{page}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["simulate", "--device", node, "--what-if-gpu-gb", "0,-1"]);
    assert_fails(&output(command), 2, &["--what-if-gpu-gb -1"]);
}

#[test]
fn a_described_gpu_is_a_tier_of_a_simulated_run() {
    let scratch = Scratch::new("described");
    let drive = include_str!("../config/devices/fast-nvme.yaml");
    let described = |gib: f64, copy: u32| {
        let device = format!("{drive}gpu: {{gib: {gib}, copy_mb_per_s: {copy}}}\n");
        std::fs::write(scratch.file("device.yaml"), device).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        let line = "simulate --device device.yaml --model llama3.1-8b --num-users 30 --seed 5 \
                    --duration 20 --cpu-mem-gb 1 --arrival closed --generation-mode none \
                    --output result.json";
        command.args(line.split_whitespace()).current_dir(&scratch.path);
        ended_well(output(command));
        scratch.json()
    };
    let throughput = |json: &Value| number(json, "/summary/avg_throughput_tokens_per_sec");
    let (without, with) = (described(0.0, 50_000), described(64.0, 50_000));
    assert!(throughput(&with) > 1.5 * throughput(&without), "memory that is faster is faster");
    assert_eq!(with["ringfall"]["gpu"]["backend"], "simulated");
    assert_eq!(number(&with, "/ringfall/gpu/capacity_bytes"), 2f64.powi(36));
    assert_eq!(without["ringfall"]["gpu"], Value::Null);
    // What can't be copied away fast enough holds everything up.
    let slow = described(4.0, 1_000);
    let tried = slow["ringfall"]["simulation"]["alternatives"].as_array().unwrap();
    let times = |resource: &str| {
        let one = tried.iter().find(|one| one["resource"] == resource).unwrap();
        number(one, "/times_faster")
    };
    assert!(times("gpu_link") > 1.3 && times("gpu_tier") > 1.3, "{tried:?}");
    assert!(times("drive") < 1.05, "{tried:?}");
}
