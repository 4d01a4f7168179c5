//! From what was typed to what is written and how: the job's shards, and threads and memory that
//! fit this machine.

use std::fmt::Write as _;

use anyhow::Result;
use ringfall_config::InputError;
use ringfall_config::nearest::nearest;
use ringfall_core::units::{BLOCK_BYTES, GIB, KIB, MIB, gib};
use ringfall_host::{Room, human};
use ringfall_running::checkpoint::{
    FORMAT, FORMAT_VERSION, Job, MODELS, Manifest, StreamSettings, even_shards,
};

use crate::cli::{JobArgs, StreamArgs};

/// Length of a chunk when none is given, bytes.
const CHUNK_BYTES: u64 = 32 * MIB;
/// Shortest chunk that little memory leads to, bytes.
const CHUNK_BYTES_MIN: u64 = 256 * KIB;
/// Size of a checkpoint that nobody has given one, GiB.
const SIZE_GIB: f64 = 1.0;
/// Threads when their number is not given: one makes content faster than most drives write it, and
/// the second does while the first waits for a file to be durable.
const THREADS: u32 = 2;
/// Part of the memory that is left that chunks may take: half.
const MEMORY_PART: u64 = 2;

/// The models, with the size of their checkpoints.
pub(super) fn models_page() -> String {
    let mut page = format!(
        "{:<16} {:>16} {:>14} {:>14}\n",
        "model", "parameters", "bf16 + Adam", "weights only"
    );
    for model in MODELS {
        let size = |bytes: u64| format!("{:.0} GiB", gib(model.parameters * bytes));
        let _infallible = writeln!(
            page,
            "{:<16} {:>16} {:>14} {:>14}",
            model.name,
            model.parameters,
            size(14),
            size(2)
        );
    }
    page
}

/// Manifest of the checkpoint to write.
pub(super) fn manifest(job: &JobArgs, chunk_bytes: u64) -> Result<Manifest> {
    let shard_bytes = match parameters(job)? {
        Some(parameters) => shards_of(job, parameters)?,
        None => {
            let bytes = job.size_gib.unwrap_or(SIZE_GIB) * GIB as f64;
            even_shards((bytes as u64).max(BLOCK_BYTES), job.ranks)
        }
    };
    let manifest = Manifest {
        format: FORMAT.to_owned(),
        version: FORMAT_VERSION,
        seed: job.seed,
        step: 1,
        shard_bytes,
        shared_file: job.shared_file,
        chunk_bytes,
        dedupe_ratio: job.content.shape.dedupe_ratio,
        compress_ratio: job.content.shape.compress_ratio,
    };
    manifest.check().map_err(|why| {
        InputError::new(format!("such a checkpoint is not possible: {why}; ask for less"))
    })?;
    Ok(manifest)
}

fn parameters(job: &JobArgs) -> Result<Option<u64>, InputError> {
    let Some(name) = &job.model else { return Ok(job.parameters) };
    if let Some(model) = MODELS.iter().find(|model| model.name == name) {
        return Ok(Some(model.parameters));
    }
    let names = MODELS.iter().map(|model| model.name);
    let meant = nearest(name, names).map_or(String::new(), |near| format!(" did you mean {near}?"));
    Err(InputError::new(format!(
        "--model {name:?} is not a known model;{meant} `--model list` shows all, and --parameters \
         takes the size of any other"
    )))
}

fn shards_of(job: &JobArgs, parameters: u64) -> Result<Vec<u64>, InputError> {
    let model_parallel = job.tensor_parallel.checked_mul(job.pipeline_parallel);
    let model_parallel = model_parallel.filter(|among| job.ranks.is_multiple_of(*among));
    let Some(model_parallel) = model_parallel else {
        refuse!(
            "--ranks {} can't be divided into groups of --tensor-parallel {} x --pipeline-parallel \
             {}: give a multiple of their product",
            job.ranks,
            job.tensor_parallel,
            job.pipeline_parallel
        );
    };
    let &JobArgs { precision, optimizer, ranks, zero, .. } = job;
    Ok(Job { parameters, precision, optimizer, ranks, model_parallel, zero }.shard_bytes())
}

/// Threads and memory. A chunk whose length was not given is shorter where four of 32 MiB would
/// take more than half of the memory that is left.
pub(super) fn stream_settings(stream: &StreamArgs) -> Result<StreamSettings> {
    let room = Room::look();
    let memory = room.memory.as_ref().map_or(u64::MAX, |memory| memory.bytes / MEMORY_PART);
    let cores = room.cores.min(THREADS);
    let threads = stream.threads.unwrap_or(cores.min(stream.buffers)).max(1);
    let needed = |chunk_bytes: u64| u64::from(stream.buffers.max(threads)) * chunk_bytes;
    let chunk_bytes = match stream.chunk_mib {
        Some(mib) => mib * MIB,
        None => fitting_chunk(memory, needed),
    };
    if needed(chunk_bytes) > memory {
        let left = room.memory.map_or(String::new(), |memory| {
            format!("{} are left ({})", human(memory.bytes), memory.source)
        });
        refuse!(
            "{} chunks of {} need more than half of the memory: {left}; lower --buffers or \
             --chunk-mib",
            stream.buffers.max(threads),
            human(chunk_bytes)
        );
    }
    Ok(StreamSettings { threads, buffers: stream.buffers, chunk_bytes })
}

/// The longest chunk, of 32 MiB and its halves, that memory has room for.
fn fitting_chunk(memory_bytes: u64, needed: impl Fn(u64) -> u64) -> u64 {
    let mut chunk_bytes = CHUNK_BYTES;
    while chunk_bytes > CHUNK_BYTES_MIN && needed(chunk_bytes) > memory_bytes {
        chunk_bytes /= 2;
    }
    chunk_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_shorter_where_memory_is_little() {
        let four = |chunk_bytes| 4 * chunk_bytes;
        assert_eq!(fitting_chunk(u64::MAX, four), 32 * MIB);
        assert_eq!(fitting_chunk(128 * MIB, four), 32 * MIB);
        assert_eq!(fitting_chunk(30 * MIB, four), 4 * MIB);
        assert_eq!(fitting_chunk(0, four), CHUNK_BYTES_MIN);
    }
}
