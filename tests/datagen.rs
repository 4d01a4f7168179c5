//! `ringfall datagen` by the real binary, held against brute force.

use std::collections::HashSet;
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Scratch, assert_fails, ended_well, output, text};

fn datagen(scratch: &Scratch, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("datagen").args(more).current_dir(&scratch.path);
    output(command)
}

fn json(scratch: &Scratch, more: &[&str]) -> Value {
    let output = ended_well(datagen(scratch, &[more, &["--json"]].concat()));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Bytes that follow from a number, as random as can be.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Files of known blocks: noise, zeros, copies inside a file and across files, at whole and at odd
/// places, text, and lengths that no block divides.
fn crafted() -> Vec<(&'static str, Vec<u8>)> {
    let mut copies = noise(1, 100_000);
    copies.resize(131_072, 0);
    copies.extend(noise(1, 100_000));
    let text = b"the quick brown fox jumps over the lazy dog. ".repeat(5_000);
    let mut shifted = vec![7; 100];
    shifted.extend(noise(1, 70_000));
    vec![
        ("a-noise", noise(2, 300_001)),
        ("b-zeros", vec![0; 200_000]),
        ("c-copies", copies),
        ("d/e-other", noise(2, 262_144)),
        ("d/f-text", text),
        ("d/g-shifted", shifted),
        ("d/h-empty", Vec::new()),
        ("d/i-short", vec![1; 511]),
    ]
}

#[test]
fn an_analysis_agrees_with_brute_force() {
    let scratch = Scratch::new("analyze-data");
    let files = crafted();
    for (name, bytes) in &files {
        let path = scratch.file("data").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
    let sizes = ["512", "1k", "4k", "64k", "128k"];
    let found = json(&scratch, &["analyze", "data", "--block-sizes", &sizes.join(",")]);
    assert_eq!(found["files"], files.len());
    for (index, size) in [512, 1024, 4096, 65_536, 131_072].into_iter().enumerate() {
        let blocks = || files.iter().flat_map(move |(_, bytes)| bytes.chunks_exact(size));
        let distinct: HashSet<&[u8]> = blocks().collect();
        let zeros = blocks().filter(|block| block.iter().all(|byte| *byte == 0)).count();
        let figures = &found["duplicates"][index];
        assert_eq!(figures["block_bytes"], size);
        assert_eq!(figures["blocks"], blocks().count(), "{size}");
        assert_eq!(figures["distinct"], distinct.len(), "{size}");
        assert_eq!(figures["zeros"], zeros, "{size}");
        assert_eq!(figures["exact"], true);
        let ratio = blocks().count() as f64 / distinct.len() as f64;
        assert!((figures["dedupe_ratio"].as_f64().unwrap() - ratio).abs() < 1e-9, "{figures}");
    }
    let units = || files.iter().flat_map(|(_, bytes)| bytes.chunks(65_536));
    let bytes: usize = units().map(<[u8]>::len).sum();
    let zstd = |unit: &[u8]| zstd::bulk::compress(unit, 1).unwrap().len().min(unit.len());
    let packed: usize = units().map(zstd).sum();
    let expected = bytes as f64 / packed as f64;
    let found_ratio = found["packed"]["zstd_ratio"].as_f64().unwrap();
    assert!((found_ratio - expected).abs() < 1e-9, "{found_ratio} {expected}");
    let mut counts = [0_u64; 256];
    files.iter().flat_map(|(_, bytes)| bytes).for_each(|byte| counts[usize::from(*byte)] += 1);
    let parts = counts.iter().filter(|count| **count > 0).map(|n| *n as f64 / bytes as f64);
    let entropy: f64 = parts.map(|part| -part * part.log2()).sum();
    let found_entropy = found["packed"]["entropy_bits"].as_f64().unwrap();
    assert!((found_entropy - entropy).abs() < 1e-9, "{found_entropy} {entropy}");
}

#[test]
fn our_content_has_no_duplicates_and_does_not_shrink() {
    let scratch = Scratch::new("ours");
    let found = json(&scratch, &["analyze", "--generated-gib", "0.125"]);
    for size in found["duplicates"].as_array().unwrap() {
        assert_eq!(size["blocks"], size["distinct"], "{size}");
    }
    let ratio = found["packed"]["zstd_ratio"].as_f64().unwrap();
    assert!((ratio - 1.0).abs() < 0.005, "{found}");
    assert!(found["packed"]["entropy_bits"].as_f64().unwrap() > 7.9999, "{found}");
}

#[test]
fn content_of_given_ratios_measures_as_such_and_is_verified() {
    let scratch = Scratch::new("ratios");
    let ratios =
        ["--size-gib", "0.0625", "--dedupe-ratio", "3", "--compress-ratio", "2", "--seed", "9"];
    ended_well(datagen(&scratch, &[&["write", "data"], &ratios[..]].concat()));
    let found = json(&scratch, &["analyze", "data", "--block-sizes", "512,4k,16k,64k"]);
    for size in found["duplicates"].as_array().unwrap() {
        let ratio = size["dedupe_ratio"].as_f64().unwrap();
        assert!((ratio / 3.0 - 1.0).abs() < 0.02, "{size}");
    }
    let ratio = found["packed"]["zstd_ratio"].as_f64().unwrap();
    assert!((ratio / 2.0 - 1.0).abs() < 0.02, "{ratio}");
    ended_well(datagen(&scratch, &[&["verify", "data"], &ratios[..]].concat()));
    let again = datagen(&scratch, &[&["write", "data"], &ratios[..]].concat());
    assert_fails(&again, 2, &["data already exists", "--overwrite"]);
    let mut bytes = std::fs::read(scratch.file("data")).unwrap();
    bytes[1_000_000] ^= 1;
    std::fs::write(scratch.file("data"), bytes).unwrap();
    let damaged = datagen(&scratch, &[&["verify", "data"], &ratios[..]].concat());
    assert_fails(&damaged, 1, &["1 of 16384 blocks", "offset 999424"]);
    let other = datagen(&scratch, &["verify", "data", "--size-gib", "0.125"]);
    assert_fails(&other, 2, &["has 67108864 bytes and not 134217728"]);
}

#[test]
fn what_cannot_be_analyzed_is_told() {
    let scratch = Scratch::new("unreadable");
    std::fs::write(scratch.file("x"), "x").unwrap();
    std::fs::create_dir(scratch.file("d")).unwrap();
    std::fs::write(scratch.file("d/y"), "y").unwrap();
    let (mode, kind) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(rustix::fs::CWD, scratch.file("pipe"), kind, mode, 0).unwrap();
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["analyze"], 2, &["PATH"]),
        (&["analyze", "/no/such"], 1, &["can't look at /no/such", "check the path"]),
        (&["analyze", "/dev/null"], 2, &["neither a file nor a directory"]),
        (&["analyze", "x", "--block-sizes", "500"], 2, &["--block-sizes 500: give powers of two"]),
        (&["analyze", "x", "--memory-mib", "1048576"], 2, &["--memory-mib 1048576"]),
        (&["analyze", "x", "--output", "x"], 2, &["would overwrite the input x"]),
        (&["analyze", "d", "--output", "d/y"], 2, &["would overwrite the input d/y"]),
        (&["write", "x/y"], 1, &["can't write x/y", "a part of that path is a file"]),
        (&["write", "."], 2, &["already exists, and is not a file"]),
        // Nobody writes into it: an open that waits would never end.
        (&["verify", "pipe"], 1, &["pipe: it is not a plain file"]),
    ];
    for (args, status, words) in cases {
        assert_fails(&datagen(&scratch, args), *status, words);
    }
}

/// The analysis was lost with the file.
#[test]
fn an_analysis_that_can_t_be_written_is_shown() {
    let scratch = Scratch::new("full-analysis");
    let given = ["analyze", "--generated-gib", "0.001", "--output", "/dev/full"];
    let told = "the result can't be written to /dev/full: No space left";
    let page = datagen(&scratch, &given);
    assert_fails(&page, 1, &[told, "content that ringfall makes", "bits a byte"]);
    let json = datagen(&scratch, &[&given[..], &["--json"]].concat());
    assert_fails(&json, 1, &[told]);
    let shown: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(shown["format"], "ringfall-datagen-analysis");
}

#[test]
fn a_name_of_two_lines_is_shown_in_one() {
    let scratch = Scratch::new("two-lines");
    let name = "one\u{1b}[31m\ntwo";
    std::fs::write(scratch.file(name), "x").unwrap();
    let shown = "one\\u{1b}[31m\\u{a}two: ";
    let analyzed = datagen(&scratch, &["analyze", name]);
    assert_eq!(analyzed.status.code(), Some(0));
    assert!(text(&analyzed).starts_with(&format!("{shown}0.000 GiB in 1 file,")), "{analyzed:?}");
    for work in ["write", "verify"] {
        let mut command = vec![work, name, "--size-gib", "0.001"];
        command.extend((work == "write").then_some("--overwrite"));
        let done = datagen(&scratch, &command);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        assert!(text(&done).contains(shown), "{done:?}");
    }
}
