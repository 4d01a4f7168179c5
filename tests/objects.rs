//! Object stores, against a server that does wrong what it is told to.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::channel;

use ringfall_config::object_store::{ObjectOptions, Place};
use ringfall_running::objects::{Bytes, Cause, ObjectError, Objects, Upload};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::support::s3::{ACCESS_KEY, Fault, S3Server, SECRET, TOKEN, Wrong};
use super::support::{Scratch, assert_fails, ended_well, finish, output, spawn, text, wait_until};

/// `ringfall` with credentials in its environment and nothing else of a cloud's.
pub fn command(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfall"));
    command.args(args).current_dir(&scratch.path).stdin(Stdio::null());
    for (name, _) in std::env::vars() {
        if ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|prefix| name.starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command.env("HOME", &scratch.path);
    command.env("AWS_ACCESS_KEY_ID", ACCESS_KEY).env("AWS_SECRET_ACCESS_KEY", SECRET);
    command.env("AWS_SESSION_TOKEN", TOKEN);
    command
}

/// Their names begin so; a list of them names the prefix without the digit.
const OBJECTS_OF_A_SWEEP: &str = "sweep/0";
/// The same of a run.
const OBJECTS_OF_A_RUN: &str = "kv/0";

/// A short sweep.
fn saturate(scratch: &Scratch, server: &S3Server, more: &[&str]) -> Command {
    let mut command = command(scratch, &["saturate", "s3://bucket/sweep"]);
    command.args(["--object-endpoint", &server.endpoint(), "--output", "limits.json"]);
    command.args(["--object-sizes", "64k", "--object-in-flight", "4", "--object-seconds", "0.2"]);
    command.args(["--size-gb", "0.001", "--object-connect-timeout", "2"]);
    command.args(more);
    command
}

fn limits(scratch: &Scratch) -> Value {
    serde_json::from_slice(&std::fs::read(scratch.file("limits.json")).unwrap()).unwrap()
}

/// No credential in anything that was said or written.
pub fn assert_no_secret(scratch: &Scratch, said: &str) {
    let mut all = said.to_owned();
    for entry in std::fs::read_dir(&scratch.path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            all.push_str(&String::from_utf8_lossy(&std::fs::read(path).unwrap()));
        }
    }
    for secret in [SECRET, TOKEN, ACCESS_KEY] {
        assert!(!all.contains(secret), "{secret} is in: {all}");
    }
}

#[test]
fn a_sweep_measures_put_and_get_and_leaves_nothing() {
    let (scratch, server) = (Scratch::new("sweep"), S3Server::start());
    server.put("elsewhere/x", b"mine");
    let more = ["--object-sizes", "64k,1m", "--object-in-flight", "1,4"];
    let output = ended_well(output(saturate(&scratch, &server, &more)));
    for word in ["PUT", "GET", "best GET", "64 KiB", "1 MiB"] {
        assert!(text(&output).contains(word), "{word}: {}", text(&output));
    }
    let limits = limits(&scratch);
    let points = limits["points"].as_array().unwrap();
    assert_eq!(points.len(), 8);
    assert!(points.iter().all(|point| point["requests"].as_u64().unwrap() > 0), "{limits:#}");
    assert_eq!(limits["counts"]["failures"], 0);
    assert_eq!(server.objects(), [("elsewhere/x".to_owned(), 4)]);
    assert!(server.in_flight_max() <= 4);
    assert_no_secret(&scratch, &text(&output));
}

/// The table was lost with the file.
#[test]
fn limits_of_a_store_that_can_t_be_written_are_shown() {
    let (scratch, server) = (Scratch::new("sweep-full"), S3Server::start());
    let ended = output(saturate(&scratch, &server, &["--output", "/dev/full"]));
    assert_fails(&ended, 1, &["the limits can't be written to /dev/full: No space left"]);
    let page = String::from_utf8_lossy(&ended.stdout);
    assert!(page.contains("best PUT") && page.contains("best GET"), "{page}");
    assert!(!page.contains("  limits       "), "{page}");
}

#[test]
fn faults_that_pass_are_answered_and_counted() {
    for (method, wrong, counter) in [
        ("PUT", Wrong::Busy, "busy"),
        ("GET", Wrong::Busy, "busy"),
        ("PUT", Wrong::Fails, "server"),
        ("PUT", Wrong::HangsUp, "cut"),
        ("PUT", Wrong::CutsRequest, "cut"),
        ("GET", Wrong::CutsAnswer, "cut"),
        ("PUT", Wrong::Checksum, "checksum"),
        ("GET", Wrong::IsSlow(1_500), "timeout"),
        ("DELETE", Wrong::Fails, "server"),
    ] {
        let (scratch, server) = (Scratch::new("passes"), S3Server::start());
        server.fault(method, OBJECTS_OF_A_SWEEP, 2, wrong);
        let output = output(saturate(&scratch, &server, &["--object-timeout", "1"]));
        let told = text(&output);
        assert_eq!(output.status.code(), Some(0), "{method} {wrong:?}: {told}");
        let counts = &limits(&scratch)["counts"];
        let retries = counts["retries"][counter].as_u64().unwrap();
        assert!((1..=2).contains(&retries), "{method} {wrong:?}: {counts:#}");
        assert_eq!(counts["failures"], 0, "{method} {wrong:?}");
        assert!(told.contains("repeated"), "{told}");
        assert_eq!(server.objects(), []);
    }
}

#[test]
fn faults_that_stay_end_the_sweep_with_a_sentence_and_leave_nothing() {
    for (method, wrong, word) in [
        ("PUT", Wrong::Busy, "too busy"),
        ("GET", Wrong::Expired, "expired"),
        ("PUT", Wrong::Checksum, "other bytes than were sent"),
        ("GET", Wrong::CutsAnswer, "connection was lost"),
        ("PUT", Wrong::Skewed, "clock"),
    ] {
        let (scratch, server) = (Scratch::new("stays"), S3Server::start());
        server.fault(method, OBJECTS_OF_A_SWEEP, u32::MAX, wrong);
        let output = output(saturate(&scratch, &server, &["--object-retries", "1"]));
        assert_fails(&output, 1, &[word, "s3://bucket/sweep/"]);
        assert_no_secret(&scratch, &text(&output));
        assert_eq!(server.objects(), [], "{wrong:?}");
        assert!(!scratch.file("limits.json").exists());
    }
}

#[test]
fn what_is_wrong_at_the_beginning_is_said_at_once() {
    let scratch = Scratch::new("begin");
    let server = S3Server::start();
    let told = |more: &[&str], change: &dyn Fn(&mut Command)| {
        let mut command = saturate(&scratch, &server, more);
        change(&mut command);
        let output = output(command);
        assert_no_secret(&scratch, &text(&output));
        output
    };
    server.put("sweep/old", b"old");
    assert_fails(&told(&[], &|_| {}), 2, &["not empty", "sweep/ringfall"]);
    let wrong_key = |command: &mut Command| {
        command.env("AWS_ACCESS_KEY_ID", "AKIANOBODY");
    };
    assert_fails(&told(&[], &wrong_key), 1, &["does not know these credentials"]);
    let none = |command: &mut Command| {
        command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
        // A machine of a cloud would have some.
        command.env("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1");
    };
    assert_fails(&told(&[], &none), 1, &["no credentials were found", "AWS_PROFILE"]);
    assert_fails(&told(&["--object-anonymous"], &none), 1, &["do not allow it"]);
    server.fault("GET", "list-type", 1, Wrong::Skewed);
    assert_fails(&told(&[], &|_| {}), 1, &["clock", "ahead"]);
    server.fault("GET", "list-type", 1, Wrong::Elsewhere);
    assert_fails(&told(&[], &|_| {}), 1, &["--object-region eu-central-9"]);
}

#[test]
fn a_wrong_bucket_and_no_network_are_said_at_once() {
    let (scratch, server) = (Scratch::new("nowhere"), S3Server::start());
    let mut no_bucket = command(&scratch, &["saturate", "s3://other/sweep"]);
    no_bucket.args(["--object-endpoint", &server.endpoint()]);
    assert_fails(&output(no_bucket), 1, &["no such bucket", "or create it", "s3://other/sweep"]);
    // A port that was free a moment ago.
    let endpoint = server.endpoint();
    drop(server);
    let mut no_server = command(&scratch, &["saturate", "s3://bucket/sweep"]);
    no_server.args(["--object-endpoint", &endpoint]);
    assert_fails(&output(no_server), 1, &["no connection to the server", "--object-endpoint"]);
    let mut no_host = command(&scratch, &["saturate", "s3://bucket/sweep"]);
    no_host.args(["--object-endpoint", "http://ringfall.invalid"]);
    assert_fails(&output(no_host), 1, &["no connection", "ringfall.invalid"]);
    let mut no_tls = command(&scratch, &["saturate", "s3://bucket/sweep"]);
    let server = S3Server::start();
    no_tls.args(["--object-endpoint", &server.endpoint().replace("http:", "https:")]);
    assert_fails(&output(no_tls), 1, &["secure connection"]);
}

#[test]
fn what_can_t_be_meant_is_refused_before_anything_is_sent() {
    let (scratch, server) = (Scratch::new("meant"), S3Server::start());
    for (more, words) in [
        (&["--depth-max", "3"][..], &["--depth-max is for drives"][..]),
        (&["--object-concurrency", "3"], &["--object-in-flight"]),
        (&["--object-sizes", "5000"], &["--object-sizes has 5000"]),
        (&["--object-in-flight", "0"], &["--object-in-flight has 0"]),
        (&["--object-retries", "101"], &["--object-retries 101 is out of bounds: 0 to 100"]),
        (&["--object-profile", "nobody"], &["there is no profile nobody"]),
        (&["--io-buffer-mb", "0"], &["--io-buffer-mb"]),
    ] {
        assert_fails(&output(saturate(&scratch, &server, more)), 2, words);
    }
    for (typed, word) in [
        (&["saturate", "s3://a:b@bucket/x"][..], "environment"),
        (&["saturate", "ftp://bucket/x"], "not known"),
        (&["saturate", "--cache-dir", "s3://bucket/x"], "ringfall saturate s3://bucket/x"),
        (&["saturate", "--object-retries", "1"], "for object stores"),
        (&["saturate", "az://box", "--object-region", "x"], "for s3:// only"),
    ] {
        assert_fails(&output(command(&scratch, typed)), 2, &[word]);
    }
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn a_profile_has_the_credentials_and_the_endpoint() {
    let (scratch, server) = (Scratch::new("profile"), S3Server::start());
    let file = scratch.file("credentials");
    let profile = format!(
        "[lab]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET}\n\
         endpoint_url = {}\n",
        server.endpoint()
    );
    std::fs::write(&file, profile).unwrap();
    let mut command =
        command(&scratch, &["saturate", "s3://bucket/sweep", "--output", "limits.json"]);
    command.env_remove("AWS_ACCESS_KEY_ID").env_remove("AWS_SECRET_ACCESS_KEY");
    command.env("AWS_SHARED_CREDENTIALS_FILE", &file).env("AWS_PROFILE", "lab");
    command.args(["--object-sizes", "64k", "--object-in-flight", "2", "--object-seconds", "0.1"]);
    let output = ended_well(output(command));
    std::fs::remove_file(file).unwrap();
    assert_no_secret(&scratch, &text(&output));
}

#[test]
fn endpoints_share_the_requests_and_one_that_fails_is_passed_over() {
    let (scratch, server) = (Scratch::new("endpoints"), S3Server::start());
    let beside = server.beside();
    let both = format!("{},{}", server.endpoint(), beside.endpoint());
    for balance in ["round-robin", "least-in-flight"] {
        let more = ["--object-endpoint", &both, "--object-balance", balance];
        ended_well(output(saturate(&scratch, &server, &more)));
        let limits = limits(&scratch);
        let each: Vec<u64> = limits["counts"]["endpoints"]
            .as_array()
            .unwrap()
            .iter()
            .map(|endpoint| endpoint["requests"].as_u64().unwrap())
            .collect();
        assert_eq!(each.len(), 2);
        assert!(each.iter().all(|&requests| requests > each.iter().sum::<u64>() / 8), "{each:?}");
    }
    let gone = format!("http://127.0.0.1:1,{}", server.endpoint());
    ended_well(output(saturate(&scratch, &server, &["--object-endpoint", &gone])));
    assert!(limits(&scratch)["counts"]["retries"]["connect"].as_u64().unwrap() > 0);
}

#[test]
fn a_secure_connection_needs_a_certificate_that_is_trusted() {
    let (scratch, server) = (Scratch::new("secure"), S3Server::start());
    let secure = server.secure();
    let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/tls/ca.pem");
    let output_of = |more: &[&str]| output(saturate(&scratch, &secure, more));
    assert_fails(&output_of(&[]), 1, &["no secure connection", "--object-ca-file"]);
    let trusted = ended_well(output_of(&["--object-ca-file", ca]));
    assert_no_secret(&scratch, &text(&trusted));
    let wrong = output_of(&["--object-ca-file", "/dev/null"]);
    assert_fails(&wrong, 1, &["--object-ca-file /dev/null", "no certificate"]);
}

#[test]
fn the_bucket_goes_into_the_host_s_name_where_that_is_asked_for() {
    let (scratch, server) = (Scratch::new("style"), S3Server::start());
    let endpoint = server.endpoint().replace("127.0.0.1", "localhost");
    let more = ["--object-endpoint", &endpoint, "--object-path-style", "off"];
    let output_of = output(saturate(&scratch, &server, &more));
    // `bucket.localhost` is this machine where the resolver follows RFC 6761, and unknown
    // elsewhere: either way it was asked for.
    let told = text(&output_of);
    match output_of.status.code() {
        Some(0) => assert!(server.requests().iter().all(|line| !line.contains("/bucket/"))),
        _ => assert!(told.contains("bucket.localhost"), "{told}"),
    }
}

#[test]
fn each_kind_of_checksum_is_sent_and_taken() {
    for kind in ["none", "sha256", "crc64nvme"] {
        let (scratch, server) = (Scratch::new("checksum"), S3Server::start());
        let output = output(saturate(&scratch, &server, &["--object-checksum", kind]));
        assert_eq!(output.status.code(), Some(0), "{kind}: {}", text(&output));
        let marks = server.marks();
        let (hash, crc) =
            (marks.contains("x-amz-content-sha256"), marks.contains("x-amz-checksum-crc64nvme"));
        assert_eq!((hash, crc), (kind == "sha256", kind == "crc64nvme"), "{marks:?}");
    }
}

#[test]
fn an_interrupted_sweep_leaves_nothing() {
    let (scratch, server) = (Scratch::new("interrupt"), S3Server::start());
    let child = spawn(saturate(&scratch, &server, &["--object-seconds", "60"]));
    wait_until("objects are written", || server.objects().len() > 3);
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let output = finish(child);
    assert_fails(&output, 130, &["interrupted"]);
    assert_eq!(server.objects(), []);
}

/// A small run with its storage tier in the store.
fn run(scratch: &Scratch, server: &S3Server, more: &[&str]) -> Command {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/small.yaml");
    let mut command = command(scratch, &["run", "--config", config, "--model", "tiny-1b"]);
    command.args(["--num-users", "4", "--duration", "2", "--cpu-mem-gb", "0", "--seed", "7"]);
    command.args(["--generation-mode", "none", "--arrival", "closed", "--queue-depth", "4"]);
    command.args(["--cache-dir", "s3://bucket/kv", "--storage-capacity-gb", "0.0625"]);
    command.args(["--object-endpoint", &server.endpoint(), "--output", "result.json"]);
    command.args(["--verify", "full", "--shards", "2", "--object-retries", "3"]);
    command.args(more);
    command
}

#[test]
fn a_second_signal_while_a_complete_run_deletes_its_objects_leaves_its_results() {
    let (scratch, server) = (Scratch::new("deleting"), S3Server::start());
    // Nothing is evicted, so that all deleting comes after the run, and hangs there.
    server.fault("DELETE", "/bucket/kv/", u32::MAX, Wrong::IsSlow(3_000));
    let more = ["--duration", "1", "--storage-capacity-gb", "16"];
    let child = spawn(run(&scratch, &server, &more));
    let is_deleting =
        || server.requests().iter().any(|request| request.starts_with("DELETE /bucket/kv/"));
    wait_until("it deletes its objects", is_deleting);
    assert!(scratch.file("result.json").exists(), "written before anything is deleted");
    for signal in [Signal::INT, Signal::TERM] {
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let result = scratch.json();
    assert_eq!(result.pointer("/ringfall/window/interrupted"), Some(&false.into()));
    assert!(result["requests_completed"].as_u64() > Some(0));
}

#[test]
fn a_run_keeps_its_entries_in_the_store_within_its_capacity_and_verified() {
    let (scratch, server) = (Scratch::new("tier"), S3Server::start());
    server.put("kv2/x", b"mine");
    let child = spawn(run(&scratch, &server, &[]));
    let held = |server: &S3Server| -> usize {
        let objects = server.objects();
        objects.iter().filter(|(key, _)| key.starts_with("kv/")).map(|(_, bytes)| bytes).sum()
    };
    let mut most = 0;
    wait_until("the run has evicted something", || {
        most = most.max(held(&server));
        server.requests().iter().any(|request| request.starts_with("DELETE /bucket/kv/"))
    });
    let output = ended_well(finish(child));
    // What is being written is there beside what it takes the place of.
    assert!(most > 0 && most <= 64 << 20 | 16 << 20, "{most}");
    assert_eq!(server.objects(), [("kv2/x".to_owned(), 4)]);
    let result = scratch.json();
    let ours = &result["ringfall"];
    assert_eq!(ours["verify"]["blocks_bad"], 0);
    assert!(ours["verify"]["blocks_checked"].as_u64().unwrap() > 0);
    let objects = &ours["objects"];
    assert!(objects["received_bytes"].as_u64().unwrap() > 0, "{objects:#}");
    assert!(objects["sent_bytes"].as_u64().unwrap() > 0);
    assert_eq!(objects["failures"], 0);
    // What only a drive's kernel counters know is unknown, and not 0.
    assert!(ours["device"]["kernel"].is_null(), "{:#}", ours["device"]);
    assert_eq!(ours["machine"]["cache_dir"], "s3://bucket/kv");
    assert_no_secret(&scratch, &text(&output));
}

#[test]
fn a_run_answers_the_faults_of_its_store() {
    for (method, wrong, counter) in [
        ("PUT", Wrong::Busy, "busy"),
        ("PUT", Wrong::CutsRequest, "cut"),
        ("GET", Wrong::CutsAnswer, "cut"),
    ] {
        let (scratch, server) = (Scratch::new("answers"), S3Server::start());
        server.fault(method, OBJECTS_OF_A_RUN, 3, wrong);
        let output = output(run(&scratch, &server, &[]));
        assert_eq!(output.status.code(), Some(0), "{wrong:?}: {}", text(&output));
        let result = scratch.json();
        let objects = &result["ringfall"]["objects"];
        assert!(objects["retries"][counter].as_u64().unwrap() >= 1, "{objects:#}");
        assert_eq!(result["ringfall"]["verify"]["blocks_bad"], 0);
        assert_eq!(server.objects(), []);
    }
}

#[test]
fn a_run_whose_store_changes_or_refuses_data_fails_and_says_so() {
    for (method, wrong, word) in
        [("GET", Wrong::Corrupts, "corrupt"), ("PUT", Wrong::Expired, "expired")]
    {
        let (scratch, server) = (Scratch::new("fails"), S3Server::start());
        server.faults(Fault { method, path: OBJECTS_OF_A_RUN, after: 4, times: u32::MAX, wrong });
        let output = output(run(&scratch, &server, &[]));
        assert_fails(&output, 1, &[word]);
        assert_no_secret(&scratch, &text(&output));
        assert_eq!(server.objects(), []);
    }
}

#[test]
fn a_run_refuses_a_place_that_is_not_its_own_or_settings_that_mean_nothing_there() {
    let (scratch, server) = (Scratch::new("refuses"), S3Server::start());
    server.put("kv/old", b"old");
    assert_fails(&output(run(&scratch, &server, &[])), 2, &["not empty", "kv/ringfall"]);
    assert_eq!(server.objects().len(), 1);
    for (more, words) in [
        (&["--storage-capacity-gb", "0"][..], &["--storage-capacity-gb", "no size of its own"][..]),
        (&["--precondition"], &["--precondition works with a drive"]),
        (&["--cache-dir", "s3://bucket/a,/tmp/b"], &["name it alone"]),
        (&["--cache-dir", "s4://bucket/a"], &["s4:// is not known"]),
        (&["--object-endpoint", "localhost"], &["--object-endpoint"]),
    ] {
        assert_fails(&output(run(&scratch, &server, more)), 2, words);
    }
    let mut on_a_drive = command(&scratch, &["run", "--object-retries", "3", "--cache-dir", "kv"]);
    on_a_drive.args(["--duration", "1"]);
    assert_fails(&output(on_a_drive), 2, &["--object-retries has no effect"]);
    let mut no_bucket = run(&scratch, &server, &["--cache-dir", "s3://other/kv"]);
    no_bucket.env("RUST_BACKTRACE", "0");
    assert_fails(&output(no_bucket), 1, &["no such bucket"]);
}

/// The store as the library has it, without credentials, which are the process's.
fn opened(server: &S3Server) -> Objects {
    server.open_to_all();
    let Ok(Place::Objects(url)) = Place::parse("s3://bucket/ckpt") else { unreachable!() };
    let endpoints = vec![server.endpoint()];
    let options = ObjectOptions { endpoints, anonymous: true, retries: 3, ..Default::default() };
    Objects::open(&url, &options, &mut || true).unwrap().0
}

const PART_BYTES: usize = 5 << 20;

/// Sends three parts, the last one short, all at once.
fn send(upload: &Arc<Upload>) -> Result<(), ObjectError> {
    let (tell, told) = channel();
    for (index, length) in [PART_BYTES, PART_BYTES, 4096].into_iter().enumerate() {
        let (tell, part) = (tell.clone(), Bytes::from(vec![index as u8 + 1; length]));
        upload.start_part(index, part, move |outcome| tell.send(outcome).unwrap());
    }
    drop(tell);
    told.iter().collect()
}

#[test]
fn an_upload_in_parts_answers_faults_and_is_whole_or_not_there() {
    for (method, path, wrong) in [
        ("POST", "uploads", Wrong::Busy),
        ("PUT", "partNumber=2", Wrong::Busy),
        ("PUT", "partNumber=1", Wrong::CutsRequest),
        ("PUT", "partNumber=3", Wrong::Checksum),
        ("POST", "uploadId", Wrong::Fails),
        ("POST", "uploadId", Wrong::CompletesInSilence),
    ] {
        let server = S3Server::start();
        let objects = opened(&server);
        server.fault(method, path, 2, wrong);
        let upload = Arc::new(objects.upload("weights").unwrap());
        send(&upload).unwrap();
        assert_eq!(server.object("ckpt/weights"), None, "{wrong:?}");
        upload.complete().unwrap();
        let stored = server.object("ckpt/weights").unwrap();
        assert_eq!(stored.len(), 2 * PART_BYTES + 4096, "{wrong:?}");
        assert_eq!((stored[0], stored[PART_BYTES], stored[2 * PART_BYTES]), (1, 2, 3));
        assert_eq!(server.open_uploads(), 0, "{wrong:?}");
        assert!(objects.counts().retries.total() >= 1, "{wrong:?}");
    }
}

#[test]
fn a_part_that_the_server_loses_is_told_and_nothing_is_left() {
    for (wrong, is_told) in [(Wrong::LosesPart, true), (Wrong::LosesPartInSilence, false)] {
        let server = S3Server::start();
        let objects = opened(&server);
        let upload = Arc::new(objects.upload("weights").unwrap());
        send(&upload).unwrap();
        server.fault("POST", "uploadId", 1, wrong);
        let error = upload.complete().unwrap_err();
        let wanted_bytes = (2 * PART_BYTES + 4096) as u64;
        let found_bytes = wanted_bytes - 4096;
        match is_told {
            true => assert!(matches!(error.cause, Cause::PartLost { .. }), "{error}"),
            false => assert_eq!(error.cause, Cause::Length { found_bytes, wanted_bytes }),
        }
        upload.abort().unwrap();
        assert_eq!((server.open_uploads(), server.objects()), (0, Vec::new()));
    }
}

#[test]
fn a_long_list_is_read_page_by_page() {
    let server = S3Server::with_page(3);
    for index in 0..10 {
        server.put(&format!("ckpt/{index:02}"), b"x");
    }
    server.put("ckpt2/x", b"y");
    let objects = opened(&server);
    let found = objects.list(usize::MAX).unwrap();
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|(name, bytes)| name.len() == 2 && *bytes == 1), "{found:?}");
    assert_eq!(objects.list(4).unwrap().len(), 4);
}
