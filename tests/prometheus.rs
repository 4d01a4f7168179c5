//! Runs that are watched: what scrapers get adds up, and none of them changes the run.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Scratch, assert_fails, finish, skipped, text, wait_until};

/// Address of the metrics, as the run prints it. Nobody reads its standard output any more.
pub fn address_of(child: &mut Child) -> String {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut addresses = lines.filter_map(|line| {
        let (_, rest) = line.split_once("metrics at http://")?;
        Some(rest.strip_suffix("/metrics")?.to_owned())
    });
    addresses.next().expect("the run says where its metrics are")
}

/// The whole response to those bytes. On a machine whose cores are busy the test may be too slow
/// for the server: then it asks again.
pub fn ask(address: &str, bytes: &[u8]) -> String {
    let once = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(bytes)?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    };
    let mut responses = (0..5).filter_map(|_| once().ok());
    responses.find(|response| !response.is_empty()).expect("the server answers")
}

/// The metrics, in the format that the header asks for.
fn scrape(address: &str, accept: &str) -> String {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n");
    let response = ask(address, request.as_bytes());
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    body.to_owned()
}

/// The samples of a text, by name and labels.
pub fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

pub fn number(document: &Value, path: &str) -> f64 {
    document.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path}"))
}

/// Holds the last figures of a run against its results.
fn assert_agrees(figures: &BTreeMap<String, f64>, json: &Value) {
    for (name, path) in [
        ("ringfall_tier_read_bytes_total{tier=\"storage\"}", "/ringfall/io/read/bytes"),
        ("ringfall_tier_written_bytes_total{tier=\"storage\"}", "/ringfall/io/write/bytes"),
        ("ringfall_storage_read_ios_total", "/ringfall/io/read/count"),
        ("ringfall_storage_write_ios_total", "/ringfall/io/write/count"),
        ("ringfall_requests_finished_total{outcome=\"completed\"}", "/requests_completed"),
        ("ringfall_generated_tokens_total", "/total_tokens_generated"),
        ("ringfall_cache_reads_total{result=\"hit\"}", "/summary/cache_stats/cache_hits"),
        ("ringfall_cache_reads_total{result=\"miss\"}", "/summary/cache_stats/cache_misses"),
    ] {
        assert_eq!(figures[name], number(json, path), "{name}");
    }
    assert!(figures["ringfall_storage_write_ios_total"] > 0.0, "{figures:?}");
    assert_eq!(figures["ringfall_phase{ringfall_phase=\"report\"}"], 1.0);
    assert_eq!(figures["ringfall_io_errors_total"], 0.0);
}

#[test]
fn a_run_that_is_scraped_and_molested_ends_as_one_that_is_not() {
    let scratch = Scratch::new("scraped");
    let more = ["--metrics-listen", "127.0.0.1:0", "--metrics-file", "m.prom", "--duration", "10"];
    let mut child = scratch.start(&more);
    let address = address_of(&mut child);
    let measures = "ringfall_phase{ringfall_phase=\"measure\"} 1";
    wait_until("it measures", || scrape(&address, "*/*").contains(measures));
    // Who says nothing, who says only half of it, who leaves at once.
    let silent: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(&address).unwrap()).collect();
    silent[0].try_clone().unwrap().write_all(b"GET /metrics HTTP/1.1\r\nHos").unwrap();
    for _ in 0..50 {
        drop(TcpStream::connect(&address).unwrap());
    }
    let before = samples(&scrape(&address, "text/plain"));
    for (bytes, status) in [
        (&b"\x16\x03\x01\x00\xff\r\n\r\n"[..], 400),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", 405),
        (&[b'a'; 100_000], 431),
    ] {
        let response = ask(&address, bytes);
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{response}");
    }
    let open = scrape(&address, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(open.ends_with("\n# EOF\n") && open.contains("\n# UNIT "), "{open}");
    let identity =
        format!("ringfall_build_info{{version=\"{}\",seed=\"7\"", env!("CARGO_PKG_VERSION"));
    assert!(open.contains(&identity), "{open}");
    for (name, value) in samples(&open) {
        let is_summed = name.split('{').next().is_some_and(|name| name.ends_with("_total"));
        assert!(!is_summed || value >= before[&name], "{name}: {value} after {}", before[&name]);
    }
    let output = finish(child);
    drop(silent);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(TcpStream::connect(&address).is_err(), "nobody listens any more");
    let last = std::fs::read_to_string(scratch.file("m.prom")).unwrap();
    assert_agrees(&samples(&last), &scratch.json());
    assert_eq!(scratch.leftovers(), ["m.prom"]);
    check_with_promtool(&last);
}

/// Prometheus's own check, where it is installed.
pub fn check_with_promtool(metrics: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    promtool.stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = promtool.spawn() else {
        return skipped("promtool check metrics", "promtool is not installed");
    };
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}{metrics}", text(&output));
}

/// Both are found before anything is opened.
#[test]
fn an_address_or_a_file_that_can_t_be_had_ends_the_run_before_it_begins() {
    let scratch = Scratch::new("unwatchable");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    std::fs::create_dir(scratch.file("directory")).unwrap();
    for (more, status, words) in [
        (["--metrics-listen", &address], 1, [&address, "Address already in use", "another port"]),
        (
            ["--metrics-listen", "node7:9464"],
            2,
            ["--metrics-listen", "node7:9464", "not an address"],
        ),
        (["--metrics-file", "directory"], 1, ["directory", "is a directory", "--metrics-file"]),
        (["--metrics-file", "result.json"], 2, ["--metrics-file", "same file", "result.json"]),
    ] {
        assert_fails(&scratch.run(&more), status, &words);
        assert!(!scratch.store().exists(), "{more:?}");
    }
}
