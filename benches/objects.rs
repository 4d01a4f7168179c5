//! Requests to an object store beside a client that does nothing but HTTP and the checksum of what
//! it sends: no signature, no retries, a blocking thread for each request in flight. Both talk to
//! the tests' S3 server, in memory, in this process. Prints GiB/s, and the ratio of the two, run in
//! turn.
//!
//! `cargo bench --bench objects` measures; under `cargo test` each is done once with a few small
//! objects.

#![expect(clippy::unwrap_used, reason = "a bench that can't go on fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

use ringfall_config::object_store::{Checksum, ObjectOptions, Place};
use ringfall_running::objects::{Bytes, Objects};

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/support/s3.rs"]
mod s3;

use s3::{ACCESS_KEY, BUCKET, S3Server, SECRET};

/// Size, number and concurrency of the objects moved.
#[derive(Clone, Copy)]
struct Load {
    object_bytes: usize,
    objects: usize,
    in_flight: usize,
}

const FULL: Load = Load { object_bytes: 8 << 20, objects: 128, in_flight: 8 };
const SMOKE: Load = Load { object_bytes: 64 << 10, objects: 8, in_flight: 2 };
const PAIRS: usize = 7;

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let (load, pairs) = if measuring { (FULL, PAIRS) } else { (SMOKE, 1) };
    let server = S3Server::start();
    println!(
        "{} objects of {} KiB, {} in flight, {pairs} pairs",
        load.objects,
        load.object_bytes >> 10,
        load.in_flight
    );
    for checksum in [Checksum::None, Checksum::Crc64nvme, Checksum::Sha256] {
        let objects = opened(&server, checksum, load);
        let mut ratios = [Vec::new(), Vec::new()];
        for _ in 0..pairs {
            for (ratios, is_put) in ratios.iter_mut().zip([true, false]) {
                let plain = rate(load, || plain(&server, checksum, load, is_put));
                let ours = rate(load, || ours(&objects, load, is_put));
                ratios.push(ours / plain);
                println!(
                    "{checksum:?} {}: plain {plain:.3} GiB/s, ringfall {ours:.3} GiB/s",
                    if is_put { "PUT" } else { "GET" }
                );
            }
        }
        for (ratios, name) in ratios.iter_mut().zip(["PUT", "GET"]) {
            ratios.sort_by(f64::total_cmp);
            let (least, median) = (ratios[0], ratios[ratios.len() / 2]);
            let most = ratios[ratios.len() - 1];
            println!("{checksum:?} {name}: ratio {median:.2} ({least:.2}..{most:.2})");
        }
    }
}

/// GiB/s.
fn rate(load: Load, work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    (load.objects * load.object_bytes) as f64 / began.elapsed().as_secs_f64() / (1u64 << 30) as f64
}

fn opened(server: &S3Server, checksum: Checksum, load: Load) -> Objects {
    // SAFETY: no other thread of this process reads the environment now: the server's are waiting
    // for connections.
    unsafe {
        std::env::set_var("AWS_ACCESS_KEY_ID", ACCESS_KEY);
        std::env::set_var("AWS_SECRET_ACCESS_KEY", SECRET);
    }
    let Ok(Place::Objects(url)) = Place::parse("s3://bucket/bench") else { unreachable!() };
    let options = ObjectOptions {
        endpoints: vec![server.endpoint()],
        concurrency: load.in_flight as u32,
        checksum,
        ..ObjectOptions::default()
    };
    Objects::open(&url, &options, &mut || true).unwrap().0
}

fn ours(objects: &Objects, load: Load, is_put: bool) {
    let (tell, told) = channel();
    let content = Bytes::from(vec![7; load.object_bytes]);
    let mut buffers = vec![vec![0; load.object_bytes]; load.in_flight];
    let mut answered = 0;
    for begun in 0..load.objects + load.in_flight {
        if begun >= load.in_flight {
            let (buffer, outcome): (Option<Vec<u8>>, Result<(), _>) = told.recv().unwrap();
            outcome.unwrap();
            buffers.extend(buffer);
            answered += 1;
        }
        if begun < load.objects {
            let (tell, name) = (tell.clone(), begun.to_string());
            if is_put {
                objects.start_put(&name, content.clone(), move |outcome| {
                    tell.send((None, outcome)).unwrap();
                });
            } else {
                let buffer = buffers.pop().unwrap();
                let done = move |buffer, outcome| tell.send((Some(buffer), outcome)).unwrap();
                objects.start_get(&name, 0, load.object_bytes, buffer, done);
            }
        }
    }
    assert_eq!(answered, load.objects);
}

fn plain(server: &S3Server, checksum: Checksum, load: Load, is_put: bool) {
    let next = AtomicUsize::new(0);
    let host = server.endpoint().replace("http://", "");
    std::thread::scope(|scope| {
        for _ in 0..load.in_flight {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(&host).unwrap();
                stream.set_nodelay(true).unwrap();
                let mut reader = BufReader::with_capacity(256 << 10, stream.try_clone().unwrap());
                let mut buffer = vec![7; load.object_bytes];
                loop {
                    let object = next.fetch_add(1, Ordering::Relaxed);
                    if object >= load.objects {
                        break;
                    }
                    let verb = if is_put { "PUT" } else { "GET" };
                    let length = if is_put { load.object_bytes } else { 0 };
                    let mark = mark(checksum, &buffer[..length]);
                    let head = format!(
                        "{verb} /{BUCKET}/bench/{object} HTTP/1.1\r\nHost: {host}\r\n\
                         Authorization: {ACCESS_KEY}\r\n{mark}\
                         Content-Length: {length}\r\n\r\n"
                    );
                    stream.write_all(head.as_bytes()).unwrap();
                    stream.write_all(&buffer[..length]).unwrap();
                    let answered = answer_bytes(&mut reader);
                    reader.read_exact(&mut buffer[..answered]).unwrap();
                }
            });
        }
    });
}

/// Header with the checksum that protects a body.
fn mark(checksum: Checksum, body: &[u8]) -> String {
    match checksum {
        Checksum::None => String::new(),
        Checksum::Crc64nvme => {
            let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
            digest.update(body);
            format!("x-amz-checksum-crc64nvme: {:016x}\r\n", digest.finalize())
        }
        Checksum::Sha256 => {
            let digest = ring::digest::digest(&ring::digest::SHA256, body);
            let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            format!("x-amz-content-sha256: {hex}\r\n")
        }
    }
}

/// Reads the head of an answer: the length of its body.
fn answer_bytes(reader: &mut impl BufRead) -> usize {
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            return length;
        }
        if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
    }
}
