use std::path::Path;

use ringfall_host::survey::Throttle;
use ringfall_host::{ChainLink, Scratch};

use super::*;
use crate::show;

fn served(users: u32) -> Served {
    Served { users, is_largest_tried: false }
}

/// A machine with a directory on such a device.
pub(super) fn machine(directory: &str, device: &str, kind: &str) -> Machine {
    let link = ChainLink {
        name: device.to_owned(),
        numbers: String::new(),
        kind: kind.to_owned(),
        above: None,
    };
    Machine {
        cache_dir: Some(directory.to_owned()),
        device_chain: vec![link],
        ..Machine::default()
    }
}

pub(super) fn report(speed: u32, space: u32) -> QuickReport {
    let point = |users: u32| QuickPoint {
        users,
        gib_per_s: f64::from(users) / 2.0,
        load_p50_s: Some(0.1 * f64::from(users)),
        load_mean_s: None,
        load_p95_s: Some(0.25 * f64::from(users)),
        loads: 100,
        kv_io_p95_s: Some(0.5 * f64::from(users)),
        drive_busy_share: Some(0.1),
        reuse_share: Some(1.0 - f64::from(users) / 20.0),
        earlier_turns: Some(100),
        is_without_pauses: false,
    };
    let curve: Vec<QuickPoint> = [1, 2, 4, 8].map(point).into();
    let report = QuickReport {
        ringfall_quick: QUICK_VERSION,
        version: "0".to_owned(),
        place: "/mnt/kv".to_owned(),
        drive: "nvme0n1".to_owned(),
        host: Some("node1".to_owned()),
        machine: Some(machine("/mnt/kv", "nvme0n1", "disk")),
        start_unix_s: 0.0,
        model: "llama3.1-8b".to_owned(),
        seed: 42,
        load_p95_s: 1.0,
        reuse_share: 0.7,
        space_gib: 6.0,
        turn_gib: 0.7,
        entry_gib_max: Some(2.4),
        time_s: Some(60),
        check_s: Some(120),
        check_predicted: Some(curve[2].clone()),
        check_repeated: Vec::new(),
        limits: QuickLimits {
            read_gib_per_s: 3.0,
            write_gib_per_s: 2.0,
            mixed_gib_per_s: Some(2.5),
        },
        doubt: None,
        limits_deviation: None,
        speed: Some(1.0),
        measured: curve[2].clone(),
        predicted: curve[2].clone(),
        kernel_share: Some(1.0),
        curve,
        earlier: Vec::new(),
        served_by_speed: served(speed),
        served_by_space: served(space),
        run: vec!["run".to_owned(), "/mnt/kv".to_owned()],
        notes: Vec::new(),
        verdict: String::new(),
        users: None,
    };
    report.judged()
}

fn page_of(report: &QuickReport) -> String {
    show::quick_page(report, None, Path::new("results/one.json"))
}

#[test]
fn a_run_that_moved_another_bandwidth_than_predicted_confirms_nothing() {
    let mut report = report(4, 4);
    assert_eq!(report.deciding().deviation(), None);
    report.measured.gib_per_s *= 0.8;
    assert!(report.deciding().deviation().is_some());
    report.measured.gib_per_s = 0.0;
    assert_eq!(report.deciding().deviation(), Some(-1.0));
    // No speed of the drive explains it.
    report.predicted.load_p95_s = Some(0.1);
    report.measured = QuickPoint { load_p95_s: Some(0.9), ..report.predicted.clone() };
    for ratio in ["9.0", "0.1"] {
        let told = format!("loads took {ratio} times as long as simulated");
        assert!(report.doubts()[0].contains(&told), "{:?}", report.doubts());
        assert!(show::beside_page(&report, &report).contains(&told));
        std::mem::swap(&mut report.measured, &mut report.predicted);
    }
    assert!(is_reuse_enough(0.6997, 0.7) && !is_reuse_enough(0.694, 0.7));
    assert!(is_load_quick(1.004, 1.0) && !is_load_quick(1.006, 1.0));
}

#[test]
fn an_answer_without_the_newer_keys_is_read() {
    let mut old = serde_json::to_value(report(4, 4)).unwrap();
    let newer = ["entry_gib_max", "time_s", "limits_deviation", "kernel_share", "host", "machine"];
    for key in newer.into_iter().chain(["check_s", "check_predicted", "earlier"]) {
        assert!(old.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    let old: QuickReport = serde_json::from_value(old).unwrap();
    assert!(old.judge().starts_with("good for 4 users"), "{}", old.judge());
    // One whose figures were worsened after its run keeps what it was told.
    let told = "good for 2 users, load P95 945 ms: 4 missed the rule on the drive";
    let worsened =
        QuickReport { speed: None, users: Some(2), verdict: told.to_owned(), ..report(4, 4) };
    let worsened = worsened.judged();
    assert_eq!((worsened.users, worsened.verdict.as_str()), (Some(2), told));
    assert_eq!(worsened.checked_users(), 2);
}

/// The verdict said 4 users at most, and the table, the comparison, the JSON and the check 5.
#[test]
fn one_number_of_users_is_named_everywhere() {
    let mut missed = report(2, 4);
    missed.run.push(format!("{USERS_FLAG}4"));
    missed.curve[2].load_p95_s = Some(1.89);
    missed.speed = Some(0.53);
    let missed = missed.judged();
    assert!(
        missed.verdict.starts_with("good for 2 users, load P95 500 ms: 4 "),
        "{}",
        missed.verdict
    );
    assert_eq!((missed.users, missed.served().users), (Some(2), 2));
    let page = show::quick_page(&missed, None, Path::new("one.json"));
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "/mnt/kv --num-users=2",
        "runs 4 users (100 loads, missed the rule): the drive was 0.53 times as quick as its",
        "500 ms 10.0 % 90.0 % * <- the answer",
        "1.89 s 10.0 % 80.0 % missed on the drive",
        "All rows are simulated with space for every turn, of a drive 0.53 times as quick as",
        "then ringfall compare one.json one-check.json",
    ] {
        assert!(words.contains(part), "{part}: {page}");
    }
    let row = |page: &str, name: &str| {
        let row = page.lines().find(|line| line.trim_start().starts_with(name));
        row.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let page = show::beside_page(&missed, &report(4, 4));
    assert!(row(&page, "users served").starts_with("users served 2 4"), "{page}");
    let mut unknown = report(4, 4);
    unknown.kernel_share = Some(2.0);
    let page = show::beside_page(&unknown, &missed);
    assert!(row(&page, "users served").starts_with("users served – 2"), "{page}");
    assert_eq!(unknown.judged().users, None);
}

/// Five minutes on a slow drive brought 15 loads, and no verdict.
#[test]
fn a_check_takes_as_long_as_it_needs_to_be_judged() {
    let mut report = report(4, 4);
    assert!(
        report.check_line("c.json").contains("--duration=5m "),
        "{}",
        report.check_line("c.json")
    );
    report.check_s = Some(500);
    assert!(
        report.check_line("c.json").contains("--duration=9m "),
        "{}",
        report.check_line("c.json")
    );
    let mut other = report.clone();
    other.check_s = None;
    let page = show::beside_page(&report, &other);
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("--duration=9m").count(), 2, "{page}");
}

/// "--duration=5m" in the slower drive's own answer, and 18m for the same users in the comparison.
#[test]
fn both_checks_of_a_comparison_take_as_long_as_that_of_the_fewer_users() {
    let (mut fast, mut slow) = (report(4, 4), report(1, 4));
    (fast.check_s, slow.check_s) = (Some(500), Some(310));
    assert!(slow.check_line("c.json").contains("--num-users=1 "), "{}", slow.check_line("c.json"));
    assert_eq!([fast.check_minutes(), slow.check_minutes()], [9, 6]);
    let page = show::beside_page(&fast, &slow);
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("--duration=6m").count(), 2, "{page}");
    assert!(
        words.contains("1 user in 6.0 GiB for 6 min, in which 25 loads and requests end. "),
        "{page}"
    );
    // The fewer users' own check was run a second time.
    let own =
        format!("The one of {} checks its own answer, too. Then: ringfall compare", slow.place);
    assert!(words.contains(&own), "{page}");
}

/// A check without the command that quick ran under met no limit.
#[test]
fn a_check_of_a_limited_drive_is_to_be_run_under_the_same_limit() {
    let mut limited = report(4, 4);
    let told = "Check a limited drive in the cgroup that `ringfall quick` was in.";
    let words = |page: String| page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(!words(page_of(&limited)).contains(told));
    limited.machine.as_mut().unwrap().throttles.push(Throttle {
        numbers: "259:0".to_owned(),
        file: "/sys/fs/cgroup/a/io.max".to_owned(),
        limit: "rbps=300000000".to_owned(),
        is_changed: false,
    });
    assert!(words(page_of(&limited)).contains(told), "{}", page_of(&limited));
    let page = words(show::beside_page(&report(4, 4), &limited));
    assert_eq!(page.matches(told).count(), 1, "{page}");
}

#[test]
fn limits_that_only_a_cache_explains_are_doubted() {
    let doubts = |write_gib_per_s, mixed_gib_per_s| {
        let mut report = report(4, 4);
        report.limits = QuickLimits { write_gib_per_s, mixed_gib_per_s, ..report.limits };
        report.doubts()
    };
    assert!(doubts(3.4, Some(2.5)).is_empty() && doubts(5.0, Some(5.0)).is_empty());
    let told = "writes were faster than reads and than both at once: a cache may have taken them";
    assert!(doubts(3.5, Some(2.5))[0].starts_with(told));
}

/// The check was silent for all of its minutes.
#[test]
fn a_check_of_minutes_shows_its_progress() {
    let line = report(4, 4).check_line("c.json");
    assert!(line.ends_with("--duration=5m --output=c.json"), "{line}");
}

#[test]
fn a_space_is_printed_in_whole_units() {
    assert_eq!(space_flag(6.0), "--storage-capacity-gb=6GiB");
    assert_eq!(space_flag(3.815_429_687_5), "--storage-capacity-gb=3907MiB");
}

#[test]
fn two_drives_stand_side_by_side_and_what_differs_between_the_runs_is_told() {
    let (first, mut other) = (report(4, 4), report(2, 4));
    other.place = "/mnt/slow".to_owned();
    other.machine = Some(machine("/mnt/slow", "sda", "disk"));
    other.run[1] = other.place.clone();
    other.curve.iter_mut().for_each(|point| {
        point.load_p95_s = point.load_p95_s.map(|load| load * 2.0);
    });
    let page = show::beside_page(&first, &other);
    assert!(page.contains("/mnt/kv") && page.contains("/mnt/slow"), "{page}");
    let users = page.lines().find(|line| line.contains("users served")).unwrap();
    assert!(users.contains("0.50"), "{users}");
    assert!(!page.contains("differ"), "{page}");
    assert!(page.contains("load P95 of 2 users"), "{page}");
    assert!(page.contains("/mnt/kv serves 4 users within the rule, and /mnt/slow 2;"), "{page}");
    for place in ["/mnt/kv", "/mnt/slow"] {
        let check = format!("ringfall run {place} --num-users=2 --storage-capacity-gb=6GiB");
        assert!(page.contains(&check), "{page}");
    }
    let small = QuickReport { space_gib: 3.8, ..report(2, 8) };
    let page = show::beside_page(&report(4, 8), &small);

    assert!(page.contains("Space differs (6.0 and 3.8 GiB): it bears on turns"), "{page}");
    other.seed = 7;
    let page = show::beside_page(&first, &other);
    assert!(page.trim_start().starts_with("The two differ in their seeds"), "{page}");
    let ratio_of =
        |name: &str| page.lines().find(|line| line.contains(name)).unwrap().contains('×');
    assert!(ratio_of("reads") && !ratio_of("users served"), "{page}");
    let page = show::beside_page(&first, &first);
    assert!(page.contains("Both answers are for one drive (nvme0n1 of node1)"), "{page}");
    // Of the rule alone.
    other = QuickReport { seed: 42, load_p95_s: 3.0, ..other };
    let page = show::beside_page(&first, &other);
    let told = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("give the second the --slo of the first"), "{page}");
}

/// "Both answers are for .", measured on two drives from two directories.
#[test]
fn answers_for_one_path_are_for_one_drive_only_if_host_and_devices_are_alike() {
    type Change = fn(&mut QuickReport);
    let cases: [(Change, &str); 4] = [
        (|other| other.machine = Some(machine("/b", "sda", "disk")), "/b and /mnt/kv load"),
        (
            |other| other.machine = Some(machine("/mnt/kv", "sda", "disk")),
            "/mnt/kv (2) and /mnt/kv (1) load",
        ),
        (
            |other| other.host = Some("node2".to_owned()),
            "node2:/mnt/kv and node1:/mnt/kv load about",
        ),
        // An older answer does not say.
        (|other| (other.host, other.machine) = (None, None), "/mnt/kv (2) and /mnt/kv (1)"),
    ];
    for (change, names) in cases {
        let (first, mut other) = (report(4, 4), report(4, 4));
        change(&mut other);
        let page = show::beside_page(&other.told_from(&first, 2), &first.told_from(&other, 1));
        let told = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(names) && !told.contains("Both answers"), "{names}: {page}");
    }
    let (first, mut other) = (report(4, 4), report(4, 4));
    other.place = "kv".to_owned();
    assert!(show::beside_page(&first, &other).contains("Both answers are for one drive"));
}

/// "They differ by chance or time", of a drive and the same one limited to a part.
#[test]
fn a_drive_under_a_limit_of_a_cgroup_is_compared_as_another_system() {
    let limited = |bytes: u64, cgroup: &str| {
        let mut limited = report(2, 4);
        let throttle = Throttle {
            numbers: "259:0".to_owned(),
            file: format!("/sys/fs/cgroup/{cgroup}/io.max"),
            limit: format!("rbps={bytes}"),
            is_changed: false,
        };
        limited.machine.as_mut().unwrap().throttles.push(throttle);
        limited.curve.iter_mut().for_each(|point| {
            point.load_p95_s = point.load_p95_s.map(|load| load * 2.0);
        });
        limited
    };
    let beside = |first: &QuickReport, other: &QuickReport| {
        let page = show::beside_page(&first.told_from(other, 1), &other.told_from(first, 2));
        page.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let free = report(4, 4);
    let page = beside(&free, &limited(300_000_000, "a"));
    for part in [
        "Both answers are for one drive (nvme0n1 of node1) under different limits (/mnt/kv \
         (2): a cgroup limits reads of",
        "to 286.1 MiB/s): the ratios are those of the limits.",
        "/mnt/kv (2) is about 2.0× slower: load P95 of",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("by chance or time"), "{page}");
    let page = beside(&limited(100_000_000, "a"), &limited(300_000_000, "a"));
    assert!(page.contains("to 95.4 MiB/s; /mnt/kv (2): a cgroup limits"), "{page}");
    let page = beside(&limited(300_000_000, "a"), &limited(300_000_000, "b"));
    assert!(page.contains("by chance or time"), "{page}");
}

/// "/mnt/slow is about 3.0× slower", under two lines that said "no verdict".
#[test]
fn nothing_is_concluded_from_an_answer_that_says_nothing_of_its_drive() {
    let with = |change: fn(&mut QuickReport)| {
        let (first, mut other) = (report(4, 4), report(4, 4));
        other.place = "/mnt/slow".to_owned();
        other.machine = Some(machine("/mnt/slow", "sda", "disk"));
        other.curve.iter_mut().for_each(|point| point.load_p95_s = Some(0.9));
        change(&mut other);
        [show::beside_page(&first, &other), show::beside_page(&other, &first)]
    };
    for page in with(|_| ()) {
        assert!(page.contains("slower:") && !page.contains("No conclusion"), "{page}");
    }
    type Change = fn(&mut QuickReport);
    let varied = |other: &mut QuickReport| other.limits_deviation = Some(1.0);
    for page in with(varied) {
        assert!(page.contains("the load P95s of 4 users are 1.1× apart"), "{page}");
        assert!(!page.contains("slower:"), "{page}");
    }
    let cases: [(Change, &str); 4] = [
        (
            |other| other.machine = Some(machine("/mnt/slow", "tmpfs", "memory")),
            "the data was in memory (tmpfs): no drive was measured",
        ),
        (|other| other.kernel_share = Some(2.0), "others used the drive"),
        (
            |other| {
                other.served_by_speed = served(8);
                other.curve[3].load_p95_s = Some(2.0);
            },
            "contradicts itself: 8 users are said to be served, and its curve has a load P95",
        ),
        (|other| other.served_by_space = served(8), "60 % of earlier turns found for them"),
    ];
    for (change, why) in cases {
        for page in with(change) {
            let told = page.split_whitespace().collect::<Vec<_>>().join(" ");
            let begin = "No conclusion can be drawn, since /mnt/slow: ";
            assert!(told.starts_with(begin) && told.contains(why), "{why}: {page}");
            assert!(!told.contains("slower:") && !told.contains("equally"), "{page}");
            let users = page.lines().find(|line| line.contains("users served")).unwrap();
            assert!(!users.contains('×'), "{page}");
        }
    }
}

#[test]
fn a_drive_that_serves_nobody_has_no_ratio_of_users() {
    let (first, none) = (report(4, 4), report(0, 0));
    let page = show::beside_page(&first, &none);
    let users = page.lines().find(|line| line.contains("users served")).unwrap();
    assert!(!users.contains('×'), "{users}");
    assert!(page.contains("load P95 of 1 user "), "{page}");
}

#[test]
fn an_answer_fits_a_screen() {
    let mut report = report(9, 9);
    let point = report.curve[3].clone();
    report.curve.extend((9..30).map(|users| QuickPoint { users, ..point.clone() }));
    report.run = "run /mnt/nvme/kv --model=llama3.1-8b --num-users=9 --seed=42 \
                  --storage-capacity-gb=6GiB --cpu-mem-gb=0 --arrival=closed \
                  --generation-mode=realistic --decode-reads=once --history-reads=last \
                  --preallocate=write --queue-depth=64"
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    report.speed = Some(0.71);
    let mut report = report.judged();
    let page = page_of(&report);
    assert!(page.lines().count() <= 30, "{page}");
    assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    for part in ["<-", "loads load P50", " found"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let is_told = |report: &QuickReport| {
        let scratch = Scratch::new("quick-page");
        let path = scratch.join("q.html");
        show::write_quick_html(report, None, Path::new("one.json"), &path).unwrap();
        std::fs::read_to_string(path).unwrap().contains("Context sizes differ")
    };
    assert!(!is_told(&report) && !page.contains("without pauses"), "{page}");
    report.measured.is_without_pauses = true;
    (report.measured.load_p95_s, report.measured.earlier_turns) = (Some(1.35), Some(24));
    let words = page_of(&report).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("4 users (100 loads without pauses, took 1.35 times as long)"),
        "{words}"
    );
    report.curve[0].load_p95_s = Some(0.9);
    assert!(is_told(&report));
}
