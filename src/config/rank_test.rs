use ringfall_core::units::GIB;

use super::*;
use crate::tests::{facts, plan_on};

fn launcher(rank: u32, size: u32, local: Option<(u32, u32)>) -> Launcher {
    Launcher {
        rank,
        size: Some(size),
        local_rank: local.map(|local| local.0),
        local_size: local.map(|local| local.1),
        launch: None,
    }
}

fn rank_of(launcher: Launcher, allowed_cpus: Vec<usize>, unbound_cpus: usize) -> Rank {
    Rank::of(launcher, "node7".into(), &allowed_cpus, Some(unbound_cpus))
}

#[test]
fn cores_are_divided_only_where_nobody_has_done_so() {
    let slice = |cpus: &[usize]| Cores::Slice(cpus.to_vec());
    let eight: Vec<usize> = (0..8).collect();
    let cases = [
        // (rank, size, local rank and size), cores that it may use, cores without a binding.
        (launcher(5, 8, Some((1, 4))), eight.clone(), 8, slice(&[2, 3])),
        (launcher(0, 3, Some((0, 3))), eight.clone(), 8, slice(&[0, 1])),
        (launcher(2, 3, Some((2, 3))), eight.clone(), 8, slice(&[5, 6, 7])),
        // Nothing says how many are here: all may be.
        (launcher(3, 4, None), eight.clone(), 8, slice(&[6, 7])),
        // `--bind-to core`, and one rank on each host.
        (launcher(5, 8, Some((1, 4))), vec![2, 3], 8, Cores::All),
        (launcher(5, 8, Some((0, 1))), eight.clone(), 8, Cores::All),
        // A container of two cores for four ranks.
        (launcher(1, 4, Some((1, 4))), vec![4, 5], 2, Cores::Crowded),
    ];
    for (launcher, allowed, unbound, expected) in cases {
        let told = format!("{launcher:?} on {allowed:?} of {unbound}");
        assert_eq!(rank_of(launcher, allowed, unbound).cores, expected, "{told}");
    }
    // No two of them overlap, and none is left over.
    for here in 1..=8 {
        let all = (0..here).flat_map(|local| {
            let rank = rank_of(launcher(local, here, Some((local, here))), eight.clone(), 8);
            rank.own_cpus().map_or(eight.clone(), <[usize]>::to_vec)
        });
        assert_eq!(all.collect::<Vec<_>>(), eight, "{here}");
    }
}

#[test]
fn memory_is_divided_by_the_ranks_of_the_machine() {
    let all = Facts {
        cores: 8,
        room: ringfall_host::Room {
            cores: 8,
            memory: Some(MemoryRoom {
                bytes: 8 * GIB,
                shared_bytes: 6 * GIB,
                source: "MemAvailable".into(),
            }),
            ..facts().room
        },
        ..facts()
    };
    let rank = rank_of(launcher(5, 8, Some((1, 4))), (0..8).collect(), 8);
    let share = rank.share_of(&all);
    assert_eq!((share.cores, share.room.cores), (2, 2));
    assert_eq!(share.memory_available_bytes, all.memory_available_bytes.map(|bytes| bytes / 4));
    let memory = share.room.memory.unwrap();
    assert_eq!((memory.bytes, &*memory.source), (2 * GIB, "MemAvailable, shared by 4 ranks"));
    assert_eq!(memory.shared_bytes, 6 * GIB / 4);
    let alone = rank_of(launcher(5, 8, Some((0, 1))), (0..8).collect(), 8);
    assert_eq!(alone.share_of(&all), all);
}

/// Where rank 3 of 4 puts things, and its seed.
fn placed(line: &str) -> (Option<String>, String, u64, Option<String>) {
    let rank = rank_of(launcher(3, 4, Some((3, 4))), (0..8).collect(), 8);
    let plan = plan_on(line, &Facts { rank: Some(rank), cores: 8, ..facts() });
    let text = |path: &Path| path.display().to_string();
    let common = plan.rank.as_ref().and_then(|rank| rank.common_output.as_deref());
    (
        plan.cache_dirs.first().map(|path| text(path)),
        text(&plan.output),
        plan.seed,
        common.map(text),
    )
}

#[test]
fn each_rank_has_directories_and_a_seed_of_its_own_once() {
    let some = |text: &str| Some(text.to_owned());
    let cases = [
        (
            "--cache-dir /d --output out/a.json --seed 42",
            (some("/d/rank_3"), "out/rank_3/a.json".to_owned(), 45, some("out")),
        ),
        // As a wrapper passes them that has the rank in its paths and in its seed.
        (
            "--cache-dir /d/rank_3 --output /r/rank_3/a.json --seed 45",
            (some("/d/rank_3"), "/r/rank_3/a.json".to_owned(), 45, some("/r")),
        ),
        // Another rank's name is only a name.
        (
            "--cache-dir /d/rank_30 --output a.json --seed 1",
            (some("/d/rank_30/rank_3"), "rank_3/a.json".to_owned(), 4, some("")),
        ),
        // A wrapper that has the rank in its paths alone: ranks with one seed would write the same
        // content.
        (
            "--cache-dir /d/rank_3 --output /r/rank_3/a.json",
            (some("/d/rank_3"), "/r/rank_3/a.json".to_owned(), 45, some("/r")),
        ),
        ("--output /dev/null", (None, "/dev/null".to_owned(), 45, None)),
        // A drawn seed is its own already.
        ("--output /dev/null --seed random", (None, "/dev/null".to_owned(), 77, None)),
        (
            "--ranks off --cache-dir /d --output a.json --seed 42",
            (some("/d"), "a.json".to_owned(), 42, None),
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(placed(line), expected, "{line}");
    }
}

#[test]
fn a_rank_s_settings_follow_from_its_share() {
    let with = |local_size, allowed: usize| {
        let launcher = launcher(1, local_size, Some((1, local_size)));
        let rank = rank_of(launcher, (0..allowed).collect(), allowed);
        let cores = allowed as u32;
        let facts = Facts { rank: Some(rank), cores, ..facts() };
        let metrics = "--metrics-file m.prom --metrics-listen 9464";
        plan_on(&format!("--model tiny-1b --users 2 --html-output a/b.html {metrics}"), &facts)
    };
    let plan = with(4, 8);
    assert_eq!((plan.shards, plan.pin), (2, true));
    assert_eq!(plan.cpu_memory_bytes, GIB);
    assert_eq!(plan.html_output.as_deref(), Some(Path::new("a/rank_1/b.html")));
    assert_eq!(plan.metrics_file.as_deref(), Some(Path::new("rank_1/m.prom")));
    assert_eq!(plan.metrics_listen.map(|Listen(address)| address.port()), Some(9465));
    let crowded = with(4, 2);
    assert_eq!((crowded.shards, crowded.pin), (1, false));
    assert_eq!(crowded.rank.as_ref().unwrap().cores, Cores::Crowded);
}

#[test]
fn ranks_of_one_machine_can_t_share_a_raw_device() {
    let rank = rank_of(launcher(1, 2, Some((1, 2))), vec![0, 1], 2);
    let facts = Facts { rank: Some(rank), ..facts() };
    let complaint = crate::tests::complaint_on("--cache-dir /dev/nvme0n1", &facts);
    assert!(complaint.contains("one device for 2 ranks"), "{complaint}");
}

#[test]
fn a_rank_beyond_the_number_of_ranks_is_told() {
    let contradiction =
        |rank, size| rank_of(launcher(rank, size, None), vec![0], 1).contradiction();
    assert!(contradiction(1, 2).is_none());
    for (rank, size) in [(2, 2), (0, 0), (5, 1)] {
        let told = contradiction(rank, size).unwrap();
        assert!(told.contains(&format!("rank {rank} of {size}")), "{told}");
        assert!(told.contains("--ranks off"), "{told}");
    }
}
