//! Files with which others start the program: systemd's units, Kubernetes's manifests and the
//! seccomp profile of their containers.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::readme::refusal;
use crate::support::{Scratch, output, skipped, text};
use crate::tidy::root;

const UNITS: [&str; 2] = ["ringfall-nightly.service", "ringfall-nightly.timer"];
const MANIFESTS: [&str; 2] = ["job.yaml", "mpijob.yaml"];

fn config(folder: &str, name: &str) -> PathBuf {
    root().join("config").join(folder).join(name)
}

fn read(folder: &str, name: &str) -> String {
    std::fs::read_to_string(config(folder, name)).unwrap()
}

/// Arguments of the program in a manifest: an item a line, from the program's name on where a
/// launcher stands before it.
fn arguments(manifest: &str) -> String {
    let lines = manifest.lines().map(str::trim);
    let items = lines.skip_while(|line| *line != "args:").skip(1);
    let items: Vec<&str> = items.map_while(|line| line.strip_prefix("- ")).collect();
    let begin = items.iter().position(|item| *item == "ringfall").map_or(0, |place| place + 1);
    items[begin..].join(" ")
}

#[test]
fn the_commands_of_units_and_manifests_are_understood() {
    let unit = read("systemd", UNITS[0]);
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/")).unwrap();
    let manifests =
        MANIFESTS.map(|name| format!("ringfall {}", arguments(&read("kubernetes", name))));
    for (command, word) in [(started, "quick"), (&manifests[0], "quick"), (&manifests[1], "run")] {
        assert!(command.starts_with(&format!("ringfall {word} ")), "{command}");
        let refused = refusal(command);
        assert!(refused.is_none(), "{command}: {refused:?}");
    }
    assert!(refusal("ringfall quick --no-such-flag").is_some());
}

/// A key that systemd does not know is only a warning of it.
#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let scratch = Scratch::new("units");
    let mut verify = Command::new("systemd-analyze");
    verify.args(["verify", "--man=no"]);
    for name in UNITS {
        let unit =
            read("systemd", name).replace("/usr/bin/ringfall", env!("CARGO_BIN_EXE_ringfall"));
        std::fs::write(scratch.file(name), unit).unwrap();
        verify.arg(scratch.file(name));
    }
    match verify.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skipped("systemd-analyze verify", "systemd-analyze is not installed");
        }
        verified => {
            let verified = verified.unwrap();
            assert!(verified.status.success() && text(&verified).is_empty(), "{}", text(&verified));
        }
    }
}

/// Holds each document of the files named by its arguments against Kubernetes's schemas, which have
/// no MPIJob: of that, the pods.
const VALIDATE: &str = "
import sys
try:
    import yaml
    import kubernetes_validate
except ImportError as error:
    sys.exit(f'{error}: pip install kubernetes-validate')
for path in sys.argv[1:]:
    for document in yaml.safe_load_all(open(path)):
        if document['kind'] == 'MPIJob':
            replicas = document['spec']['mpiReplicaSpecs'].values()
            documents = [{'apiVersion': 'v1', 'kind': 'PodTemplate', 'template': one['template']}
                         for one in replicas]
        else:
            documents = [document]
        for one in documents:
            kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
            print(one['kind'])
";

#[test]
fn the_manifests_are_of_kubernetes_s_schemas() {
    let mut validate = Command::new("python3");
    validate.args(["-c", VALIDATE]).args(MANIFESTS.map(|name| config("kubernetes", name)));
    let validated = match validate.output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return skipped("Kubernetes's schemas", "python3 is not installed");
        }
        validated => validated.unwrap(),
    };
    let told = text(&validated);
    if told.contains("pip install kubernetes-validate") {
        return skipped("Kubernetes's schemas", &told);
    }
    let kinds = "PersistentVolumeClaim\nJob\nPersistentVolumeClaim\nPodTemplate\nPodTemplate\n";
    assert_eq!(told, kinds);
}

/// Loads the profile that its first argument names, as a container's runtime does, and becomes the
/// command that follows.
const CONFINE: &str = "
import json, os, sys
try:
    import seccomp
except ImportError as error:
    sys.exit(f'{error}: apt-get install python3-seccomp')
profile = json.load(open(sys.argv[1]))
rules = seccomp.SyscallFilter(seccomp.ERRNO(profile['defaultErrnoRet']))
for rule in profile['syscalls']:
    is_allowed = rule['action'] == 'SCMP_ACT_ALLOW'
    action = seccomp.ALLOW if is_allowed else seccomp.ERRNO(rule['errnoRet'])
    conditions = [seccomp.Arg(one['index'], seccomp.MASKED_EQ, one['value'], one['valueTwo'])
                  for one in rule.get('args', [])]
    for name in rule['names']:
        if seccomp.resolve_syscall(seccomp.Arch(), name) >= 0:
            rules.add_rule(action, name, *conditions)
rules.load()
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_run_measures_under_the_seccomp_profile_and_not_without_its_io_uring() {
    let scratch = Scratch::new("seccomp");
    let whole: Value = serde_json::from_str(&read("kubernetes", "seccomp.json")).unwrap();
    let mut without = whole.clone();
    let names = without["syscalls"][0]["names"].as_array_mut().unwrap();
    let count = names.len();
    names.retain(|name| !name.as_str().unwrap().starts_with("io_uring_"));
    assert_eq!(count - names.len(), 3, "setup, enter and register");
    for (profile, status, told) in [
        (whole, 0, "Results over"),
        (without, 1, "in a container, allow io_uring_setup, io_uring_enter and io_uring_register"),
    ] {
        let path = scratch.file("seccomp.json");
        std::fs::write(&path, profile.to_string()).unwrap();
        let run = scratch.run_command(&[]);
        // That of the system, which has Debian's modules.
        let mut confined = Command::new("/usr/bin/python3");
        confined.args(["-c", CONFINE]).arg(&path).arg(run.get_program()).args(run.get_args());
        confined.current_dir(&scratch.path);
        if !PathBuf::from(confined.get_program()).exists() {
            return skipped("a run under the seccomp profile", "python3 is not installed");
        }
        let ran = output(confined);
        let page = text(&ran);
        if page.contains("apt-get install python3-seccomp") {
            return skipped("a run under the seccomp profile", &page);
        }
        assert_eq!(ran.status.code(), Some(status), "{page}");
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(told), "{page}");
    }
}
