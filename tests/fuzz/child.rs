//! The process that reads: inputs come through its standard input, what became of each goes back.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::PathBuf;
use std::sync::Mutex;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::readers::reader;

/// Environment variable: which reader this process is.
pub const READER: &str = "RINGFALL_FUZZ_CHILD";
/// Environment variable: where it may write.
pub const DIRECTORY: &str = "RINGFALL_FUZZ_DIRECTORY";
/// Memory that reading may take beyond what the process has at its beginning.
const MEMORY_BYTES_MAX: u64 = 1 << 30;

/// The last panic.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// Reads until no input comes any more.
pub fn serve(name: &str) {
    let reader = reader(name).expect("the parent names a reader that there is");
    let directory = PathBuf::from(std::env::var_os(DIRECTORY).expect("the parent gives it"));
    // The parent's socket, both ways.
    let mut parent = File::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    set_hook(Box::new(|panic| {
        *PANIC.lock().unwrap() = panic.to_string();
    }));
    limit_memory();
    let mut input = Vec::new();
    while let Some(length) = length(&mut parent) {
        input.resize(length, 0);
        parent.read_exact(&mut input).unwrap();
        let outcome = catch_unwind(AssertUnwindSafe(|| reader.read(&directory, &input)));
        let (kind, text) = match outcome {
            Ok(text) => (b'.', text),
            Err(_) => (b'!', PANIC.lock().unwrap().clone()),
        };
        let mut answer = vec![kind];
        answer.extend((text.len() as u32).to_le_bytes());
        answer.extend(text.bytes());
        parent.write_all(&answer).unwrap();
    }
}

/// The next input's length; `None`: there is none.
fn length(parent: &mut File) -> Option<usize> {
    let mut bytes = [0; 4];
    parent.read_exact(&mut bytes).ok()?;
    Some(u32::from_le_bytes(bytes) as usize)
}

fn limit_memory() {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let limit = pages * rustix::param::page_size() as u64 + MEMORY_BYTES_MAX;
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: Some(limit), maximum }).unwrap();
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
}
