//! `ringfall compare` of collections: the published analysis again, and what makes no sense.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::support::{Scratch, assert_fails, ended_well, text};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn analyze(fast: &Path, slow: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.arg("compare").arg(fast).arg(slow).args(more);
    command.output().unwrap()
}

/// Result that the run of `users` on a system `speed` times as fast would leave behind.
fn result(speed: f64) -> String {
    json!({ "summary": {
        "total_tokens": 1000, "total_storage_io_time": 10.0 / speed,
        "avg_throughput_tokens_per_sec": 100.0 * speed,
        "cache_stats": { "decode_bytes_read_gb": 8.0 * speed } } })
    .to_string()
}

#[test]
fn the_published_findings_are_printed_and_written_as_json() {
    let (fast, slow) = (data("discovery_fast.xlsx"), data("discovery_slow.csv"));
    let page = analyze(&fast, &slow, &[]);
    let page = text(&page);
    assert!(page.contains("220 configurations were run on both"), "{page}");
    let zero = page.split("CPU memory 0 GiB").nth(1).unwrap();
    let line = |name: &str| zero.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line("decode bytes read").contains("2.62×"), "{page}");
    assert!(line("decode bytes read").contains("100.0 %"), "{page}");
    assert!(line("wall-clock throughput").contains("2.43×"), "{page}");
    assert!(line("storage throughput").contains("62.2 %"), "{page}");
    // The models by their ratio of storage throughput, as published; the best of each last.
    let places = ["llama3.1-8b", "mistral-7b", "llama2-7b", "llama3.1-70b-instruct"]
        .map(|model| page.find(&format!("\n{model}  ")).unwrap());
    assert!(places.is_sorted(), "{page}");
    let best = page.split("best of a model").nth(1).unwrap();
    let row = "llama3.1-8b, CPU 4 GiB, 150 users, allocs 0";
    let row = best.lines().find(|line| line.contains(row)).unwrap();
    assert!(row.contains("storage throughput, tokens/s") && row.contains("2.87×"), "{page}");
    let by_name = text(&analyze(&fast, &slow, &["--sort", "name", "--by", "model"]));
    assert!(by_name.find("\nllama2-7b") < by_name.find("\nllama3.1-8b"), "{by_name}");
    let medians = text(&analyze(&fast, &slow, &["--by", "cpu-memory,generation"]));
    let none = medians.split("CPU memory 0 GiB, generation none").nth(1).unwrap();
    let row = none.lines().find(|line| line.contains("storage throughput")).unwrap();
    assert!(row.contains(" 1.13×"), "the published 1.12, of 1.125: {row}");

    let said = page.split_once("\nconclusion ").unwrap().1;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let want = "The first system is better: its storage throughput is 2.27× the second system's \
                (median of 144 of 220 pairs, half of which lie between 1.96 and 2.57; 95 % \
                interval of the median 2.20 to 2.34).";
    assert_eq!(said, want, "{page}");

    let output = analyze(&fast, &slow, &["--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["conclusion"].as_str(), &json["is_comparable"]), (Some(want), &true.into()));
    assert_eq!(json["matched_configurations"], 220);
    let groups = json["groups"].as_array().unwrap();
    let group = groups.iter().find(|group| group["label"] == "CPU memory 4 GiB").unwrap();
    let rows = group["rows"].as_array().unwrap();
    let row = rows.iter().find(|r| r["metric"] == "storage_throughput_tokens_per_s").unwrap();
    assert!((row["ratio_of_means"].as_f64().unwrap() - 2.23).abs() < 0.005, "{row}");
    assert!((row["win_rate"].as_f64().unwrap() - 0.972).abs() < 0.0005, "{row}");
    let cells = groups.iter().filter(|group| group["by"].as_array().unwrap().len() == 3).count();
    assert!(cells > 20, "{cells} cells of CPU memory × model × users");
}

/// Scripts and pages call it so.
#[test]
fn the_old_spelling_prints_the_same_and_is_in_no_help() {
    let (fast, slow) = (data("discovery_fast.xlsx"), data("discovery_slow.csv"));
    let of = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_ringfall")).args(args).output();
    let mut old = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    let old = old.arg("analyze").arg(&fast).arg(&slow).args(["--by", "model"]).output().unwrap();
    assert_eq!(text(&old), text(&analyze(&fast, &slow, &["--by", "model"])));
    let help = text(&of(&["--help"]).unwrap());
    assert!(help.contains("  compare ") && !help.contains("  analyze "), "{help}");
    let single = of(&["compare", "a.json", "b.json", "--by", "model"]).unwrap();
    assert_fails(&single, 2, &["--by and --sort", "two directories"]);
}

#[test]
fn directories_of_results_are_matched_and_their_trials_averaged() {
    let scratch = Scratch::new("directories");
    let (fast, slow) = (scratch.file("fast"), scratch.file("slow"));
    for (directory, speeds) in [(&fast, [3.0, 5.0]), (&slow, [2.0, 2.0])] {
        std::fs::create_dir_all(directory).unwrap();
        for (trial, speed) in speeds.iter().enumerate() {
            let name = format!("x_tiny-1b_cpu0GB_qd0_gennone_users5_trial{trial}.json");
            std::fs::write(directory.join(name), result(*speed)).unwrap();
        }
        std::fs::write(directory.join("notes.txt"), "not a result").unwrap();
        for (name, key) in [
            ("merged", json!({ "merged": {} })),
            (
                "cut",
                json!({ "window": {
            "interrupted": true } }),
            ),
        ] {
            let mut document: Value = serde_json::from_str(&result(99.0)).unwrap();
            document["ringfall"] = key;
            document["ringfall"]["schema_version"] =
                ringfall_model::document::SCHEMA_VERSION.into();
            std::fs::write(directory.join(format!("{name}.json")), document.to_string()).unwrap();
        }
    }
    let output = ended_well(analyze(&fast, &slow, &["--json", "--by", "model"]));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["matched_configurations"], 1);
    assert_eq!(json["fast"]["left_out"][0]["why"], "the run was interrupted");
    assert_eq!(json["fast"]["left_out"].as_array().unwrap().len(), 2);
    let rows = json["groups"][0]["rows"].as_array().unwrap();
    for row in rows.iter().filter(|row| row["metric"] != "storage_io_time_s") {
        if row["metric"] != "tokens" {
            assert_eq!(row["ratio_of_means"], 2.0, "{row}");
        }
    }
    assert!(rows.len() >= 4);
    // Four times the same table, as each grouping had one group.
    let page = text(&analyze(&fast, &slow, &[]));
    assert_eq!(page.matches("\n  decode bytes read").count(), 1, "{page}");
}

/// Results of the reference as other documents name them, with what iostat counted beside them.
#[test]
fn any_directory_of_reference_results_is_compared() {
    let scratch = Scratch::new("any_directory");
    let (fast, slow) = (scratch.file("fast"), scratch.file("slow"));
    let recorded = |speed: f64| {
        let mut document: Value = serde_json::from_str(&result(speed)).unwrap();
        document["args"] = json!({ "model": "mistral-7b", "num_users": 9, "cpu_mem_gb": 0,
                                   "max_concurrent_allocs": 2, "generation_mode": "none" });
        document.to_string()
    };
    for (directory, speed) in [(&fast, 4.0), (&slow, 2.0)] {
        std::fs::create_dir_all(directory).unwrap();
        let write = |name: &str, text: String| std::fs::write(directory.join(name), text).unwrap();
        write("llama3.1-8b_stress_trial1.json", result(speed));
        write("kvcache_results_20260712_182112.json", result(speed * 10.0));
        write("a.json", recorded(speed * 100.0));
        let head = "Device r/s rMB/s w/s wMB/s\n";
        write("a_iostat.log", format!("{head}vda 1 9 1 9\n\n{head}vda 1 {speed} 1 0\n"));
        write("b_iostat.json", "{}".to_owned());
    }
    let page = text(&analyze(&fast, &slow, &[]));
    for part in [
        "3 runs of 3 configurations",
        "1 are taken to be the published invocations",
        "1 do not say what was run",
        "1 have iostat's output beside them",
        "device read by the kernel, MB/s",
        "llama3.1-8b, CPU 0 GiB, 200 users, allocs 0",
        "mistral-7b, CPU 0 GiB, 9 users, allocs 2",
        "model not said",
    ] {
        assert!(page.contains(part), "{part}:\n{page}");
    }
    std::fs::write(fast.join("a_iostat.log"), "nothing").unwrap();
    assert_fails(&analyze(&fast, &slow, &[]), 2, &["a_iostat.log", "iostat -x"]);
}

#[test]
fn a_directory_becomes_one_sheet_that_analyze_reads_again() {
    let scratch = Scratch::new("one_sheet");
    let runs = scratch.file("runs");
    std::fs::create_dir_all(&runs).unwrap();
    for users in [5, 6] {
        let name = format!("x_tiny-1b_cpu0GB_qd0_gennone_users{users}.json");
        std::fs::write(runs.join(name), result(1.0)).unwrap();
    }
    std::fs::write(runs.join("limits.json"), "{\"format\": 1}").unwrap();
    let report = |output: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.arg("report").arg(&runs).arg("--xlsx-output").arg(scratch.file(output));
        command.output().unwrap()
    };
    for output in ["all.csv", "all.xlsx"] {
        let told = ended_well(report(output));
        let told = String::from_utf8(told.stderr).unwrap();
        assert!(told.contains("left out") && told.contains("limits.json"), "{told}");
    }
    let sheet = std::fs::read_to_string(scratch.file("all.csv")).unwrap();
    assert_eq!(sheet.lines().count(), 3);
    assert!(sheet.starts_with("Filename,Timestamp,Model"), "{sheet}");
    std::fs::remove_file(runs.join("limits.json")).unwrap();
    for output in ["all.csv", "all.xlsx"] {
        let page = text(&analyze(&scratch.file(output), &runs, &[]));
        assert!(page.contains("2 runs of 2 configurations"), "{page}");
        let line = page.lines().find(|line| line.contains("wall-clock throughput")).unwrap();
        assert!(line.contains("1.00×"), "{page}");
    }
    // A page is of results of ringfall; a job is of one.
    assert_fails(&report("all.html"), 2, &["runs", "no result"]);
    assert_fails(&report("all.txt"), 2, &["all.txt", ".csv"]);
}

#[test]
fn what_is_no_collection_is_named_and_ends_with_status_2() {
    let scratch = Scratch::new("nonsense");
    let good = scratch.file("good");
    let name = "x_tiny-1b_cpu0GB_qd0_gennone_users5.json";
    std::fs::create_dir_all(&good).unwrap();
    std::fs::write(good.join(name), result(1.0)).unwrap();
    let whole = std::fs::read(data("discovery_slow.xlsx")).unwrap();
    let cut = result(1.0).into_bytes();
    let files: &[(&str, &[u8], &[&str])] = &[
        ("cut.xlsx", &whole[..whole.len() / 2], &["cut.xlsx", "spreadsheet"]),
        ("empty.xlsx", b"", &["empty.xlsx", "empty"]),
        ("text.xlsx", b"hello", &["text.xlsx", "spreadsheet"]),
        ("other.csv", b"a,b\n1,2\n", &["other.csv", "Filename"]),
        ("file.dat", b"hello", &["file.dat", "directory"]),
        ("d1/x.json", b"{\"summary\": {}}", &["d1", "no results"]),
        ("d2/x_m_cpu0GB_qd0_gennone_users5.json", &cut[..30], &["users5.json", "cut off"]),
        ("d3/x_m_cpu0GB_qd0_gennone_users5.json", b"[1, 2]", &["users5.json", "object"]),
        ("d4/x_m_cpu0GB_qd0_gennone_users5.json", b"", &["users5.json", "empty"]),
        ("d5/readme.txt", b"x", &["d5", "no results"]),
        ("d6/x_other_cpu0GB_qd0_gennone_users5.json", &cut, &["no configuration", "other"]),
    ];
    for (file, content, words) in files {
        let path = scratch.file(file);
        let parent = path.parent().unwrap();
        std::fs::create_dir_all(parent).unwrap();
        std::fs::write(&path, content).unwrap();
        let side = if parent == scratch.path { &*path } else { parent };
        assert_fails(&analyze(side, &good, &[]), 2, words);
        assert_fails(&analyze(&good, side, &[]), 2, words);
    }
    assert_fails(&analyze(&scratch.file("nowhere"), &good, &[]), 2, &["nowhere", "No such file"]);
}
