//! Checkpoints in an object store, by the real binary.

use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::objects::{assert_no_secret, command};
use super::support::s3::{S3Server, Wrong};
use super::support::{Scratch, assert_fails, finish, output, spawn, text, wait_until};

/// 30 MiB of 2 ranks in chunks of 6 MiB: three parts each, the last one smaller.
const SMALL: [&str; 6] = ["--size-gib", "0.029296875", "--ranks", "2", "--chunk-mib", "6"];

fn checkpoint(scratch: &Scratch, server: &S3Server, what: &str, more: &[&str]) -> Command {
    let mut command = command(scratch, &["checkpoint", what, "s3://bucket/ckpt"]);
    command.args(["--object-endpoint", &server.endpoint(), "--output", "result.json"]);
    command.args(["--object-retries", "3"]).args(more);
    command
}

fn write(scratch: &Scratch, server: &S3Server, more: &[&str]) -> Output {
    output(checkpoint(scratch, server, "write", &[&SMALL[..], more].concat()))
}

/// It succeeded; its JSON.
fn done(scratch: &Scratch, output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", text(output));
    assert_no_secret(scratch, &text(output));
    serde_json::from_slice(&std::fs::read(scratch.file("result.json")).unwrap()).unwrap()
}

#[test]
fn what_is_written_to_a_store_is_restored_to_the_last_byte() {
    let (scratch, server) = (Scratch::new("objects-ckpt"), S3Server::start());
    let written = done(&scratch, &write(&scratch, &server, &[]));
    assert_eq!(written["saves"][0]["bytes"], 30 << 20);
    assert_eq!(written["target"], "s3://bucket/ckpt");
    assert_eq!(written["target_kind"], "s3");
    let objects = server.objects();
    let large = objects.iter().filter(|(_, bytes)| *bytes == 15 << 20).count();
    assert_eq!((objects.len(), large, server.open_uploads()), (3, 2, 0), "{objects:?}");
    let read = output(checkpoint(&scratch, &server, "read", &["--chunk-mib", "4"]));
    let restore = &done(&scratch, &read)["restores"][0];
    assert_eq!((&restore["bytes"], &restore["blocks_bad"]), (&(30 << 20).into(), &0.into()));
    // Another checkpoint does not take its place unless that is wanted.
    assert_fails(&write(&scratch, &server, &[]), 2, &["--overwrite"]);
    done(&scratch, &write(&scratch, &server, &["--overwrite"]));
}

#[test]
fn faults_on_the_way_are_answered_and_counted() {
    for (method, path, wrong) in [
        ("PUT", "partNumber=2", Wrong::Busy),
        ("PUT", "partNumber=3", Wrong::CutsRequest),
        ("PUT", "partNumber=1", Wrong::Checksum),
        ("POST", "uploadId", Wrong::CompletesInSilence),
    ] {
        let (scratch, server) = (Scratch::new("objects-faults"), S3Server::start());
        server.fault(method, path, 2, wrong);
        let written = done(&scratch, &write(&scratch, &server, &[]));
        assert!(written["retries"].as_u64().unwrap() >= 2, "{wrong:?}: {written:#}");
        server.fault("GET", "rank-", 2, Wrong::CutsAnswer);
        let read = output(checkpoint(&scratch, &server, "read", &[]));
        let read = done(&scratch, &read);
        assert_eq!(read["restores"][0]["blocks_bad"], 0);
        assert!(read["retries"].as_u64().unwrap() >= 2);
    }
}

#[test]
fn a_checkpoint_that_can_t_be_stored_leaves_nothing_under_its_name() {
    for (method, path, wrong, word) in [
        ("POST", "uploadId", Wrong::LosesPart, "lost a part"),
        ("POST", "uploadId", Wrong::LosesPartInSilence, "bytes where"),
        ("PUT", "partNumber=2", Wrong::Expired, "expired"),
        ("PUT", "partNumber=2", Wrong::Busy, "too busy"),
    ] {
        let (scratch, server) = (Scratch::new("objects-lost"), S3Server::start());
        server.fault(method, path, u32::MAX, wrong);
        let output = write(&scratch, &server, &[]);
        assert_fails(&output, 1, &[word, "s3://bucket/ckpt/"]);
        assert_no_secret(&scratch, &text(&output));
        let names: Vec<String> = server.objects().into_iter().map(|(name, _)| name).collect();
        assert!(!names.iter().any(|name| name.ends_with("checkpoint.json")), "{names:?}");
        assert!(!names.iter().any(|name| name.ends_with(".ckpt")), "{names:?}");
        // What is left goes on from there, and what the store has lost begins again.
        server.heal();
        done(&scratch, &write(&scratch, &server, &["--resume"]));
        assert_eq!((server.open_uploads(), server.objects().len()), (0, 3), "{wrong:?}");
    }
}

#[test]
fn bytes_that_the_store_changed_are_found() {
    let (scratch, server) = (Scratch::new("objects-changed"), S3Server::start());
    done(&scratch, &write(&scratch, &server, &[]));
    server.fault("GET", "rank-", 1, Wrong::Corrupts);
    let read = output(checkpoint(&scratch, &server, "read", &[]));
    assert_fails(&read, 1, &["1 block of 4 KiB is not what was written"]);
}

#[test]
fn an_interrupted_write_goes_on_with_the_files_that_were_complete() {
    let (scratch, server) = (Scratch::new("objects-resume"), S3Server::start());
    // Two parts are on their way, and the third can't be made before one of them is there.
    let one_by_one = ["--files-at-once", "1", "--threads", "1", "--buffers", "2"];
    let more = [&SMALL[..], &one_by_one].concat();
    server.fault("PUT", "rank-00001", u32::MAX, Wrong::IsSlow(2_000));
    let child = spawn(checkpoint(&scratch, &server, "write", &more));
    wait_until("the first file is complete", || {
        server.objects().iter().any(|(name, _)| name.ends_with("rank-00000-of-00002.ckpt"))
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(finish(child).status.code(), Some(130));
    server.heal();
    let before = puts(&server, "rank-00000", "partNumber");
    let resumed = write(&scratch, &server, &[&one_by_one[..], &["--resume"]].concat());
    done(&scratch, &resumed);
    let after = puts(&server, "rank-00000", "partNumber");
    assert_eq!(after, before, "a file that was complete is not written again");
    assert_eq!((server.open_uploads(), server.objects().len()), (0, 3));
    let read = output(checkpoint(&scratch, &server, "read", &[]));
    assert_eq!(done(&scratch, &read)["restores"][0]["blocks_bad"], 0);
}

/// Number of times that a part of a file was sent.
fn puts(server: &S3Server, file: &str, part: &str) -> usize {
    let requests = server.requests();
    requests.iter().filter(|line| line.contains(file) && line.contains(part)).count()
}

/// A write whose second file is cut short after its first two parts, by that signal.
fn cut_short(scratch: &Scratch, server: &S3Server, signal: Signal) {
    let one_by_one = ["--files-at-once", "1", "--threads", "1", "--buffers", "1"];
    // One part at a time: what is in flight ends, and the third is not begun any more.
    server.fault("PUT", "rank-00001-of-00002.ckpt?partNumber=2", u32::MAX, Wrong::IsSlow(2_000));
    let more = [&SMALL[..], &one_by_one].concat();
    let child = spawn(checkpoint(scratch, server, "write", &more));
    wait_until("the second part is on its way", || puts(server, "rank-00001", "partNumber=2") > 0);
    kill_process(Pid::from_child(&child), signal).unwrap();
    assert_ne!(finish(child).status.code(), Some(0));
    server.heal();
    assert_eq!(server.open_uploads(), 1);
}

#[test]
fn a_file_that_was_interrupted_goes_on_after_the_parts_that_are_stored() {
    let (scratch, server) = (Scratch::new("objects-parts"), S3Server::start());
    cut_short(&scratch, &server, Signal::INT);
    let resumed = done(&scratch, &write(&scratch, &server, &["--resume"]));
    assert_eq!(resumed["saves"][0]["found_bytes"], 27 << 20, "{resumed:#}");
    for part in ["partNumber=1", "partNumber=2"] {
        assert_eq!(puts(&server, "rank-00001", part), 1, "{part} is not sent again");
    }
    assert_eq!((server.open_uploads(), server.objects().len()), (0, 3));
    let read = output(checkpoint(&scratch, &server, "read", &[]));
    assert_eq!(done(&scratch, &read)["restores"][0]["blocks_bad"], 0);
}

#[test]
fn a_killed_write_leaves_an_upload_that_goes_on_or_ends() {
    for how in ["--resume", "--overwrite"] {
        let (scratch, server) = (Scratch::new("objects-killed"), S3Server::start());
        cut_short(&scratch, &server, Signal::KILL);
        done(&scratch, &write(&scratch, &server, &[how]));
        assert_eq!((server.open_uploads(), server.objects().len()), (0, 3), "{how}");
        let read = output(checkpoint(&scratch, &server, "read", &[]));
        assert_eq!(done(&scratch, &read)["restores"][0]["blocks_bad"], 0);
    }
}

#[test]
fn a_kill_just_after_an_upload_was_completed_leaves_no_record_for_long() {
    let (scratch, server) = (Scratch::new("objects-record"), S3Server::start());
    server.fault("DELETE", "rank-00001-of-00002.ckpt.upload.json", 1, Wrong::IsSlow(60_000));
    let more = [&SMALL[..], &["--files-at-once", "1"]].concat();
    let child = spawn(checkpoint(&scratch, &server, "write", &more));
    let asked = |request: &String| request.starts_with("DELETE") && request.contains("rank-00001");
    let records = || server.objects().iter().filter(|(name, _)| name.contains("upload")).count();
    // The first file is published while the second is written, and may be so after it.
    wait_until("one record is left, and to be removed", || {
        server.requests().iter().any(asked) && (server.open_uploads(), records()) == (0, 1)
    });
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    finish(child);
    assert_eq!((server.open_uploads(), records()), (0, 1));
    done(&scratch, &write(&scratch, &server, &["--resume"]));
    assert_eq!((server.objects().len(), records()), (3, 0), "{:?}", server.objects());
    // Only large files have such records: nobody asks for those of others.
    let odd = server.requests().iter().filter(|line| line.contains(".json.upload.json")).count();
    assert_eq!(odd, 0);
}

#[test]
fn an_upload_that_the_store_has_removed_begins_again_at_the_second_attempt() {
    let (scratch, server) = (Scratch::new("objects-expired"), S3Server::start());
    cut_short(&scratch, &server, Signal::INT);
    server.forget_uploads();
    let told = write(&scratch, &server, &["--resume"]);
    assert_fails(&told, 1, &["forgotten the upload", "life-cycle"]);
    done(&scratch, &write(&scratch, &server, &["--resume"]));
    assert_eq!((server.open_uploads(), server.objects().len()), (0, 3));
}

#[test]
fn a_store_is_a_row_of_the_comparison() {
    let (scratch, server) = (Scratch::new("objects-row"), S3Server::start());
    let mut compare = command(&scratch, &["checkpoint", "compare", "dir"]);
    compare.args(["--beside", "s3://bucket/ckpt", "--object-endpoint", &server.endpoint()]);
    compare.args(["--output", "result.json", "--trials", "2"]).args(SMALL);
    let compared = output(compare);
    let result = done(&scratch, &compared);
    let saves = result["saves"].as_array().unwrap();
    let stored = saves.iter().filter(|save| save["target"] == "s3://bucket/ckpt").count();
    assert_eq!((saves.len(), stored), (6, 2), "{result:#}");
    assert!(result["requests"].as_u64().unwrap() > 6, "{result:#}");
    let page = String::from_utf8_lossy(&compared.stdout).into_owned();
    for row in ["stream  ", "generate-first  ", "stream, beside  ", "beside       s3://bucket/ckpt"]
    {
        assert!(page.contains(row), "{row}: {page}");
    }
    assert_eq!((server.open_uploads(), server.objects()), (0, vec![]));
}

#[test]
fn a_job_that_saves_and_restores_in_turn_uses_a_store_too() {
    let (scratch, server) = (Scratch::new("objects-train"), S3Server::start());
    let more = ["--interval", "0.2", "--duration", "2", "--restore-every", "2"];
    let trained = output(checkpoint(&scratch, &server, "run", &[&SMALL[..], &more].concat()));
    let trained = done(&scratch, &trained);
    assert!(!trained["saves"].as_array().unwrap().is_empty(), "{trained:#}");
    let restores = trained["restores"].as_array().unwrap();
    assert!(restores.iter().all(|restore| restore["blocks_bad"] == 0), "{trained:#}");
    assert_eq!(server.open_uploads(), 0);
}

#[test]
fn an_asynchronous_job_computes_while_the_store_completes_a_save() {
    // By how much longer it took to compute and to save than the job lasted, s.
    let overlap_s = |mode: &str| {
        let (scratch, server) = (Scratch::new("objects-async"), S3Server::start());
        // All content has been taken over when an upload is completed, which takes its time here:
        // much longer than a thread that may go on needs to do so.
        server.fault("POST", "uploadId", u32::MAX, Wrong::IsSlow(3_000));
        // One file: of several, the thread that has one completed leaves the others' chunks.
        let one = ["--size-gib", "0.029296875", "--ranks", "1", "--chunk-mib", "6"];
        let more = ["--interval", "1", "--duration", "5", "--restore-every", "0"];
        let more = [&one[..], &more, &["--save-mode", mode]].concat();
        let trained = done(&scratch, &output(checkpoint(&scratch, &server, "run", &more)));
        let number = |value: &Value| value.as_f64().unwrap();
        let saves = trained["saves"].as_array().unwrap();
        let saved_s: f64 = saves.iter().map(|save| number(&save["durable_s"])).sum();
        let training = &trained["training"];
        assert!(mode == "sync" || saves.len() > 1, "{trained:#}");
        number(&training["computed_s"]) + saved_s - number(&training["elapsed_s"])
    };
    assert!(overlap_s("sync") <= 0.0, "both at the same time");
    assert!(overlap_s("async") > 0.0, "never both at the same time");
}

#[test]
fn a_bucket_that_is_open_to_all_takes_a_checkpoint_by_google_s_interface() {
    let (scratch, server) = (Scratch::new("objects-google"), S3Server::start());
    server.open_to_all();
    for what in ["write", "read"] {
        let mut google = command(&scratch, &["checkpoint", what, "gs://bucket/ckpt"]);
        google.args(["--object-endpoint", &server.endpoint(), "--object-anonymous"]);
        google.args(["--chunk-mib", "6", "--output", "result.json"]);
        google.env("GCE_METADATA_HOST", "127.0.0.1:1");
        if what == "write" {
            google.args(SMALL);
        }
        let result = done(&scratch, &output(google));
        assert_eq!(result["target_kind"], "gs");
    }
    assert_eq!((server.open_uploads(), server.objects().len()), (0, 3));
}

#[test]
fn a_place_is_not_compared_with_itself() {
    let (scratch, server) = (Scratch::new("objects-itself"), S3Server::start());
    std::fs::create_dir(scratch.file("dir")).unwrap();
    for (target, beside) in
        [("s3://bucket/a", "s3://bucket/a/"), ("dir", "./dir/../dir"), ("new", "./new")]
    {
        let mut compare = command(&scratch, &["checkpoint", "compare", target]);
        compare.args(["--beside", beside, "--size-gib", "0.01"]);
        if target.contains(':') {
            compare.args(["--object-endpoint", &server.endpoint()]);
        }
        assert_fails(&output(compare), 2, &["--beside", "another"]);
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn what_keeps_a_checkpoint_from_its_store_is_said_at_once() {
    let (scratch, server) = (Scratch::new("objects-kept"), S3Server::start());
    let told = |server: &S3Server, change: &dyn Fn(&mut Command)| {
        let mut command = checkpoint(&scratch, server, "write", &SMALL);
        change(&mut command);
        let output = output(command);
        assert_no_secret(&scratch, &text(&output));
        output
    };
    let wrong_key = |command: &mut Command| {
        command.env("AWS_ACCESS_KEY_ID", "AKIANOBODY");
    };
    assert_fails(&told(&server, &wrong_key), 1, &["does not know these credentials"]);
    server.fault("GET", "list-type", 1, Wrong::Skewed);
    assert_fails(&told(&server, &|_| {}), 1, &["clock of this machine", "ahead", "chronyc"]);
    server.fault("GET", "list-type", 1, Wrong::IsNoStore);
    assert_fails(&told(&server, &|_| {}), 1, &["status 404", "is it an object store"]);
    // A bucket that holds something else under a name that is wanted.
    server.put("ckpt/rank-00001-of-00002.ckpt", b"of somebody else");
    assert_fails(&told(&server, &|_| {}), 2, &["belongs to no checkpoint", "rank-00001"]);
    assert_eq!(server.objects().len(), 1);
    let mut no_bucket = command(&scratch, &["checkpoint", "write", "s3://other/ckpt"]);
    no_bucket.args(["--object-endpoint", &server.endpoint()]).args(SMALL);
    assert_fails(&output(no_bucket), 1, &["no such bucket", "or create it"]);
    let endpoint = server.endpoint();
    drop(server);
    let mut no_server = command(&scratch, &["checkpoint", "write", "s3://bucket/ckpt"]);
    no_server.args(["--object-endpoint", &endpoint, "--object-retries", "1"]).args(SMALL);
    assert_fails(&output(no_server), 1, &["no connection to the server", "--object-endpoint"]);
}

#[test]
fn what_can_t_be_a_target_is_refused() {
    let (scratch, server) = (Scratch::new("objects-refused"), S3Server::start());
    let small_chunks = ["--size-gib", "0.03", "--chunk-mib", "1"];
    let refused = output(checkpoint(&scratch, &server, "write", &small_chunks));
    assert_fails(&refused, 2, &["5 MiB"]);
    let missing = output(checkpoint(&scratch, &server, "read", &[]));
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing));
    let on_a_path = command(&scratch, &["checkpoint", "write", "dir", "--object-retries", "1"]);
    assert_fails(&output(on_a_path), 2, &["--object-retries is for object stores"]);
    assert_eq!(server.objects(), []);
}
