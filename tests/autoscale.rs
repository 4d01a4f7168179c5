//! The autoscaler on the simulated clock, against drives whose service rates are known.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Scratch, assert_fails, output, text};

const FAST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices/fast-nvme.yaml");
const SLOW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/devices/slow-vmfs.yaml");
/// The published search for the number of users, without the GPU tier.
const PUBLISHED: &str = "--model llama3.1-8b --num-users 20 --gpu-mem-gb 0 --cpu-mem-gb 32 \
                         --enable-autoscaling --generation-mode realistic --seed 42";

fn simulate(scratch: &Scratch, device: &str, line: &str) -> (Output, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["simulate", "--output", "result.json", "--device", device]);
    command.args(line.split_whitespace()).current_dir(&scratch.path).stdin(Stdio::null());
    let ended = output(command);
    assert_eq!(ended.status.code(), Some(0), "{line}: {}", text(&ended));
    let found = scratch.json()["ringfall"]["autoscaler"].clone();
    (ended, found)
}

fn users(found: &Value) -> f64 {
    found["qos_users"].as_f64().unwrap()
}

#[test]
fn the_published_qos_search_finds_users_for_the_described_drive() {
    let scratch = Scratch::new("qos-published");
    let (ended, found) =
        simulate(&scratch, FAST, &format!("{PUBLISHED} --autoscaler-mode qos --duration 2400"));
    // With 60 users a third of the drive is used, with 80 most of it, with 120 all.
    assert!((55.0..=95.0).contains(&users(&found)), "{found}");
    assert_eq!((&found["conclusive"], &found["qos_confirmed"]), (&true.into(), &true.into()));
    let part = found["qos_broke"]["part"].as_str().unwrap();
    assert!(part.starts_with("storage"), "{part}");
    assert!(found["qos_none_because"].is_null());
    for line in ["closed loop", "within the target saturation", "broke first"] {
        assert!(text(&ended).contains(line), "{line}: {}", text(&ended));
    }
    let summary = &scratch.json()["summary"];
    assert_eq!(summary["autoscaling_summary"]["final_users"], found["qos_users"]);
    let rows = summary["autoscaling_stats"].as_array().unwrap();
    let levels = rows.iter().map(|row| row["saturation_level"].as_f64().unwrap());
    assert!(levels.clone().any(|level| level > 0.8) && levels.clone().any(|level| level < 0.8));
    // Each step has the figures by which people judge it.
    for step in found["curve"].as_array().unwrap() {
        let figure = |key: &str| step[key].as_f64().unwrap();
        let shares = [figure("drive_busy_share"), figure("reuse_share"), figure("used_share")];
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{step}");
        let of_load = |at: usize| step["load_ms"][at].as_f64().unwrap();
        assert!(of_load(0) <= of_load(1) && step["loads"].as_u64().unwrap() > 0, "{step}");
        assert!(figure("storage_io_p95_ms") > 0.0, "{step}");
    }

    // Five minutes are too few to be sure, and say so.
    let (ended, found) =
        simulate(&scratch, FAST, &format!("{PUBLISHED} --autoscaler-mode qos --duration 300"));
    assert!((40.0..=95.0).contains(&users(&found)), "{found}");
    assert!(text(&ended).contains("--duration"), "{}", text(&ended));

    // Targets that no drive can meet are refused; where some answers are short enough, what kept
    // them is told.
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["simulate", "--device", FAST, "--autoscaler-mode", "slo"]);
    command.args(PUBLISHED.split_whitespace()).current_dir(&scratch.path);
    assert_fails(&output(command), 2, &["can't be met by any drive", "50 ms to the last token"]);
    let targets = "[600, 700, 800, 900]";
    std::fs::write(
        scratch.file("config.yaml"),
        format!(
            "workload:\n  qos_targets_ms: {{interactive: {targets}, responsive: {targets}, batch: \
             {targets}}}\n"
        ),
    )
    .unwrap();
    let line = format!("{PUBLISHED} --autoscaler-mode slo --duration 300 --config config.yaml");
    let (ended, found) = simulate(&scratch, FAST, &line);
    assert_eq!((users(&found), &found["mode"]), (0.0, &"slo".into()), "{found}");
    let why = found["qos_none_because"].as_str().unwrap();
    for part in ["with 1 user", "P95", "against a target of", "generation", "--autoscaler-mode qos"]
    {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert!(text(&ended).contains("0 users served in time"), "{}", text(&ended));
}

/// Urgent classes kept the others waiting for ever: "24 users served in time, confirmed" was said
/// where 20 of 24 never got an answer.
#[test]
fn users_that_get_no_answer_are_not_served_in_time() {
    let scratch = Scratch::new("slo-starved");
    let targets = "[20000, 21000, 22000, 23000]";
    std::fs::write(
        scratch.file("config.yaml"),
        format!(
            "workload:\n  qos_targets_ms: {{interactive: {targets}, responsive: {targets}, batch: \
             {targets}}}\n  autoscaler: {{users_max: 24}}\n"
        ),
    )
    .unwrap();
    let line = "--config config.yaml --model llama3.1-8b --generation-mode none --cpu-mem-gb 0 \
                --enable-autoscaling --autoscaler-mode slo --num-users 24 --seed 2 --duration 4000";
    let (ended, found) = simulate(&scratch, SLOW, line);
    assert!(users(&found) < 24.0, "{}", text(&ended));
    let curve = found["curve"].as_array().unwrap();
    let late = curve.iter().find(|step| step["users"] == 24).unwrap();
    assert!(late["saturation"].as_f64().unwrap() > 0.8, "{late}");
    for step in curve {
        assert!(step["window_s"].as_f64().unwrap() >= 20.0, "{step}");
    }
}

/// Users that read one entry of 50 MB twice, then think for a second.
fn known(scratch: &Scratch, gb_per_s: u32, targets: &str) -> (String, String) {
    let device = scratch.file(&format!("drive-{gb_per_s}.yaml"));
    let direction =
        format!("{{mb_per_s: {}, iops: 1000000, latency_us: 10}}", u64::from(gb_per_s) * 1_000);
    let text = format!(
        "name: known\nsource: chosen\nread: {direction}\nwrite: {direction}\n\
         memory_mb_per_s: 8000\n"
    );
    std::fs::write(&device, text).unwrap();
    let config = scratch.file("known.yaml");
    let text = format!(
        "workload:\n  personas:\n    same: {{context_tokens: [9, 9], generation_tokens: [1, 1], \
         think_time_s: [1, 1]}}\n  decode_only_entry_tokens: 2048\n  \
         saturation_targets: {targets}\n"
    );
    std::fs::write(&config, text).unwrap();
    let line = format!(
        "--config {} --model tiny-1b --decode-only --generation-mode none --cpu-mem-gb 0 \
         --enable-autoscaling --arrival closed --num-users 8 --seed 3 --duration 2000 --shards 1 \
         --max-inflight-requests 500",
        config.display()
    );
    (device.display().to_string(), line)
}

#[test]
fn users_for_a_known_service_rate_are_those_of_its_target_saturation() {
    let scratch = Scratch::new("qos-known");
    // Any latency is beyond this target: what counts is the use of the drive, 0.8 of the users with
    // which it is always busy.
    let tight = "{read_p95_ms: 0.1}";
    for gb_per_s in [5, 10] {
        let (device, line) = known(&scratch, gb_per_s, tight);
        let (_, found) = simulate(&scratch, &device, &line);
        let stats = &scratch.json()["summary"]["cache_stats"];
        let reads = stats["decode_reads"].as_f64().unwrap();
        let request_bytes = stats["total_read_bytes"].as_f64().unwrap()
            / scratch.json()["summary"]["total_requests"].as_f64().unwrap();
        assert!(reads > 1_000.0 && request_bytes > 1e6, "{stats}");
        let service_s = request_bytes / (f64::from(gb_per_s) * 1e9);
        let expected = 0.8 * (1.0 + service_s) / service_s;
        let ratio = users(&found) / expected;
        assert!((0.88..1.12).contains(&ratio), "{gb_per_s} GB/s: {expected}, {found}");
        assert_eq!(found["qos_broke"]["part"], "storage throughput");
    }
}

#[test]
fn an_answer_of_zero_names_the_part_its_value_and_what_would_do() {
    let scratch = Scratch::new("qos-zero");
    let (device, line) = known(&scratch, 5, "{read_p95_ms: 0.1}");
    let (ended, found) = simulate(&scratch, &device, &format!("{line} --target-saturation 0.001"));
    assert_eq!(users(&found), 0.0, "{found}");
    let why = found["qos_none_because"].as_str().unwrap();
    let parts = [
        "with 1 user the device needed ",
        "to read an entry against a target of 0.10 ms, at ",
        " % of the highest storage throughput",
        "--target-saturation 0.",
        "workload.saturation_targets.read_p95_ms: ",
        "--cpu-mem-gb",
    ];
    for part in parts {
        assert!(why.contains(part), "{part}: {why}");
        assert!(text(&ended).contains("what would help"), "{}", text(&ended));
    }
    // What it says would do does.
    let saturation = why.split("--target-saturation ").nth(1).unwrap();
    let saturation = saturation.split(';').next().unwrap();
    let again = format!("{line} --target-saturation {saturation}");
    assert!(users(&simulate(&scratch, &device, &again).1) >= 1.0, "{again}");
}

/// "0 users", conclusive, was the answer for a drive that one user keeps 58 % busy: it was judged
/// by the queue that eight users had left. With target 1 it was 3, though requests of 3 pile up.
#[test]
fn users_who_do_not_wait_are_those_whose_requests_do_not_pile_up() {
    let scratch = Scratch::new("qos-open");
    let device = scratch.file("two.yaml");
    let direction = "{mb_per_s: 2000, iops: 1000000, latency_us: 100}";
    let description = format!("name: two\nsource: chosen\nread: {direction}\nwrite: {direction}\n");
    std::fs::write(&device, description).unwrap();
    let device = device.display().to_string();
    let line = "--model tiny-1b --cpu-mem-gb 0 --generation-mode none --arrival open \
                --decode-reads once --history-reads last --enable-autoscaling \
                --autoscaler-mode qos --seed 1";
    // Runs of 2,000 s keep the drive busy for 58 % of the time with 1 user, for 98 % with 2, and
    // have ever more open requests with 3.
    for (target, answer, part) in [(0.8, 1, "storage read latency"), (1.0, 2, "request backlog")] {
        let line = format!("{line} --target-saturation {target} --duration 1200");
        let (ended, found) = simulate(&scratch, &device, &line);
        assert_eq!(found["qos_users"], answer, "{}", text(&ended));
        assert_eq!((&found["conclusive"], &found["qos_confirmed"]), (&true.into(), &true.into()));
        let broke = &found["qos_broke"];
        assert_eq!((&broke["users"], &broke["part"]), (&(answer + 1).into(), &part.into()));
    }
    // A search that ends before it has tried the fewest users does not know that they are too many.
    let line = format!("{line} --num-users 8 --duration 12");
    let (ended, found) = simulate(&scratch, &device, &line);
    assert!(found["qos_users"].is_null() && found["conclusive"] == false, "{found}");
    assert!(!text(&ended).contains("0 users"), "{}", text(&ended));
}

/// "1 user", conclusive, was the answer for a drive that 1 user kept 3 % busy: requests that
/// began to generate tokens were a backlog, and ended the climb before a step showed the peak.
#[test]
fn a_search_of_users_who_do_not_wait_sees_the_peak_before_it_judges_by_it() {
    let scratch = Scratch::new("qos-open-peak");
    let line = "--model tiny-1b --cpu-mem-gb 8 --shards 2 --seed 101 --decode-reads once \
                --history-reads last --io-size 4MiB --arrival open --generation-mode realistic \
                --enable-autoscaling --autoscaler-mode qos --duration 3000";
    // Runs of 2,000 s keep the drive busy for 71 % of the time with 9 users, for all of it with 10.
    // Beside requests that 16 users have left, 8 seemed too many: they do not work them off, as
    // what waits pushes out of the CPU tier what is read next.
    let (ended, found) = simulate(&scratch, SLOW, line);
    assert_eq!(found["qos_users"], 9, "{}", text(&ended));
    assert_eq!((&found["conclusive"], &found["qos_confirmed"]), (&true.into(), &true.into()));
    let moved = |step: &Value| step["gib_per_s"].as_f64().unwrap();
    let most = found["curve"].as_array().unwrap().iter().map(moved).fold(0.0, f64::max);
    assert!((2.7..2.8).contains(&most), "{most} GiB/s of 3,000 MB/s");
}

#[test]
fn a_number_of_requests_ends_an_autoscaled_run() {
    let scratch = Scratch::new("qos-requests");
    let line = "--model tiny-1b --enable-autoscaling --autoscaler-mode capacity --max-requests 40 \
                --num-users 4 --cpu-mem-gb 0 --generation-mode none --seed 1 --duration 4000";
    let (ended, found) = simulate(&scratch, SLOW, line);
    let json = scratch.json();
    let requests = json["requests_completed"].as_u64().unwrap();
    let seconds = json["ringfall"]["window"]["seconds"].as_f64().unwrap();
    let of_a_second = requests as f64 / seconds;
    assert!(requests >= 40 && (requests as f64) < 40.0 + 4.0 * of_a_second + 4.0, "{requests}");
    assert_eq!(found["conclusive"], false);
    assert!(text(&ended).contains("--max-requests"), "{}", text(&ended));
    assert_eq!(json["ringfall"]["config"]["max_requests"], 40);
}

/// A peak of 1.29 GiB/s was reported, because one user, of whose throughput next to nothing was
/// known, counted as good as the 1.84 of 8 and more.
#[test]
fn a_peak_is_what_runs_with_many_users_move() {
    let scratch = Scratch::new("capacity-known");
    let direction = "{mb_per_s: 5000, iops: 1000000, latency_us: 4000, latency_p99_us: 4000}";
    let device = scratch.path.join("device.yaml");
    let description = format!(
        "name: even\nsource: a test\nread: {direction}\nwrite: {direction}\nflush_us: 0\n\
         parallel_ios: 8\nmixed_penalty: 0.0\nduplex: false\n"
    );
    std::fs::write(&device, description).unwrap();
    let device = device.to_str().unwrap();
    let line = "--model tiny-1b --cpu-mem-gb 0 --storage-capacity-gb 500 --arrival closed \
                --generation-mode fast --seed 24";
    simulate(&scratch, device, &format!("{line} --num-users 16 --duration 300"));
    let fifths = scratch.json()["ringfall"]["steadiness"]["fifths_gib_per_s"].clone();
    let fifths: Vec<f64> = serde_json::from_value(fifths).unwrap();
    let moved = fifths.iter().sum::<f64>() / fifths.len() as f64;
    let search = "--enable-autoscaling --autoscaler-mode capacity --duration 3600";
    let (ended, found) = simulate(&scratch, device, &format!("{line} {search}"));
    let peak = found["peak_gib_per_s"].as_f64().unwrap();
    assert!((peak / moved - 1.0).abs() < 0.05, "{peak} of {moved}: {}", text(&ended));
    assert_eq!((&found["conclusive"], &found["peak_confirmed"]), (&true.into(), &true.into()));

    // Half a minute ends it before it knows, and every answer says so.
    let search = "--enable-autoscaling --autoscaler-mode capacity --duration 30";
    let (ended, found) = simulate(&scratch, device, &format!("{line} --num-users 8 {search}"));
    assert_eq!((&found["conclusive"], &found["peak_confirmed"]), (&false.into(), &false.into()));
    for part in ["not confirmed", "the run ended after", "--duration"] {
        assert!(text(&ended).contains(part), "{part}: {}", text(&ended));
    }
}

/// With a CPU tier, each second in which storage moved nothing counted what memory moved: drives of
/// 200 and of 14,000 MB/s both had a peak of 7.4 GiB/s, conclusive.
#[test]
fn what_memory_moves_is_no_peak_of_storage() {
    let scratch = Scratch::new("capacity-memory");
    let line = "--model tiny-1b --cpu-mem-gb 4 --storage-capacity-gb 100 --arrival closed \
                --generation-mode fast --seed 3 --decode-only --num-users 64 --duration 4000 \
                --enable-autoscaling --autoscaler-mode capacity";
    // Beside memory that holds a part, no step lies above what the drive reads.
    let (_, found) = simulate(&scratch, SLOW, line);
    let moved = |step: &Value| step["gib_per_s"].as_f64().unwrap();
    let most = found["curve"].as_array().unwrap().iter().map(moved).fold(0.0, f64::max);
    let device = std::fs::read_to_string(SLOW).unwrap();
    let read = device.split("mb_per_s:").nth(1).unwrap().trim_start();
    let read: f64 = read.split([',', '}', '\n']).next().unwrap().trim().parse().unwrap();
    assert!(most > 0.0 && most <= 1.01 * read * 1e6 / f64::from(1 << 30), "{most} of {read}");
    // Where there is no storage, memory is what is searched.
    let line = line.replace("--storage-capacity-gb 100", "--disable-storage");
    let (_, found) = simulate(&scratch, SLOW, &line);
    assert!(found["peak_gib_per_s"].as_f64().is_some_and(|peak| peak > 0.0), "{found}");
}
