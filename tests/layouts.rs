//! `ringfall layouts`: the list, a comparison by the real binary, and the system calls that it
//! makes in an engine's place.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ringfall_host::takes_direct_io;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::media::{is_root, tool, unmount};
use crate::support::{
    Scratch, assert_fails, assert_valid_as, ended_well, finish, output, skipped, spawn, spawn_to,
    text, wait_until,
};

/// Beginning of the name of a comparison's directory.
const MADE: &[u8] = b"ringfall-layouts-";

fn compare(scratch: &Scratch, place: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["layouts", "compare", "--cache-dir"]).arg(place);
    command.args(["--model", "tiny-1b", "--prefix-tokens", "512", "--seconds-each", "0.3"]);
    command.args(more).current_dir(&scratch.path);
    command
}

/// Directories that comparisons have made in a place.
pub fn directories(place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(place).into_iter().flatten().flatten();
    let made = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(MADE));
    made.map(|entry| entry.path()).collect()
}

fn figures(scratch: &Scratch) -> Value {
    let text = std::fs::read(scratch.file("l.json")).unwrap();
    let found = serde_json::from_slice(&text).unwrap();
    assert_valid_as("layouts", &found);
    found
}

#[test]
fn the_list_fits_on_a_screen() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("layouts");
    let listed = output(command);
    let page = text(&listed);
    assert_eq!(listed.status.code(), Some(0), "{page}");
    assert!(page.lines().count() <= 30, "{page}");
    assert!(page.contains("hicache") && page.contains("chunk_tokens"), "{page}");
}

#[test]
fn layouts_are_compared_and_nothing_is_left() {
    let scratch = Scratch::new("layouts");
    let layouts = "lmcache,lmcache-raw,vllm,llmd,hicache,nixl,native";
    let more = ["--space", "64MiB", "--layout", layouts, "--populate-objects", "100"];
    let more = [&more[..], &["--layout-option", "vllm.chunk_tokens=64", "--json", "l.json"]];
    let ended = output(compare(&scratch, &scratch.store(), &more.concat()));
    let page = text(&ended);
    assert_eq!(ended.status.code(), Some(0), "{page}");
    for part in ["fetches, cold", "stores, until", "llmd", "hicache", "theirs", "limited by"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let found = figures(&scratch);
    let rows = found["layouts"].as_array().unwrap();
    let native = rows.iter().filter(|row| row["layout"] == "native").count();
    assert_eq!(native, usize::from(takes_direct_io(&scratch.path) != Some(false)));
    assert_eq!(rows.len() - native, 12, "six layouts, by either kind of workers");
    assert_eq!(found["populate_objects"], 100);
    for row in rows {
        let fetch = &row["fetch"];
        assert!(fetch["useful_gib_per_s"].as_f64() > Some(0.0), "{row}");
        assert!(fetch["p50_ms"].as_f64() <= fetch["p99_ms"].as_f64(), "{row}");
        assert_eq!(fetch["is_queue"], row["limits"] == "ours" || row["layout"] == "nixl", "{row}");
        assert!(row["failure"].is_null() && row["fetch_limit"].is_string(), "{row}");
    }
    let changed = rows.iter().find(|row| row["layout"] == "vllm").unwrap();
    assert_eq!(changed["changed_options"][0], "chunk_tokens=64");
    assert!(!scratch.store().exists(), "the directory was made for it");
}

/// Its files are larger, and two of them need more space.
#[test]
fn buckets_and_whole_requests_are_compared() {
    let scratch = Scratch::new("layouts-large");
    std::fs::create_dir(scratch.store()).unwrap();
    let more = ["--space", "300MiB", "--layout", "mooncake,mlperf", "--json", "-"];
    let ended = ended_well(output(compare(&scratch, &scratch.store(), &more)));
    let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_valid_as("layouts", &found);
    for row in found["layouts"].as_array().unwrap() {
        assert!(row["prefixes"].as_u64() > Some(1), "{row}");
    }
    assert_eq!(std::fs::read_dir(scratch.store()).unwrap().count(), 0);
}

#[test]
fn what_can_not_be_compared_is_refused_with_the_remedy() {
    let scratch = Scratch::new("layouts-refused");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--layout", "other"], &["'other'", "lmcache"]),
        (&["--layout-option", "nonsense"], &["\"nonsense\": give LAYOUT.KEY=VALUE"]),
        (&["--layout-option", "vllm.colour=1"], &["colour is not an option"]),
        (&["--layout-option", "vllm.requests=0"], &["from 1 to 1024"]),
        (&["--layout", "mlperf", "--layout-option", "direct=yes"], &["no layout that is chosen"]),
        (&["--tensor-parallel", "3"], &["among 3 ranks", "a divisor of its 4 KV heads"]),
        (&["--layout-option", "vllm.evict=lru"], &["evict has no effect on a comparison"]),
        (
            &["--layout-option", "hicache.selective=yes"],
            &["selective has no effect on a comparison, which stores each prefix once"],
        ),
        (&["--layout-option", "vllm.evict=70-85"], &["never, lru, or two fills in percent"]),
        (&["--prefix-tokens", "8"], &["a prefix of 8 tokens is shorter than a chunk of lmcache"]),
        (&["--space", "1MiB"], &["--space 1.0 MiB is too little for the layout lmcache"]),
        (&["--space", "900TiB"], &["--space 900.0 TiB", "free"]),
        (&["--seconds-each", "0"], &["give 0.1 to 3600 seconds"]),
        (&["--engine-limits", "nobody's"], &["theirs", "ours", "both"]),
        (&["--json", "."], &["is a directory"]),
        (&["--model", "no-such"], &["no-such"]),
        (&["--cache-dir", "/dev/full"], &["/dev/full"]),
        (&["--cache-dir", "/etc/kv"], &["belongs to the system"]),
        (&["--cache-dir", "s3://b/p"], &["is an object store", "`ringfall saturate s3://b/p`"]),
        (&["--cache-dir", "s3:/b/p"], &["write s3://b/p, or ./s3:/b/p for a directory"]),
    ];
    for (more, words) in cases {
        let ended = output(compare(&scratch, &scratch.store(), more));
        assert_ne!(ended.status.code(), Some(0), "{more:?}");
        for word in *words {
            assert!(text(&ended).contains(word), "{word}: {}", text(&ended));
        }
        assert!(!scratch.store().exists() && !scratch.file("s3:").exists(), "{more:?}");
    }
}

#[test]
fn an_interrupted_comparison_removes_what_it_made() {
    let scratch = Scratch::new("layouts-interrupted");
    let more = ["--space", "64MiB", "--layout", "vllm", "--seconds-each", "1", "--json", "l.json"];
    let child = spawn(compare(&scratch, &scratch.store(), &more));
    let is_made = || !directories(&scratch.store()).is_empty();
    wait_until("its directory is made", is_made);
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let ended = finish(child);
    assert_fails(&ended, 130, &["interrupted: nothing was written"]);
    assert!(!scratch.store().exists() && !scratch.file("l.json").exists());
}

/// Nobody deleted it or spoke of it.
#[test]
fn what_a_killed_comparison_left_is_reclaimed_by_the_next_one_and_by_a_run() {
    let scratch = Scratch::new("layouts-killed");
    let more = ["--space", "64MiB", "--layout", "vllm", "--engine-limits", "theirs"];
    let made = || directories(&scratch.store());
    let kill = || {
        let long = [&more[..], &["--seconds-each", "1"]].concat();
        let mut child = spawn(compare(&scratch, &scratch.store(), &long));
        let is_stored = || made().iter().any(|made| made.read_dir().unwrap().count() > 0);
        wait_until("objects are stored", is_stored);
        child.kill().unwrap();
        drop(finish(child));
        assert_eq!(made().len(), 1);
    };
    for is_run in [false, true] {
        kill();
        ended_well(match is_run {
            true => scratch.run(&[]),
            false => output(compare(&scratch, &scratch.store(), &more)),
        });
        assert_eq!(std::fs::read_dir(scratch.store()).unwrap().count(), 0);
    }
    // Its space was missing from what `quick` says is free.
    kill();
    let mut quick = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    quick.args(["quick", "--space=900TiB"]).arg(scratch.store()).current_dir(&scratch.path);
    assert_fails(&output(quick), 2, &["--space 900.0 TiB", "at most 90 % are used"]);
    assert_eq!(std::fs::read_dir(scratch.store()).unwrap().count(), 0);
    let foreign = scratch.store().join("ringfall-layouts-0123456789abcdef");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("object"), [1; 9_000]).unwrap();
    let ended = output(compare(&scratch, &scratch.store(), &[]));
    let told = ["layouts-0123456789abcdef exists, and no record says", "delete it, which frees"];
    assert_fails(&ended, 1, &told);
    assert!(foreign.join("object").exists());
}

/// Files that a run keeps below its directory for them: paths there, and sizes.
fn kept(store: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut open = directories(store);
    let root = open.clone();
    while let Some(directory) = open.pop() {
        // What is removed meanwhile is not there.
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => open.push(entry.path()),
                Ok(metadata) => {
                    let path = entry.path().strip_prefix(&root[0]).unwrap().display().to_string();
                    found.push((path, metadata.len()));
                }
                Err(_) => {}
            }
        }
    }
    found
}

/// Layouts of a run: the beginning and end of a file's path, the number of bytes in it beside KV
/// cache, and the tokens of a whole chunk of 24 KiB each.
const OF_RUNS: [(&str, &str, &str, u64, u64); 5] = [
    ("lmcache", "tiny-1b@0x01000100@0@", ".data", 0, 256),
    ("vllm", "tiny-1b_", ".bin", 0, 16),
    ("hicache", "", "_tiny-1b_0_1.bin", 0, 64),
    ("llmd", "tiny-1b_", ".bin", 0, 256),
    ("mlperf", "conv_", "_turn_1.npy", 128, 64 * 1024 / 24),
];

#[test]
fn a_run_keeps_its_entries_in_an_engine_s_files_and_leaves_none() {
    for (layout, _, _, header_bytes, _) in OF_RUNS {
        let scratch = Scratch::new(&format!("layout-{layout}"));
        // Several times what it has room for.
        let more = ["--duration", "60", "--max-requests", "60", "--storage-capacity-gb", "0.125"];
        let more = [&more[..], &["--layout", layout, "--verify", "full"]].concat();
        let ended = scratch.run(&[&more[..], &["--layout-option", "evict=lru"]].concat());
        let page = text(&ended);
        assert_eq!(ended.status.code(), Some(0), "{layout}: {page}");
        assert!(page.contains("limits theirs"), "{layout}: {page}");
        let document = scratch.json();
        let ours = &document["ringfall"];
        let files = &ours["files"];
        assert_eq!((&files["layout"], &files["limits"]), (&layout.into(), &"theirs".into()));
        assert_eq!(ours["verify"]["blocks_bad"], 0, "{layout}");
        assert!(ours["verify"]["blocks_checked"].as_u64() > Some(1_000), "{layout}");
        assert_eq!(ours["config"]["settings"]["decode_reads"], "once", "{layout}");
        let count = |name: &str| {
            let all = files["operations"].as_array().unwrap();
            let found = all.iter().find(|one| one["name"] == name);
            found.map_or(0, |one| one["count"].as_u64().unwrap())
        };
        assert!(count("create") > 0 && count("read") > 0 && count("unlink") > 0, "{files}");
        let is_renamed = layout != "mlperf";
        assert_eq!(count("rename"), if is_renamed { count("create") } else { 0 }, "{files}");
        assert_eq!(count("fsync"), if is_renamed { 0 } else { count("create") }, "{files}");
        // Each file is written by one call, a header by another.
        let writes = if is_renamed { count("create") } else { 2 * count("create") };
        assert_eq!(count("write"), writes, "{files}");
        let written = ours["io"]["write"]["bytes"].as_u64().unwrap();
        let told = written + header_bytes * count("create");
        assert_eq!(files["written_bytes"].as_u64(), Some(told), "{files}");
        assert!(!scratch.store().exists(), "the directory was made for it");
    }
}

#[test]
fn what_a_killed_run_left_in_an_engine_s_files_is_the_engine_s_and_is_reclaimed() {
    for (layout, begin, end, header_bytes, tokens) in OF_RUNS {
        let scratch = Scratch::new(&format!("layout-killed-{layout}"));
        let more = ["--layout", layout, "--duration", "100"];
        let mut child = scratch.start(&more);
        wait_until("entries are stored", || kept(&scratch.store()).len() > 10);
        child.kill().unwrap();
        drop(finish(child));
        let left = kept(&scratch.store());
        // A draft that was not renamed may be short.
        let whole = left.iter().filter(|(path, _)| !path.ends_with(".tmp"));
        let largest = tokens * 24 * 1024;
        for (path, bytes) in whole {
            assert!(path.starts_with(begin) && path.ends_with(end), "{layout}: {path}");
            // MLPerf has no drafts: the last may be empty.
            assert!(*bytes <= largest + header_bytes + 24 * 1024, "{path}: {bytes}");
            let keeps_tails = matches!(layout, "llmd" | "mlperf");
            assert!(keeps_tails || *bytes == largest, "{path}: {bytes}");
        }
        let is_whole = |(_, bytes): &&(String, u64)| *bytes == largest;
        assert!(layout == "mlperf" || left.iter().any(|one| is_whole(&one)), "{layout}: {left:?}");
        let next = scratch.run(&["--layout", layout, "--engine-limits", "ours"]);
        assert_eq!(next.status.code(), Some(0), "{layout}: {}", text(&next));
        assert!(text(&next).contains("reclaimed"), "{layout}: {}", text(&next));
        assert_eq!(std::fs::read_dir(scratch.store()).unwrap().count(), 0);
    }
}

#[test]
fn what_a_run_in_a_layout_can_not_do_is_refused_with_the_remedy() {
    let scratch = Scratch::new("layout-refused");
    let cases: &[(&[&str], &[&str])] = &[
        (&["--layout", "vllm", "--iopoll"], &["--iopoll works with ringfall's own data file"]),
        (&["--layout", "vllm", "--fio-output", "a.fio"], &["--fio-output works with ringfall's"]),
        (&["--layout", "mlperf", "--layout-option", "direct=yes"], &["no layout that is chosen"]),
        (
            &["--layout", "lmcache", "--layout-option", "chunk_tokens=8192"],
            &["192MiB", "chunk_tokens=2730"],
        ),
    ];
    for (more, words) in cases {
        let ended = scratch.run(more);
        assert_ne!(ended.status.code(), Some(0), "{more:?}");
        for word in *words {
            assert!(text(&ended).contains(word), "{word}: {}", text(&ended));
        }
        assert!(!scratch.store().exists(), "{more:?}");
    }
}

/// Drive that takes a millisecond for each I/O, however many are in flight.
const STEADY: &str = "\
name: steady
read: {mb_per_s: 1000000, iops: 2500000, latency_us: 1000, latency_p99_us: 1000}
write: {mb_per_s: 1000000, iops: 400000, latency_us: 1000, latency_p99_us: 1000}
";

/// Result of simulating prompts of these blocks of 512 tokens, each 10 s after the one before.
fn simulated_prompts(scratch: &Scratch, prompts: &[&[u64]], more: &[&str]) -> Value {
    let row = |(place, ids): (usize, &&[u64])| {
        let (timestamp, tokens) = (10_000 * place, 512 * ids.len());
        format!(
            "{{\"timestamp\":{timestamp},\"input_length\":{tokens},\"output_length\":1,\
             \"hash_ids\":{ids:?}}}\n"
        )
    };
    std::fs::write(
        scratch.file("p.jsonl"),
        prompts.iter().enumerate().map(row).collect::<String>(),
    )
    .unwrap();
    std::fs::write(scratch.file("steady.yaml"), STEADY).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["simulate", "--device", "steady.yaml", "--mooncake-trace", "p.jsonl"]);
    command.args(["--replay-cycles", "1", "--cpu-mem-gb", "0", "--model", "tiny-1b"]);
    command.args(["--seed", "1", "--duration", "1000", "--output", "result.json", "--quiet"]);
    command.args(more).current_dir(&scratch.path);
    ended_well(output(command));
    scratch.json()["ringfall"].clone()
}

/// Blocks were loaded one after the other: LMCache's four threads got two objects at a time.
#[test]
fn the_threads_of_an_engine_load_a_whole_prefix() {
    let scratch = Scratch::new("layout-prefix");
    let prompt: &[u64] = &[1, 2, 3, 4, 5, 6, 7, 8];
    // Chunks of 256 tokens on 4 threads and on 64, pages of 64 on one, files of 16 on the one that
    // has taken the request, or on 64.
    for (layout, limits, milliseconds) in [
        ("lmcache", "theirs", 4.0),
        ("llmd", "theirs", 1.0),
        ("hicache", "theirs", 64.0),
        ("vllm", "theirs", 256.0),
        ("vllm", "ours", 4.0),
    ] {
        for shards in ["1", "3"] {
            let more = ["--layout", layout, "--engine-limits", limits, "--shards", shards];
            let found = simulated_prompts(&scratch, &[prompt, prompt], &more);
            let load = found["served"]["context_load_ms"]["max"].as_f64().unwrap();
            // Each I/O moves its bytes, too.
            assert!((1.0..1.15).contains(&(load / milliseconds)), "{layout} {limits}: {load} ms");
        }
    }
    // The third block is evicted for the fifth; the fourth is there, and of no use without it.
    let prompts: [&[u64]; 4] = [&[1, 2, 3, 4], &[1, 2], &[5], &[1, 2, 3, 4]];
    let more = ["--storage-capacity-gb", "0.046875", "--shards", "1", "--layout-option=evict=lru"];
    let found =
        simulated_prompts(&scratch, &prompts, &[&more[..], &["--layout", "lmcache"]].concat());
    assert_eq!(found["io"]["read"]["bytes"].as_u64(), Some(4 * 512 * 24 * 1024));
}

/// A run had one rank's share of each entry.
#[test]
fn each_rank_stores_its_share_of_a_chunk_as_its_engine_does() {
    let scratch = Scratch::new("layout-ranks");
    // 512 tokens of 24 KiB in all, by four ranks: objects, and the length of each.
    for (layout, objects, bytes) in [
        ("lmcache", 2 * 4, 256 * 6 * 1024),
        ("lmcache-raw", 2 * 4, 256 * 6 * 1024),
        ("vllm", 32, 16 * 24 * 1024),
        ("llmd", 2 * 4, 256 * 6 * 1024),
        ("hicache", 8 * 4, 64 * 6 * 1024),
        ("nixl", 32 * 4, 16 * 6 * 1024),
        // The share of one alone.
        ("mlperf", 1, 512 * 6 * 1024),
    ] {
        let more = ["--layout", layout, "--num-gpus", "4", "--tensor-parallel", "4"];
        let found = simulated_prompts(&scratch, &[&[1], &[1]], &more);
        let headers =
            u64::from(layout == "lmcache-raw") * 4096 + u64::from(layout == "mlperf") * 128;
        let files = &found["files"];
        assert_eq!(files["read_bytes"], objects * bytes + u64::from(layout == "mlperf") * 128);
        assert_eq!(files["written_bytes"], objects * (bytes + headers), "{layout}");
        let count = |name: &str| {
            let all = files["operations"].as_array().unwrap();
            all.iter()
                .find(|one| one["name"] == name)
                .map_or(0, |one| one["count"].as_u64().unwrap())
        };
        let calls = objects * (1 + u64::from(headers > 0));
        assert_eq!(count("write"), calls, "{layout}");
    }
    for layout in ["nixl", "hicache"] {
        let more = ["--num-gpus", "4", "--tensor-parallel", "4", "--layout", layout];
        let more = [&more[..], &["--layout-option", "evict=lru", "--verify", "full"]].concat();
        let more = [&more[..], &["--storage-capacity-gb", "0.125"]].concat();
        let more = [&more[..], &["--duration", "60", "--max-requests", "60"]].concat();
        ended_well(scratch.run(&more));
        let ours = &scratch.json()["ringfall"];
        assert_eq!(ours["verify"]["blocks_bad"], 0, "{layout}");
        assert!(ours["verify"]["blocks_checked"].as_u64() > Some(1_000), "{layout}");
    }
}

#[test]
fn a_selective_store_writes_what_is_written_again() {
    let scratch = Scratch::new("layout-selective");
    // Eight blocks, as prompts of one and of two, three times: stored the second time.
    let prompts: [&[u64]; 9] = [&[1, 2], &[3], &[4], &[1, 2], &[3], &[4], &[1, 2], &[3], &[4]];
    let block_bytes = 512 * 24 * 1024;
    for (option, shards, written, read, misses) in [
        ("selective=no", "1", 4, 8, 4),
        ("selective=yes", "1", 4, 4, 8),
        ("selective=yes", "2", 4, 4, 8),
    ] {
        let more = ["--layout", "hicache", "--layout-option", option, "--shards", shards];
        let found = simulated_prompts(&scratch, &prompts, &more);
        let files = &found["files"];
        assert_eq!(files["written_bytes"], written * block_bytes, "{option}");
        assert_eq!(files["read_bytes"], read * block_bytes, "{option}");
        assert_eq!(found["source"]["block_misses"], misses, "{option}");
        let looks = ["looks", "looks_found"].map(|key| found["cache"][key].as_u64());
        assert_eq!(looks, [Some(12), Some(read)], "{option}");
        assert_eq!(found["errors"]["entries_not_stored"], 0, "{option}");
    }
}

/// The oldest left for each that came, in every layout.
#[test]
fn a_full_store_does_as_the_engine_s() {
    let scratch = Scratch::new("layout-full");
    // Eight blocks, each a prompt, and twice as many prompts; then those that are there.
    let prompts: Vec<[u64; 1]> = (1..=16).chain(1..=16).map(|id| [id]).collect();
    let prompts: Vec<&[u64]> = prompts.iter().map(<[u64; 1]>::as_slice).collect();
    let hits = |layout: &str, evict: &str, shards: &str| {
        let more = ["--storage-capacity-gb", "0.09375", "--shards", shards, "--layout", layout];
        let more = [&more[..], &["--layout-option", evict]].concat();
        let more = if evict.is_empty() { &more[..6] } else { &more[..] };
        let found = simulated_prompts(&scratch, &prompts, more);
        let warned = found["warnings"].as_array().unwrap().iter();
        let is_full = warned.into_iter().any(|warning| warning["code"] == "storage_full");
        let not_stored = found["errors"]["entries_not_stored"].as_u64().unwrap();
        assert_eq!(is_full, not_stored > 0, "{found}");
        (found["source"]["block_hits"].as_u64().unwrap(), not_stored)
    };
    for shards in ["1", "2"] {
        // What came first stays.
        assert_eq!(hits("vllm", "", shards), (8, 16), "{shards} shards");
        assert_eq!(hits("lmcache", "", shards), (8, 16), "{shards} shards");
        // A loop over more than there is room for never finds anything.
        assert_eq!(hits("vllm", "evict=lru", shards), (0, 0), "{shards} shards");
        assert_eq!(hits("llmd", "", shards), (0, 0), "{shards} shards");
    }
}

/// A file system without room for as many names.
#[test]
fn a_full_file_system_ends_a_layout_with_the_reason() {
    let scratch = Scratch::new("layouts-full");
    if !is_root() {
        return skipped("layouts on a full file system", "it needs root");
    }
    let point = scratch.file("mounted");
    std::fs::create_dir(&point).unwrap();
    let size = "size=300m,nr_inodes=24";
    if let Err(why) = tool("mount", &["-t", "tmpfs", "-o", size, "tmpfs", point.to_str().unwrap()])
    {
        return skipped("layouts on a full file system", &why);
    }
    let more = ["--space", "64MiB", "--layout", "vllm", "--engine-limits", "theirs"];
    let more = [&more[..], &["--json", "l.json"]].concat();
    let ended = output(compare(&scratch, &point.join("kv"), &more));
    let left = std::fs::read_dir(&point).unwrap().count();
    unmount(&point).unwrap();
    assert_fails(&ended, 1, &["note: vllm, theirs: storing ended early"]);
    let found = figures(&scratch);
    let why = found["layouts"][0]["failure"].as_str().unwrap();
    assert!(why.contains("No space left on device"), "{why}");
    assert!(why.ends_with("free space there, or ask for less"), "{why}");
    assert_eq!(left, 0);
}

/// Flags of an open that layouts differ by.
fn flags(open: &str) -> String {
    let flags = ["O_CREAT", "O_EXCL", "O_TRUNC", "O_DIRECT"];
    flags.into_iter().filter(|flag| open.contains(flag)).collect::<Vec<_>>().join("|")
}

/// Calls of one thread, without those on anything but the layout's files: each with what tells it
/// from others of its name.
fn calls(trace: &str) -> Vec<String> {
    let lines = trace.lines().skip_while(|line| !line.starts_with("newfstatat("));
    let told = lines.filter_map(|line| {
        let (name, rest) = line.split_once('(')?;
        Some(match name {
            "openat" => format!("open {}", flags(rest)).trim_end().to_owned(),
            "newfstatat" | "statx" => "stat".to_owned(),
            "mkdirat" => "mkdir".to_owned(),
            "pwrite64" => "write".to_owned(),
            "pread64" => "read".to_owned(),
            "close" => "close".to_owned(),
            "renameat" | "renameat2" => "rename".to_owned(),
            _ => return None,
        })
    });
    told.collect()
}

/// Calls on files of each thread of a command that ends well, by strace; none where that can't
/// trace.
fn traces(scratch: &Scratch, name: &str, command: &Command) -> Option<Vec<String>> {
    let traces = scratch.file(name);
    std::fs::create_dir(&traces).unwrap();
    let mut found = Command::new("strace");
    let of_files =
        "trace=openat,newfstatat,statx,mkdirat,pwrite64,pread64,close,renameat,renameat2";
    found.args(["-ff", "-s", "0", "-e", of_files, "-o"]).arg(traces.join("t"));
    found.arg(command.get_program()).args(command.get_args()).current_dir(&scratch.path);
    let tried = Command::new("strace").args(["-f", "-o", "/dev/null", "true"]).output();
    if !tried.is_ok_and(|ended| ended.status.success()) {
        return None;
    }
    ended_well(output(found));
    let files = std::fs::read_dir(&traces).unwrap().map(|entry| entry.unwrap().path());
    Some(files.map(|path| std::fs::read_to_string(path).unwrap()).collect())
}

/// Calls that the threads of a layout make; none where they can't be traced.
fn traced(scratch: &Scratch, layout: &str) -> Option<Vec<Vec<String>>> {
    let more = ["--space", "64MiB", "--layout", layout, "--engine-limits", "theirs"];
    let command = compare(scratch, &scratch.store(), &[&more[..], &["--quiet"]].concat());
    let texts = traces(scratch, layout, &command)?;
    // Threads that move objects: the main thread, which removes them, locks the directory, too.
    let moves = |text: &str| {
        let names = text.contains(".data\"") || text.contains(".bin\"");
        let moves = text.contains("pwrite64(") || text.contains("pread64(");
        names && moves && !text.contains("ringfall.lock")
    };
    Some(texts.iter().filter(|text| moves(text)).map(|text| calls(text)).collect())
}

#[test]
fn the_calls_are_those_of_the_engines() {
    let cases: [(&str, &[&str], &[&str]); 3] = [
        (
            "lmcache",
            &["stat", "open O_CREAT|O_TRUNC", "write", "close", "rename"],
            &["open", "read", "close"],
        ),
        (
            "vllm",
            &["open O_CREAT|O_EXCL|O_TRUNC|O_DIRECT", "write", "close", "rename"],
            &["open O_DIRECT", "read", "close"],
        ),
        (
            "hicache",
            &["stat", "open O_CREAT|O_TRUNC", "write", "close", "rename"],
            &["open", "read", "close"],
        ),
    ];
    let scratch = Scratch::new("layouts-strace");
    if takes_direct_io(&scratch.path) == Some(false) {
        return skipped("the calls of layouts", "the file system takes no O_DIRECT");
    }
    for (layout, store, load) in cases {
        let Some(threads) = traced(&scratch, layout) else {
            return skipped("the calls of layouts", "strace can't trace here");
        };
        let has = |calls: &Vec<String>, part: &[&str]| {
            calls.windows(part.len()).filter(|calls| *calls == part).count()
        };
        let mut counts = [0, 0];
        for calls in &threads {
            let writes = calls.iter().filter(|call| *call == "write").count();
            let reads = calls.iter().filter(|call| *call == "read").count();
            assert_eq!(has(calls, store), writes, "{layout} stores: {calls:?}");
            assert_eq!(has(calls, load), reads, "{layout} loads: {calls:?}");
            // A prefix of vLLM's, 32 blocks, is moved by one thread.
            let is_whole = layout != "vllm" || (writes % 32, reads % 32) == (0, 0);
            assert!(is_whole, "{layout}: {writes} stores, {reads} loads on a thread");
            counts = [counts[0] + writes, counts[1] + reads];
        }
        // A slow machine has time for one prefix, 8 objects of the largest.
        assert!(counts[0] >= 8 && counts[1] >= 8, "{layout}: {counts:?}");
    }
}

/// Length and place of a read or write in the trace of a thread, bytes.
fn extent(line: &str) -> (u64, u64) {
    let (arguments, _) = line.rsplit_once(')').unwrap();
    let mut numbers = arguments.rsplit(", ").map(|number| number.parse().unwrap());
    let place = numbers.next().unwrap();
    (numbers.next().unwrap(), place)
}

/// Slots of tiny-1b, which has 24 KiB a token, in 128 MiB, which is written over several times.
#[test]
fn a_run_in_slots_makes_the_engine_s_calls_in_one_file_of_its_size() {
    // Their number, the place of the first, the size of a header and of what is behind it.
    let cases = [
        ("lmcache-raw", "raw_block.slots", 21, 256 << 20, 4_096, 6 << 20),
        ("nixl", "nixlbench_POSIX_test_file_0_0", 341, 0, 0, 384 << 10),
    ];
    let scratch = Scratch::new("slots-strace");
    let has_direct = takes_direct_io(&scratch.path) != Some(false);
    for (layout, file, slots, first, header_bytes, bytes) in cases {
        let is_raw = layout == "lmcache-raw";
        let more = ["--layout", layout, "--verify", "full", "--storage-capacity-gb", "0.125"];
        let more = [&more[..], &["--duration", "60", "--max-requests", "60"]].concat();
        let more = [&more[..], &["--layout-option", "evict=lru"]].concat();
        let Some(texts) = traces(&scratch, layout, &scratch.run_command(&more)) else {
            return skipped("the calls of a run in slots", "strace can't trace here");
        };
        let mut threads = [0, 0];
        let mut used = BTreeSet::new();
        for text in &texts {
            let calls: Vec<&str> = text.lines().filter(|line| line.contains(" = ")).collect();
            let is_begun = |line: &&str| line.starts_with("openat(") && line.contains(file);
            // The main thread removes the file.
            let Some(begins) = calls.iter().position(is_begun) else { continue };
            let mut found = [false, false];
            for object in calls[begins..].split_inclusive(|line| line.starts_with("close(")) {
                let [open, moves @ .., _close] = object else { panic!("{object:?}") };
                let is_store = open.contains("O_CREAT");
                found[usize::from(is_store)] = true;
                let expected = [("O_CREAT", is_store), ("O_DIRECT", is_raw && has_direct)];
                let expected = expected.into_iter().filter(|(_, is_set)| *is_set);
                let expected: Vec<&str> = expected.map(|(flag, _)| flag).collect();
                assert_eq!(flags(open), expected.join("|"), "{open}");
                let call = if is_store { "pwrite64(" } else { "pread64(" };
                assert!(moves.iter().all(|line| line.starts_with(call)), "{moves:?}");
                let (moved, place) = extent(moves.last().unwrap());
                assert!(moved <= bytes && moved.is_multiple_of(4_096), "{moves:?}");
                let slot = (place - header_bytes - first) / (bytes + header_bytes);
                assert_eq!(place, first + slot * (bytes + header_bytes) + header_bytes);
                used.insert(slot);
                let has_header = is_raw && is_store;
                assert_eq!(moves.len(), 1 + usize::from(has_header), "{moves:?}");
                if has_header {
                    assert_eq!(extent(moves[0]), (header_bytes, place - header_bytes));
                }
            }
            assert!(!is_raw || found != [true, true], "{layout} loads on threads of its own");
            threads.iter_mut().zip(found).for_each(|(sum, found)| *sum += u64::from(found));
        }
        // Each makes one call at a time.
        let most = if is_raw { [4, 2] } else { [64, 64] };
        assert!((1..=most[0]).contains(&threads[0]), "{layout}: {threads:?} threads");
        assert!((1..=most[1]).contains(&threads[1]), "{layout}: {threads:?} threads");
        assert!(used.len() > 10 && used.last() < Some(&slots), "{layout}: {used:?}");
        let ours = &scratch.json()["ringfall"];
        assert_eq!(ours["files"]["layout"], layout);
        assert_eq!(ours["config"]["settings"]["decode_reads"], "once", "{layout}");
        assert_eq!(ours["verify"]["blocks_bad"], 0, "{layout}");
        assert!(ours["verify"]["blocks_checked"].as_u64() > Some(1_000), "{layout}");
        assert!(!scratch.store().exists(), "the directory was made for it");
    }
}

/// Program whose threads write files beside each other, rename them, and read what others wrote.
const RECORDED: &str = r#"
import os, threading
os.makedirs("kv/sub")
os.mkdir("kv/sub/d")
def put(name):
    with open(f"kv/sub/{name}, (x)<y>.tmp", "wb", buffering=0) as file:
        for part in range(3):
            file.write(bytes(100_000))
        os.fsync(file.fileno())
    os.rename(f"kv/sub/{name}, (x)<y>.tmp", f"kv/sub/d/{name}.bin")
def get(name):
    if os.path.exists(f"kv/sub/d/{name}.bin"):
        with open(f"kv/sub/d/{name}.bin", "rb", buffering=0) as file:
            while file.read(65536):
                pass
def each(work, names):
    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
each(put, range(4))
each(get, range(5))
with open("before/old", "rb", buffering=0) as file:
    file.seek(4096)
    file.read(10_000)
os.unlink("kv/sub/d/0.bin")
"#;

fn replay(scratch: &Scratch, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["layouts", "replay", "recorded", "--cache-dir"]).arg(scratch.store());
    command.args(more).current_dir(&scratch.path);
    output(command)
}

#[test]
fn a_recording_is_replayed_with_its_counts_and_bytes() {
    let scratch = Scratch::new("layouts-replay");
    std::fs::create_dir(scratch.file("before")).unwrap();
    std::fs::write(scratch.file("before/old"), vec![7; 20_000]).unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-ttt", "-T", "-y", "-o", "recorded", "python3", "-c", RECORDED]);
    let recorded = strace.current_dir(&scratch.path).output();
    if !recorded.is_ok_and(|ended| ended.status.success()) {
        return skipped("the replay of a recording", "strace can't trace python3 here");
    }
    let below = scratch.path.canonicalize().unwrap();
    let below = below.to_str().unwrap();
    for more in [&["--speed", "1"][..], &["--speed", "max", "--inject-latency", "p50=1ms,p99=2ms"]]
    {
        let more = [&["--below", below, "--json", "l.json"][..], more].concat();
        let ended = replay(&scratch, &more);
        let page = text(&ended);
        assert_eq!(ended.status.code(), Some(0), "{page}");
        assert!(page.starts_with("verdict"), "{page}");
        let found: Value =
            serde_json::from_slice(&std::fs::read(scratch.file("l.json")).unwrap()).unwrap();
        assert_valid_as("layout-replay", &found);
        let figures = |name: &str| {
            let operations = found["operations"].as_array().unwrap();
            let of_kind = operations.iter().find(|one| one["name"] == name);
            of_kind.map(|one| (one["count"].as_u64().unwrap(), one["bytes"].as_u64().unwrap()))
        };
        assert_eq!(figures("create"), Some((4, 0)), "{page}");
        assert_eq!(figures("write"), Some((12, 1_200_000)), "{page}");
        assert_eq!(figures("fsync"), Some((4, 0)), "{page}");
        assert_eq!(figures("rename"), Some((4, 0)), "{page}");
        assert_eq!(figures("open"), Some((5, 0)), "{page}");
        // Five reads of each file and one at its end, and one of the old file.
        assert_eq!(figures("read"), Some((4 * 6 + 1, 1_210_000)), "{page}");
        assert_eq!(figures("close"), Some((9, 0)), "{page}");
        assert_eq!(figures("unlink"), Some((1, 0)), "{page}");
        assert_eq!(found["files_before"], 1, "{page}");
        assert_eq!((&found["differing"], &found["unread_lines"]), (&0.into(), &0.into()), "{page}");
        assert!(!scratch.store().exists(), "the directory was made for it");
    }
    // Python's own files and the program's have no directory in common.
    assert_fails(&replay(&scratch, &[]), 2, &["no directory in common", "--below"]);
    assert_fails(&replay(&scratch, &["--below", "/none"]), 2, &["no call on a file below /none"]);
    assert!(!scratch.store().exists());
}

/// Counts and bytes of the reads and writes of a replay that went well.
fn replayed(scratch: &Scratch, more: &[&str]) -> (Value, [(u64, u64); 2]) {
    let ended = replay(scratch, &[&["--json", "l.json"][..], more].concat());
    let page = text(&ended);
    assert_eq!(ended.status.code(), Some(0), "{page}");
    let found: Value =
        serde_json::from_slice(&std::fs::read(scratch.file("l.json")).unwrap()).unwrap();
    assert_valid_as("layout-replay", &found);
    assert_eq!((&found["operation"], &found["differing"]), (&"request".into(), &0.into()));
    assert!(page.contains("requests in flight") || page.contains("requests while"), "{page}");
    let of = |name: &str| {
        let operations = found["operations"].as_array().unwrap();
        let of_kind = operations.iter().find(|one| one["name"] == name);
        of_kind
            .map_or((0, 0), |one| (one["count"].as_u64().unwrap(), one["bytes"].as_u64().unwrap()))
    };
    let kinds = [of("read"), of("write")];
    (found, kinds)
}

/// Requests to a drive, as `tools/block-requests.bt` recorded them of fio, whose lines are not in
/// order.
#[test]
fn recorded_requests_are_replayed_with_their_counts_and_bytes() {
    let scratch = Scratch::new("layouts-requests");
    let recorded = include_str!("data/block_requests.txt");
    std::fs::write(scratch.file("recorded"), format!("noise\n{recorded}8,1 cut o")).unwrap();
    // Nothing was issued twice or failed, so that what was issued is what is replayed.
    let issued = |kind: char| {
        let lines = recorded.lines().filter_map(|line| line.split_once(" D "));
        let lines = lines.filter(|(_, rest)| rest.starts_with(kind));
        let sectors = lines.map(|(_, rest)| rest.split(' ').nth(3).unwrap().parse::<u64>());
        let sectors: Vec<u64> = sectors.map(Result::unwrap).collect();
        (sectors.len() as u64, sectors.iter().sum::<u64>() * 512)
    };
    assert_eq!(issued('R'), (30, 30 << 17), "fio's, of 128 KiB");
    for more in [&["--speed", "1", "--below", "254,0"][..], &["--speed", "max"]] {
        let (found, kinds) = replayed(&scratch, more);
        assert_eq!(kinds, [issued('R'), issued('W')]);
        assert_eq!(found["below"], "254,0");
        let left_out =
            r#"[{"bytes":0,"call":"discard","count":1},{"bytes":0,"call":"flush","count":6}]"#;
        assert_eq!(found["not_replayed"].to_string(), left_out);
        assert_eq!((&found["untold"], &found["unread_lines"]), (&0.into(), &2.into()));
        // At most all of it; fio's parts lie beside each other in 64 MiB.
        let before_gib = found["gib_before"].as_f64().unwrap() * f64::from(1 << 30);
        assert!(before_gib <= (issued('R').1 + issued('W').1 + 8 * 4096) as f64, "{found}");
        assert_eq!(found["recorded_in_flight"]["most"], 4, "fio's depth");
        assert!(!scratch.store().exists());
    }
    assert_fails(&replay(&scratch, &["--below", "8,1"]), 2, &["of drives 254,0: give another"]);
    let part = recorded.lines().find(|line| line.contains(" D R")).unwrap();
    std::fs::write(scratch.file("recorded"), part).unwrap();
    assert_fails(&replay(&scratch, &[]), 2, &["issued and completed: record the drive itself"]);
}

/// The script for bpftrace, of reads that this test makes.
#[test]
fn requests_recorded_here_are_replayed() {
    let scratch = Scratch::new("layouts-bpftrace");
    std::fs::write(scratch.file("read"), vec![1; 1 << 20]).unwrap();
    let file = std::fs::File::open(scratch.file("read")).unwrap();
    file.sync_all().unwrap();
    let drive = file.metadata().unwrap().dev();
    let numbers = [rustix::fs::major(drive), rustix::fs::minor(drive)].map(|one| one.to_string());
    let is_disk = Path::new("/sys/dev/block").join(numbers.join(":")).join("queue").exists();
    let traces = is_root() && tool("bpftrace", &["--version"]).is_ok();
    if !traces || !is_disk || takes_direct_io(&scratch.path) != Some(true) {
        let why = "it needs root, bpftrace and a directory on a whole disk";
        return skipped("tools/block-requests.bt", why);
    }
    let mut trace = Command::new("bpftrace");
    trace.args(["-q", "tools/block-requests.bt"]).args(numbers);
    let trace = spawn_to(trace, std::fs::File::create(scratch.file("recorded")).unwrap().into());
    let completed = || {
        let recorded = std::fs::read_to_string(scratch.file("recorded")).unwrap();
        recorded.lines().filter(|line| line.contains(" C R")).count() as u64
    };
    wait_until("the trace has seen reads", || {
        let mut read = Command::new("dd");
        read.args(["if=read", "of=/dev/null", "bs=64k", "iflag=direct"]);
        read.current_dir(&scratch.path);
        ended_well(output(read));
        completed() > 32
    });
    kill_process(Pid::from_child(&trace), Signal::INT).unwrap();
    ended_well(finish(trace));
    let (found, [reads, _]) = replayed(&scratch, &["--speed", "max"]);
    let untold = found["untold"].as_u64().unwrap();
    assert!((completed() - untold..=completed()).contains(&reads.0), "{found}");
    assert!(reads.1 >= 1 << 20, "{found}");
}

#[test]
fn what_is_no_recording_is_refused_with_the_remedy() {
    let scratch = Scratch::new("layouts-replay-refused");
    let open = "1 100.0 openat(AT_FDCWD, \"/kv/a\", O_RDONLY) = 3</kv/a> <0.1>\n";
    let huge = "1 101.0 pread64(3</kv/a>, \"\", 4096, 4611686018427387904) = 4096 <0.1>\n";
    for (recording, words) in [
        ("", "it is empty; record with `strace -f -ttt -T -y"),
        ("nonsense\n", "none of its rows can be read (line 1: it has no time"),
        (open, "no file in it was read or written"),
        (&format!("{open}{huge}"), "the recording finds files of "),
    ] {
        std::fs::write(scratch.file("recorded"), recording).unwrap();
        assert_fails(&replay(&scratch, &[]), 2, &[words]);
        assert!(!scratch.store().exists(), "{recording}");
    }
    let output = ["--below", "/kv", "--json", "./recorded"];
    assert_fails(&replay(&scratch, &output), 2, &["would overwrite the input recorded"]);
    let mut writes = open.replace("RDONLY", "WRONLY|O_CREAT");
    for place in 0..10_000_u64 {
        let (second, bytes) = (101 + place, i32::MAX);
        let offset = place * u64::from(bytes.unsigned_abs());
        let call = format!("pwrite64(3</kv/a>, \"\", {bytes}, {offset}) = {bytes}");
        writes += &format!("1 {second}.0 {call} <0.1>\n");
    }
    std::fs::write(scratch.file("recorded"), writes).unwrap();
    assert_fails(&replay(&scratch, &[]), 2, &["files of 0 KiB and needs 19.5 TiB more"]);
    assert_fails(&replay(&scratch, &["--speed", "0"]), 2, &["give 0.001 to 1000, or max"]);
    for latency in ["61s", "p50=2ms", "p50=2ms,p99=1ms", "p99=2ms,p50=1ms"] {
        let ended = replay(&scratch, &["--inject-latency", latency]);
        assert_fails(&ended, 2, &["give a time up to 60s, such as 5ms, or p50=1ms,p99=20ms"]);
    }
}

/// It says so, and counts nothing that ended otherwise.
#[test]
fn a_call_that_ends_otherwise_fails_the_replay() {
    let scratch = Scratch::new("layouts-replay-differs");
    let recording = "1 100.0 mkdir(\"/kv/a\", 0777) = 0 <0.1>\n\
                     1 101.0 openat(AT_FDCWD, \"/kv/a/b\", O_RDWR|O_CREAT|O_EXCL) = 3 <0.1>\n\
                     1 102.0 write(3, \"\", 10) = 10 <0.1>\n\
                     1 103.0 pread64(3, \"\", 20, 0) = 20 <0.1>\n\
                     1 104.0 ftruncate(3</kv/a/b>, 0) = 0 <0.1>\n";
    std::fs::write(scratch.file("recorded"), recording).unwrap();
    let ended = replay(&scratch, &["--below", "/kv", "--speed", "100", "--json", "-"]);
    let told = ["\"differing\": 1,", "read of an open file: it moved 10 bytes", "ftruncate"];
    assert_fails(&ended, 1, &told);
    assert!(!scratch.store().exists());
    let quiet = replay(&scratch, &["--below", "/kv", "--speed", "100", "--quiet"]);
    assert_fails(&quiet, 1, &["error: 1 operation ended otherwise than in the recording"]);
}
