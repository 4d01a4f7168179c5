//! Names that another user could have taken first, in a directory that others may write to: by a
//! link to a file elsewhere, a pipe, or a file of their own.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Signal, geteuid};

use crate::ranks::{launch, rank_command};
use crate::support::{
    Scratch, assert_fails, ended_well, finish, output, skipped, spawn, text, wait_until,
};

/// Makes something under a name, and a word of what is said of it.
type Case<'a> = (&'a dyn Fn(&Path), &'a str);

const PRECIOUS: &str = "precious";
/// Another user: nobody.
const OTHER: u32 = 65_534;

/// A file of somebody's, which nothing may change.
fn victim(scratch: &Scratch) -> std::path::PathBuf {
    let path = scratch.file("victim");
    std::fs::write(&path, PRECIOUS).unwrap();
    path
}

fn assert_untouched(victim: &Path) {
    assert_eq!(std::fs::read_to_string(victim).unwrap(), PRECIOUS);
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

fn checkpoint(scratch: &Scratch, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["checkpoint", "write", "ck"]).args(more).current_dir(&scratch.path);
    command
}

const SMALL: [&str; 2] = ["--size-gib", "0.0078125"];
const DRAFT: &str = "ck/rank-00000-of-00001.ckpt.part";

#[test]
fn a_link_as_a_draft_of_a_checkpoint_leads_to_no_file_elsewhere() {
    let scratch = Scratch::new("draft-link");
    std::fs::create_dir(scratch.file("ck")).unwrap();
    let victim = victim(&scratch);
    for name in ["ck/checkpoint.json.part", "ck/checkpoint-unfinished.json.part"] {
        symlink(&victim, scratch.file(name)).unwrap();
    }
    ended_well(output(checkpoint(&scratch, &SMALL)));
    assert_untouched(&victim);

    std::fs::remove_dir_all(scratch.file("ck")).unwrap();
    std::fs::create_dir(scratch.file("ck")).unwrap();
    symlink("../elsewhere", scratch.file(DRAFT)).unwrap();
    let refused = output(checkpoint(&scratch, &SMALL));
    assert_fails(&refused, 2, &["belongs to no checkpoint that is known there", "move it away"]);
    assert!(!scratch.file("elsewhere").exists());
}

/// A checkpoint that is gone on with had the draft that somebody put there written over.
#[test]
fn a_draft_that_has_become_a_link_is_not_gone_on_with() {
    let scratch = Scratch::new("draft-swapped");
    let large = ["--size-gib", "2"];
    let mut killed = spawn(checkpoint(&scratch, &large));
    wait_until("the draft is there", || scratch.file(DRAFT).exists());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let victim = victim(&scratch);
    let link = |path: &Path| symlink(&victim, path).unwrap();
    let hard_link = |path: &Path| std::fs::hard_link(&victim, path).unwrap();
    for (make, word) in [
        (&link as &dyn Fn(&Path), "it is a symbolic link"),
        (&hard_link, "it has 2 names (hard links)"),
        (&pipe, "it is a named pipe"),
    ] {
        std::fs::remove_file(scratch.file(DRAFT)).unwrap();
        make(&scratch.file(DRAFT));
        let resumed = output(checkpoint(&scratch, &[&large[..], &["--resume"]].concat()));
        assert_fails(&resumed, 1, &[word, "move it away"]);
        assert_untouched(&victim);
    }
}

/// The lock file was made where a link leads to, filled if it was empty, and waited for without
/// end if it was a pipe.
#[test]
fn what_has_the_lock_files_name_and_is_none_is_refused() {
    let scratch = Scratch::new("lock-link");
    let empty = scratch.file("empty");
    std::fs::write(&empty, b"").unwrap();
    let lock = scratch.store().join("ringfall.lock");
    let dangling = |path: &Path| symlink(scratch.file("elsewhere"), path).unwrap();
    let link = |path: &Path| symlink(&empty, path).unwrap();
    let hard_link = |path: &Path| std::fs::hard_link(&empty, path).unwrap();
    let directory = |path: &Path| std::fs::create_dir(path).unwrap();
    let of_other = |path: &Path| {
        std::fs::write(path, b"").unwrap();
        chown(path, Some(OTHER), None).unwrap();
    };
    let mut cases: Vec<Case> = vec![
        (&dangling, "it is a symbolic link"),
        (&link, "it is a symbolic link"),
        (&hard_link, "it has 2 names (hard links)"),
        (&pipe, "it is a named pipe"),
        (&directory, "it is a directory"),
    ];
    match geteuid().is_root() {
        true => cases.push((&of_other, "it belongs to another user (uid 65534)")),
        false => skipped("a lock file of another user", "it needs root"),
    }
    for (make, word) in cases {
        std::fs::create_dir(scratch.store()).unwrap();
        make(&lock);
        let refused = scratch.run(&[]);
        assert_fails(&refused, 1, &["ringfall.lock can't be the lock file", word, "--cache-dir"]);
        assert!(!scratch.file("elsewhere").exists());
        assert_eq!(std::fs::metadata(&empty).unwrap().len(), 0);
        std::fs::remove_dir_all(scratch.store()).unwrap();
    }
}

/// The name of the temporary file was the result's with the process's number.
#[test]
fn a_result_is_written_through_no_name_that_can_be_guessed() {
    let scratch = Scratch::new("result-guessed");
    let victim = victim(&scratch);
    let run = scratch.run_command(&["--duration", "1"]);
    let mut links = Command::new("bash");
    let text_of = "for name in result.json.$$.tmp .ringfall-probe-$$; do ln -s victim $name; done; \
                   exec \"$0\" \"$@\"";
    links.args(["-c", text_of]).arg(run.get_program()).args(run.get_args());
    links.current_dir(&scratch.path);
    ended_well(output(links));
    assert_untouched(&victim);
    scratch.json();
    assert!(!std::fs::symlink_metadata(scratch.file("result.json")).unwrap().is_symlink());
}

/// A run that writes all of [`OUTPUTS`], and a trace of a simulated one.
fn with_all_outputs(scratch: &Scratch) -> [Output; 2] {
    let more = ["--duration", "1", "--xlsx-output", "table.csv", "--html-output", "page.html"];
    let real = scratch.run(&[&more[..], &["--fio-output", "job.fio"]].concat());
    let mut simulated = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    simulated.args(["run", "--model", "tiny-1b", "--duration", "1", "--io-trace-log", "trace.csv"]);
    simulated.args(["--output", "simulated.json", "--users", "2"]).current_dir(&scratch.path);
    [real, output(simulated)]
}

const OUTPUTS: [&str; 6] =
    ["result.json", "table.csv", "page.html", "job.fio", "simulated.json", "trace.csv"];

fn assert_written(all: [Output; 2]) {
    for written in all {
        assert_eq!(written.status.code(), Some(0), "{}", text(&written));
    }
}

#[test]
fn an_output_through_the_users_own_link_replaces_what_it_leads_to() {
    let scratch = Scratch::new("own-link");
    std::fs::create_dir(scratch.file("there")).unwrap();
    for name in OUTPUTS {
        symlink(Path::new("there").join(name), scratch.file(name)).unwrap();
    }
    assert_written(with_all_outputs(&scratch));
    for name in OUTPUTS {
        assert!(std::fs::symlink_metadata(scratch.file(name)).unwrap().is_symlink(), "{name}");
        assert!(std::fs::metadata(scratch.file("there").join(name)).unwrap().len() > 0, "{name}");
    }
}

#[test]
fn an_output_through_another_users_link_is_refused() {
    if !geteuid().is_root() {
        return skipped("outputs through another user's link", "it needs root");
    }
    for name in OUTPUTS {
        let scratch = Scratch::new("others-link");
        let victim = victim(&scratch);
        symlink(&victim, scratch.file(name)).unwrap();
        lchown(scratch.file(name), Some(OTHER), None).unwrap();
        let [real, simulated] = with_all_outputs(&scratch);
        let refused = if OUTPUTS[..4].contains(&name) { real } else { simulated };
        assert_fails(&refused, 1, &["symbolic link of another user (uid 65534)", name]);
        assert_untouched(&victim);
    }
}

#[test]
fn an_output_does_not_change_a_file_that_has_its_name_too() {
    let scratch = Scratch::new("output-hard-link");
    let other_name = |name: &str| scratch.file(&format!("{name}.other"));
    for name in OUTPUTS {
        std::fs::write(scratch.file(name), PRECIOUS).unwrap();
        std::fs::hard_link(scratch.file(name), other_name(name)).unwrap();
    }
    assert_written(with_all_outputs(&scratch));
    OUTPUTS.iter().for_each(|name| assert_untouched(&other_name(name)));
}

fn sweep(scratch: &Scratch) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(["sweep", "--results=r", "--model=tiny-1b", "--duration=1", "--vary=users=2"]);
    command.args(["--storage-capacity-gb=0.25", "--generation-mode=none", "--cpu-mem-gb=0"]);
    command.arg(concat!("--config=", env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml"));
    command.arg("--cache-dir").arg(scratch.store()).current_dir(&scratch.path);
    command
}

#[test]
fn a_batch_makes_its_files_through_no_link() {
    let scratch = Scratch::new("batch-links");
    let victim = victim(&scratch);
    let directory = scratch.file("r");
    std::fs::create_dir(&directory).unwrap();
    symlink(&victim, directory.join(".batch.journal.new")).unwrap();
    // As no job has been done, each result and log is made anew.
    ended_well(output(sweep(&scratch)));
    let entries = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let log = entries.into_iter().find(|path| path.extension().is_some_and(|end| end == "log"));
    let log = log.expect("the job has a log");
    for path in [directory.join("batch.journal"), log.with_extension("json"), log.clone()] {
        std::fs::remove_file(path).unwrap();
    }
    symlink(&victim, &log).unwrap();
    symlink(&victim, log.with_extension("json")).unwrap();
    ended_well(output(sweep(&scratch)));
    assert_untouched(&victim);
    for name in [".batch.lock", "batch.journal"] {
        std::fs::remove_file(directory.join(name)).unwrap();
        let elsewhere = scratch.file("elsewhere");
        let dangling = |path: &Path| symlink(&elsewhere, path).unwrap();
        for (make, word) in
            [(&dangling as &dyn Fn(&Path), "symbolic link"), (&pipe, "it is a named pipe")]
        {
            make(&directory.join(name));
            assert_fails(&output(sweep(&scratch)), 1, &[name, word, "give another directory"]);
            assert!(!elsewhere.exists());
            std::fs::remove_file(directory.join(name)).unwrap();
        }
    }
}

#[test]
fn ranks_meet_in_no_directory_that_is_another_s() {
    let scratch = Scratch::new("meeting-link");
    let meeting = scratch.file(".ringfall-ranks-test.1");
    let elsewhere = scratch.file("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, &meeting).unwrap();
    for ended in launch(&scratch, 2, &["--duration", "1"]).into_iter().map(finish) {
        assert_fails(&ended, 1, &["it is a symbolic link"]);
    }
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    if !geteuid().is_root() {
        return skipped("a meeting place of another user", "it needs root");
    }
    std::fs::remove_file(&meeting).unwrap();
    std::fs::create_dir(&meeting).unwrap();
    chown(&meeting, Some(OTHER), None).unwrap();
    let ended = output(rank_command(&scratch, 0, 2, &["--duration", "1"]));
    assert_fails(&ended, 1, &["belongs to another user (uid 65534)"]);
    assert_eq!(std::fs::read_dir(&meeting).unwrap().count(), 0);
}

/// The refusal has no errno of the system's, for which the remedy panicked.
#[test]
fn a_store_behind_another_users_link_is_refused() {
    if !geteuid().is_root() {
        return skipped("a store behind another user's link", "only root can give a link away");
    }
    let scratch = Scratch::new("store-link");
    std::fs::create_dir(scratch.file("elsewhere")).unwrap();
    for to in ["elsewhere", "nowhere"] {
        let link = scratch.file("link");
        symlink(to, &link).unwrap();
        lchown(&link, Some(OTHER), None).unwrap();
        let ran = output(scratch.run_command(&["--cache-dir", link.to_str().unwrap()]));
        assert_fails(&ran, 1, &["it is a symbolic link of another user", "--cache-dir"]);
        std::fs::remove_file(&link).unwrap();
    }
    assert_eq!(std::fs::read_dir(scratch.file("elsewhere")).unwrap().count(), 0);
}

/// A name in `/tmp` that can be guessed, as `results`, led to wherever another user wished.
#[test]
fn where_everybody_may_make_names_another_users_link_leads_nowhere() {
    if !geteuid().is_root() {
        return skipped("another user's link as a directory", "only root can give a link away");
    }
    let scratch = Scratch::new("directory-link");
    let (shared, elsewhere) = (scratch.file("shared"), scratch.file("elsewhere"));
    std::fs::create_dir(&shared).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    let mode = |mode| Permissions::from_mode(mode);
    std::fs::set_permissions(&shared, mode(0o1777)).unwrap();
    for name in ["results", "rank_1"] {
        symlink("../elsewhere", shared.join(name)).unwrap();
        lchown(shared.join(name), Some(OTHER), None).unwrap();
    }
    let of = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
        command.args(arguments.split(' ')).current_dir(&scratch.path);
        command
    };
    let run = |arguments: &str| {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        scratch.run_command(&[&["--duration", "1"], &arguments[..]].concat())
    };
    let sweep_in = |results: &str| {
        let mut command = sweep(&scratch);
        command.args(["--results", results]);
        command
    };
    for command in [
        run("--output shared/results/r.json"),
        run("--html-output shared/results/deeper/page.html"),
        run("--cache-dir shared/results/store"),
        rank_command(&scratch, 1, 2, &["--start-at", "0", "--output", "shared/r.json"]),
        of("checkpoint write shared/results --size-gib 0.0078125"),
        of("checkpoint write shared/results/ck --size-gib 0.0078125"),
        of("mlperf shim shared/results/shim --ringfall /usr/bin/ringfall"),
        sweep_in("shared/results"),
        sweep_in("shared/results/r"),
    ] {
        let shown = format!("{command:?}");
        let refused = output(command);
        assert_fails(&refused, 1, &["on the way is a symbolic link of another user (uid 65534)"]);
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "{shown}");
    }
    // Who may put any directory there may as well put a link.
    let written = |name: &str| {
        ended_well(output(run(&format!("--output shared/results/{name}"))));
        assert!(elsewhere.join(name).exists());
    };
    chown(&shared, Some(OTHER), None).unwrap();
    written("of-the-directorys-owner.json");
    chown(&shared, Some(1), None).unwrap();
    std::fs::set_permissions(&shared, mode(0o777)).unwrap();
    written("where-names-can-be-taken.json");
    std::fs::set_permissions(&shared, mode(0o1777)).unwrap();
    lchown(shared.join("results"), Some(0), None).unwrap();
    written("of-this-user.json");
}

#[test]
fn a_run_without_a_directory_takes_none_that_somebody_made_for_it() {
    let scratch = Scratch::new("fresh-guessed");
    let temporary = scratch.file("tmp");
    std::fs::create_dir_all(scratch.file("theirs")).unwrap();
    std::fs::create_dir(&temporary).unwrap();
    let mut command = Command::new("bash");
    let text_of = "ln -s ../theirs tmp/ringfall-$$; exec \"$0\" \"$@\"";
    command.args(["-c", text_of, env!("CARGO_BIN_EXE_ringfall"), "run", "--model", "tiny-1b"]);
    command.args(["--duration", "100", "--users", "2", "--storage-capacity-gb", "0.25"]);
    command.args(["--cpu-mem-gb", "0", "--output", "r.json", "--generation-mode", "none"]);
    command.args(["--config", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml")]);
    command.env("TMPDIR", &temporary).current_dir(&scratch.path);
    let run = spawn(command);
    let stores = || {
        let entries = std::fs::read_dir(&temporary).unwrap().flatten();
        let paths = entries.map(|entry| entry.path()).filter(|path| !path.is_symlink());
        paths.filter(|path| path.join("ringfall.kv").exists()).count()
    };
    let kept = || std::fs::read_dir(scratch.file("theirs")).unwrap().count();
    wait_until("it has its data file", || stores() + kept() > 0);
    assert_eq!((stores(), kept()), (1, 0));
    rustix::process::kill_process(rustix::process::Pid::from_child(&run), Signal::INT).unwrap();
    assert_eq!(finish(run).status.code(), Some(130));
    assert_eq!(stores(), 0);
}
