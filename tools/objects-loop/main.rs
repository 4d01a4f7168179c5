//! What ringfall's requests to an object store are held against: a loop over the crate
//! `object_store` as it comes, with its own connections, and the server that both talk to.
//!
//!   objects-loop serve
//!   objects-loop put|get ENDPOINT OBJECT_BYTES OBJECTS IN_FLIGHT sha256|none
//!
//! `serve` prints its address, keeps everything in memory, and ends with its standard input.
//! `put` makes other content for each object, as ringfall does, and sends it; `get` reads the
//! objects back. Both print bytes a second.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt, PutPayload};

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/support/s3.rs"]
mod s3;

/// As many as ringfall has for requests.
const THREADS: usize = 2;
const USAGE: &str = "usage: objects-loop serve | put|get ENDPOINT OBJECT_BYTES OBJECTS IN_FLIGHT \
                     sha256|none";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => serve(),
        [verb @ ("put" | "get"), endpoint, bytes, objects, in_flight, checksum] => {
            let number = |text: &str| text.parse().expect(USAGE);
            let load = Load {
                is_put: verb == "put",
                object_bytes: number(bytes),
                objects: number(objects),
                in_flight: number(in_flight),
            };
            println!("{}", run(endpoint, load, checksum == "none"));
        }
        _ => {
            eprintln!("{USAGE}");
            std::process::exit(2);
        }
    }
}

fn serve() {
    let server = s3::S3Server::start();
    println!("{}", server.endpoint());
    let mut line = String::new();
    let _ended = std::io::stdin().read_line(&mut line);
}

#[derive(Clone, Copy)]
struct Load {
    is_put: bool,
    object_bytes: usize,
    objects: usize,
    in_flight: usize,
}

/// Bytes a second.
fn run(endpoint: &str, load: Load, is_unsigned: bool) -> f64 {
    rustls::crypto::ring::default_provider().install_default().expect("it is the first");
    let store = AmazonS3Builder::new()
        .with_bucket_name(s3::BUCKET)
        .with_region("us-east-1")
        .with_endpoint(endpoint)
        .with_access_key_id(s3::ACCESS_KEY)
        .with_secret_access_key(s3::SECRET)
        .with_unsigned_payload(is_unsigned)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build()
        .expect("the settings are complete");
    let store: Arc<dyn ObjectStore> = Arc::new(store);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .expect("threads can be started");
    let began = Instant::now();
    runtime.block_on(async {
        let requests = (0..load.objects).map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(one(store, load, number))
        });
        // Made, and so begun, when there is room for one more.
        let done = futures_util::stream::iter(requests).buffer_unordered(load.in_flight);
        done.for_each(|done| async { done.expect("a request succeeds") }).await;
    });
    (load.object_bytes * load.objects) as f64 / began.elapsed().as_secs_f64()
}

async fn one(store: Arc<dyn ObjectStore>, load: Load, number: usize) {
    let path = Path::from(format!("loop/{number}"));
    if load.is_put {
        let payload = PutPayload::from_bytes(fresh(load.object_bytes, number));
        store.put(&path, payload).await.expect("it is stored");
    } else {
        let wanted = 0..load.object_bytes as u64;
        let found = store.get_range(&path, wanted).await.expect("it is read");
        assert_eq!(found.len(), load.object_bytes);
    }
}

/// Content of that number, which no other has: eight generators side by side (Marsaglia,
/// "Xorshift RNGs", 2003), so that the compiler makes vector code of them.
fn fresh(bytes: usize, number: usize) -> bytes::Bytes {
    let mut states = [1_u64, 2, 3, 4, 5, 6, 7, 8];
    for state in &mut states {
        *state = (*state + 8 * number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    let mut content = vec![0; bytes];
    for words in content.chunks_exact_mut(64) {
        for (word, state) in words.chunks_exact_mut(8).zip(&mut states) {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
    }
    content.into()
}
