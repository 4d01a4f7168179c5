//! What people mistype.

use std::process::Command;

use crate::support::{Scratch, assert_fails, output};

fn ringfall(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(args);
    output(command)
}

#[test]
fn wrong_flags_are_told_with_the_remedy() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["run", "--num-usrs", "5"], &["--num-usrs", "--num-users"]),
        (&["run", "--users", "0"], &["users", "0", "1"]),
        (&["run", "--users", "-3"], &["users", "-3"]),
        (&["run", "--users", "100001"], &["100000"]),
        (&["run", "--users", "many"], &["many"]),
        (&["run", "--duration", "0"], &["duration"]),
        (&["run", "--model", "gpt-9"], &["gpt-9", "llama3.1-8b"]),
        (&["run", "--io-size", "1000"], &["io", "4"]),
        (&["run", "--gpu-mem-gb", "16"], &["GPU"]),
        (&["run", "--prefill-only", "--decode-only"], &["prefill", "decode"]),
        (&["run", "--config", "/no/such/file.yaml"], &["/no/such/file.yaml"]),
        (&["discover"], &["not in this version"]),
        (&["nonsense"], &["nonsense"]),
    ];
    for (args, words) in cases {
        assert_fails(&ringfall(args), 2, words);
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let output = ringfall(args);
        assert_eq!(output.status.code(), Some(0));
        assert!(!output.stdout.is_empty());
    }
}

#[test]
fn a_configuration_of_garbage_names_the_place() {
    let scratch = Scratch::new("garbage");
    let path = scratch.file("c.yaml");
    let shown = path.display().to_string();
    let cases: &[(&[u8], &[&str])] = &[
        (b"num_userz: 5\n", &["num_userz", "num_users"]),
        (b"duration: 5\nnum_users: [1\n", &["c.yaml"]),
        (b"num_users: lots\n", &["num_users"]),
        (b"\xff\xfe\x00\x01", &["c.yaml"]),
    ];
    for (content, words) in cases {
        std::fs::write(&path, content).unwrap();
        assert_fails(&ringfall(&["run", "--config", &shown]), 2, words);
    }
}
