//! A machine of 20 GiB and 2 cores, and what is too much for it.

use ringfall_core::units::GIB;
use ringfall_host::Room;

use super::*;
use crate::tests::typed;
use crate::{ConfigFile, InputError, resolve};

fn facts() -> Facts {
    let memory = room(20 * GIB, 17 * GIB);
    Facts {
        cores: 2,
        memory_available_bytes: Some(20 * GIB),
        room: Room { memory: Some(memory), cores: 2, open_files_max: Some(20_000) },
        ..crate::tests::facts()
    }
}

fn room(bytes: u64, shared_bytes: u64) -> MemoryRoom {
    MemoryRoom { bytes, shared_bytes, source: "MemAvailable".to_owned() }
}

fn resolved(line: &str, yaml: &str, facts: &Facts) -> Result<Plan, InputError> {
    let typed = typed(&format!("--model tiny-1b {line}"));
    let file = ConfigFile::parse("my.yaml".to_owned(), yaml.to_owned()).unwrap();
    resolve(&typed, Some(&file), facts)
}

fn refused(line: &str, yaml: &str, facts: &Facts, words: &[&str]) {
    let error = resolved(line, yaml, facts).map(|_| ()).unwrap_err().to_string();
    assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn what_is_too_much_is_named_with_the_bound_and_the_remedy() {
    let flat = "{num_users: 5, workload: {";
    for (line, yaml, words) in [
        ("--strict --cpu-mem-gb 1000", "{}", &["--cpu-mem-gb 1000", "1000.0 GiB", "20.0 GiB"][..]),
        ("--strict --cpu-mem-gb 1000", "{}", &["give 18.8 or less", "MemAvailable"]),
        ("--strict --cpu-mem-gb 19.5", "{}", &["--cpu-mem-gb 19.5"]),
        ("--cpu-mem-gb 1000 --io-buffer-mb 100000", "{}", &["--io-buffer-mb", "97.7 GiB"]),
        ("--cpu-mem-gb 0 --io-buffer-mb 100000", "{}", &["--io-buffer-mb", "97.7 GiB"]),
        // They fit without the copies that an engine's threads, or an object store, have of them.
        (
            "--cpu-mem-gb 0 --io-buffer-mb 15000 --layout vllm",
            "{}",
            &["--io-buffer-mb needs 29.3 GiB of memory for I/O buffers and their copies"],
        ),
        (
            "--cpu-mem-gb 0 --io-buffer-mb 9000 --layout llmd --engine-limits ours \
             --layout-option chunk_tokens=2048,direct=yes",
            "{}",
            &["--io-buffer-mb needs 20.6 GiB"],
        ),
        ("--cpu-mem-gb 0 --shards 1024", "{}", &["--shards 1024", "2 cores", "512"]),
        (
            "--cpu-mem-gb 0",
            &format!("{flat}\n system_prompts: 4294967295\n}}}}"),
            &["my.yaml, line 2: workload.system_prompts 4294967295", "32.0 GiB", "give fewer"],
        ),
        (
            "--cpu-mem-gb 0 --decode-only",
            &format!("{flat}\n decode_only_entries_per_user: 4294967295\n}}}}"),
            &["workload.decode_only_entries_per_user 4294967295", "TiB", "21474836475 entries"],
        ),
        (
            "--cpu-mem-gb 0 --enable-rag --rag-num-docs 1000000",
            &format!(
                "{flat}rag: {{document_tokens: [100000, 100000], chunk_tokens: 1, top_k: 1}}}}}}"
            ),
            &["--rag-num-docs 1000000", "100000000000 entries", "chunk_tokens"],
        ),
        (
            "--cpu-mem-gb 0 --enable-rag",
            &format!("{flat}rag: {{document_tokens: [5, 100000000], chunk_tokens: 1}}}}}}"),
            &["100000000 chunks", "raise rag.chunk_tokens"],
        ),
    ] {
        refused(line, yaml, &facts(), words);
    }
}

#[test]
fn a_cpu_tier_beyond_the_memory_gets_what_the_rest_of_the_run_leaves() {
    let plan = resolved("--cpu-mem-gb 32", "{}", &facts()).unwrap();
    let given = plan.cpu_memory_bytes;
    // 17 of 20 GiB may be taken; buffers and shards take some of it.
    assert!(given > 16 * GIB && given < 17 * GIB && given.is_multiple_of(64 << 20), "{given}");
    let (wanted, why) = plan.cpu_memory_wanted.clone().unwrap();
    assert_eq!(wanted, 32 * GIB);
    assert!(why.contains("20.0 GiB (MemAvailable)"), "{why}");
    let told = advice(&plan).join(" ");
    let words = ["--cpu-mem-gb 32", "20.0 GiB (MemAvailable)", "16.", "--strict makes this an"];
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
    let again = format!("--cpu-mem-gb {}", given as f64 / GIB as f64);
    let again = resolved(&again, "{}", &facts()).unwrap();
    assert_eq!((again.cpu_memory_bytes, again.cpu_memory_wanted), (given, None), "it fits");
    let told = advice(&resolved("--cpu-mem-gb 18", "{}", &facts()).unwrap()).join(" ");
    let words = ["--cpu-mem-gb 18 is more", "3.0 GiB are left to others", "--strict takes all"];
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
    let forced = resolved("--strict --cpu-mem-gb 18", "{}", &facts()).unwrap();
    assert_eq!((forced.cpu_memory_bytes, forced.cpu_memory_wanted), (18 * GIB, None));
    let fits = resolved("--strict --cpu-mem-gb 16", "{}", &facts()).unwrap();
    assert_eq!((fits.cpu_memory_bytes, advice(&fits)), (16 * GIB, Vec::new()));
}

#[test]
fn open_files_bound_shards_and_a_simulated_run_has_neither_threads_nor_tiers() {
    let mut few = facts();
    few.room.open_files_max = Some(256);
    refused("--cpu-mem-gb 0 --shards 64", "{}", &few, &["--shards 64", "256", "ulimit -n 576"]);
    let mut simulated = facts().of_no_machine();
    let plan = resolved("--cpu-mem-gb 1000 --shards 512", "{}", &simulated).unwrap();
    assert_eq!((plan.shards, plan.cpu_memory_bytes), (512, 1000 * GIB));
    simulated.room.memory = Some(room(8 * GIB, 8 * GIB));
    let prompts = "workload:\n  system_prompts: 4294967295\n";
    refused("--cpu-mem-gb 0", prompts, &simulated, &["line 2: workload.system_prompts"]);
    let mut small = facts();
    small.room.memory = Some(room(16 * GIB, 16 * GIB));
    let threads = "--cpu-mem-gb 0 --precondition --precondition-threads 1024";
    refused(threads, "{}", &small, &["--precondition-threads 1024 needs 16.0 GiB"]);
}

#[test]
fn the_automatic_sizes_of_a_small_machine_fit_it() {
    for gib in [1, 2, 4, 64] {
        let mut facts = facts();
        facts.memory_available_bytes = Some(gib * GIB);
        facts.room.memory = Some(room(gib * GIB, (gib * GIB).saturating_sub(2 * GIB)));
        let plan = resolved("--users 10", "{}", &facts).unwrap();
        assert!(plan.cpu_memory_bytes <= gib * GIB / 2, "{gib} GiB");
        let told = advice(&plan);
        assert!(told.iter().all(|line| !line.contains("CPU tier")), "nobody asked: {told:?}");
        assert_eq!(plan.cpu_memory_wanted, None);
    }
}

#[test]
fn preparation_that_serves_no_purpose_is_refused_and_one_beyond_the_tiers_is_told() {
    let small = "--cpu-mem-gb 0 --storage-capacity-gb 0.25 --enable-rag --rag-num-docs";
    let words = ["--rag-num-docs 1000000", "256.0 MiB", "max_documents", "evicted"];
    refused(&format!("{small} 1000000"), "{}", &facts(), &words);
    let told = |line: &str| advice(&resolved(line, "{}", &facts()).unwrap());
    let evicted = |sentences: &[String]| sentences.iter().any(|line| line.contains("evicted"));
    assert!(!evicted(&told(&format!("{small} 1"))));
    let held = resolved(&format!("{small} 1"), "{}", &facts()).unwrap();
    let document = held.workload_config().population_estimate().bytes;
    let twice = (GIB / 2 / document).max(2);
    let sentence = told(&format!("{small} {twice}")).join(" ");
    assert!(sentence.contains("evicted") && sentence.contains("256.0 MiB"), "{sentence}");
}

#[test]
fn a_ramp_up_that_takes_all_requests_is_refused() {
    let open = "--cpu-mem-gb 0 --users 10 --warmup 86400 --max-requests 1";
    refused(open, "{}", &facts(), &["--max-requests 1", "--warmup 86400", "before anything"]);
    let closed = format!("{open} --arrival closed");
    let told = advice(&resolved(&closed, "{}", &facts()).unwrap()).join(" ");
    assert!(told.contains("86400 s are not measured"), "{told}");
    let line = "--cpu-mem-gb 0 --users 10 --warmup 1 --max-requests 100000";
    assert!(resolved(line, "{}", &facts()).is_ok());
}

#[test]
fn a_tier_too_small_for_any_entry_is_refused_and_one_too_small_for_some_is_told() {
    let tiny = "--users 5 --cpu-mem-gb 0 --storage-capacity-gb";
    let words = ["--storage-capacity-gb of 1.0 MiB", "smallest entry of tiny-1b", "give at least"];
    refused(&format!("{tiny} 0.001"), "{}", &facts(), &words);
    let told = |gib: &str| advice(&resolved(&format!("{tiny} {gib}"), "{}", &facts()).unwrap());
    assert!(told("0.1").iter().any(|line| line.contains("requests whose entry is larger")));
    assert_eq!(told("40"), Vec::<String>::new());
}

/// Too little space for the users was told by no word, and its waits were called "permits/other".
#[test]
fn tiers_that_hold_less_than_an_entry_for_each_user_are_told() {
    let line = "--cpu-mem-gb 0 --storage-capacity-gb 0.6";
    let told = |more: &str| {
        let all = advice(&resolved(&format!("{line} {more}"), "{}", &facts()).unwrap());
        all.into_iter().find(|sentence| sentence.contains("for space"))
    };
    let text = told("--users 50").unwrap();
    for part in ["50 users with one entry", "hold 614.4 MiB", "give fewer users"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(told("--users 4"), None);
    assert_eq!(told("--users 50 --enable-autoscaling"), None);
    let line = "--cpu-mem-gb 0 --users 50 --storage-capacity-gb";
    for gib in ["7", "0"] {
        let all = advice(&resolved(&format!("{line} {gib}"), "{}", &facts()).unwrap());
        assert!(!all.iter().any(|sentence| sentence.contains("for space")), "{all:?}");
    }
}
