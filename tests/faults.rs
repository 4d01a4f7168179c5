//! The data file is damaged, cut or deleted while the run uses it.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use crate::support::{Scratch, assert_fails, data_bytes, finish, wait_until};

#[test]
fn damage_on_disk_is_seen_and_fails_the_run() {
    let scratch = Scratch::new("damage");
    // Without flushes: where this test's buffered writes meet the population's direct ones, the
    // kernel may fail a flush, and its errors would be told in the place of the damage.
    let more = ["--duration", "6", "--verify", "full", "--decode-only", "--users", "1"];
    let child = scratch.start(&[&more[..], &["--durability", "none"]].concat());
    let path = scratch.store().join("ringfall.kv");
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    // The population is written before the run reads: damage everything again and again until
    // the run, which stops at its thousandth error or its end, has gone.
    let mut child = child;
    while child.try_wait().unwrap().is_none() {
        for megabyte in 0..512u64 {
            // Deleting the file ends the run's interest in it: a failure here is its end.
            let _run_may_be_over = file.write_at(&[0xdb; 512], megabyte << 20 | 8192);
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let output = finish(child);
    assert_fails(&output, 1, &["corrupt", "ringfall.kv"]);
    let bad = scratch.json().pointer("/ringfall/verify/blocks_bad").unwrap().as_u64();
    assert!(bad > Some(0), "{bad:?}");
}

#[test]
fn a_truncated_data_file_ends_the_run_with_the_reason() {
    let scratch = Scratch::new("truncated");
    let child = scratch.start(&["--duration", "60", "--preallocate", "reserve"]);
    wait_until("the run has its data file", || data_bytes(&scratch.store()) >= 1 << 29);
    let path = scratch.store().join("ringfall.kv");
    OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    assert_fails(&finish(child), 1, &["truncated", "ringfall.kv", "--cache-dir"]);
    // What was measured until then is written all the same.
    let json = scratch.json();
    let failure = json["ringfall"]["window"]["failure"].as_str().unwrap();
    assert!(failure.contains("truncated") || failure.contains("I/O errors"), "{failure}");
    assert!(!json["ringfall"]["timeline"].as_array().unwrap().is_empty());
}

#[test]
fn a_vanished_directory_ends_the_run_with_the_reason() {
    let scratch = Scratch::new("vanished");
    let child = scratch.start(&["--duration", "60"]);
    wait_until("the run has its data file", || data_bytes(&scratch.store()) > 0);
    std::fs::remove_dir_all(scratch.store()).unwrap();
    assert_fails(&finish(child), 1, &["ringfall.kv", "longer", "--cache-dir"]);
}
