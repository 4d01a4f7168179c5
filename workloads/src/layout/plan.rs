//! A layout for one model: objects of a prefix with their names and sizes, and the operations that
//! store and fetch them.

use std::sync::Arc;

use super::engine::EngineLayout;
use super::entry::OURS_IN_FLIGHT;
use super::names::{chunk_digest, digest64, lmcache_rank, parent, vllm_path, vllm_root};
use super::operations::{EngineRequest, EngineWorkers, FileOperation, ObjectScript, WorkerTile};
use super::options::{LayoutOption, LayoutOptions};
use crate::error::Error;
use crate::model::ModelSpec;

/// Unit of O_DIRECT, to which vLLM and LMCache's slots are padded, bytes.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Offset of the first slot of LMCache's `raw_block`: two containers of its index come before.
const SLOTS_AT_BYTES: u64 = 256 << 20;
/// Header of a `.npy` file, bytes.
const NPY_HEADER_BYTES: u64 = 128;
/// Most bytes of values that Mooncake puts into a bucket, and its largest number of objects.
const BUCKET_BYTES: u64 = 268_435_456;
const BUCKET_OBJECTS_MAX: u64 = 500;
/// Entry of a bucket's metadata beside the key: offsets and sizes, about so many bytes.
const BUCKET_ENTRY_BYTES: u64 = 16;
/// Number of Mooncake's first bucket: a time in seconds, shifted by 12 bits.
const FIRST_BUCKET: u64 = 1_760_000_000 << 12;
/// A time in milliseconds, part of MLPerf's keys.
pub(super) const CONVERSATION_MS: u64 = 1_760_000_000_000;

/// Object of an engine: a file, or a part of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KvObject {
    /// Path of its file below the layout's directory.
    pub path: Arc<str>,
    /// Place in that file, bytes.
    pub offset_bytes: u64,
    /// Size with headers and padding, bytes.
    pub bytes: u64,
    /// Tensor-parallel rank that it belongs to; 0 where it holds all ranks.
    pub rank: u64,
}

/// Direction of work on a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LayoutWork {
    /// Storing a prefix that was computed.
    Store,
    /// Looking up a prefix and loading it.
    Load,
}

/// A layout for prefixes of one length of one model.
#[derive(Clone, Debug)]
pub struct LayoutPlan {
    options: LayoutOptions,
    model: String,
    tensor_parallel: u64,
    tokens: u64,
    /// KV bytes of a token, of all ranks together; of MLA those that each rank has.
    token_bytes: u64,
    /// Whether each rank has all of a token's bytes (MLA).
    is_replicated: bool,
    /// Workers in place of each: 1, but where somebody asks what more would bring.
    workers_times: u64,
}

impl LayoutPlan {
    /// Plans prefixes of so many tokens of the model of that name.
    ///
    /// # Errors
    /// The ranks can't share the model's KV heads, or a prefix is shorter than an object.
    pub fn new(
        options: LayoutOptions,
        model: &str,
        spec: &ModelSpec,
        tensor_parallel: u64,
        tokens: u64,
    ) -> Result<LayoutPlan, Error> {
        let token_bytes = spec.bytes_per_token()?;
        let is_replicated = spec.mla.is_some();
        let name = options.layout().name();
        let is_divided =
            !is_replicated || matches!(options.layout(), EngineLayout::Nixl | EngineLayout::Mlperf);
        let heads = if is_replicated { token_bytes } else { spec.kv_heads };
        if tensor_parallel == 0 || (is_divided && !heads.is_multiple_of(tensor_parallel)) {
            return Err(Error::new(format!(
                "{name} can't divide the KV cache of {model} among {tensor_parallel} ranks: give a \
                 divisor of its {}",
                match is_replicated {
                    true => format!("{token_bytes} bytes a token"),
                    false => format!("{heads} KV heads"),
                }
            )));
        }
        let model = model.to_owned();
        let plan = LayoutPlan {
            options,
            model,
            tensor_parallel,
            tokens,
            token_bytes,
            is_replicated,
            workers_times: 1,
        };
        if plan.units() == 0 {
            return Err(Error::new(format!(
                "a prefix of {tokens} tokens is shorter than a chunk of {name}, {} tokens",
                plan.chunk_tokens()
            )));
        }
        Ok(plan)
    }

    /// The layout that is planned.
    pub fn layout(&self) -> EngineLayout {
        self.options.layout()
    }

    /// Options in effect, the engine's own where none was given.
    pub fn options(&self) -> &LayoutOptions {
        &self.options
    }

    /// The same without `O_DIRECT`, for a file system that takes none.
    #[must_use]
    pub fn through_the_page_cache(mut self) -> LayoutPlan {
        self.options.forgo_direct();
        self
    }

    /// The same with twice the workers, the engine's and ours; its options stay.
    #[must_use]
    pub fn with_twice_the_workers(mut self) -> LayoutPlan {
        self.workers_times *= 2;
        self
    }

    /// Objects in flight where the engine's own limits are left aside.
    pub fn ours_in_flight(&self) -> u64 {
        OURS_IN_FLIGHT * self.workers_times
    }

    fn chunk_tokens(&self) -> u64 {
        match self.options.value(LayoutOption::ChunkTokens) {
            Some(tokens) => tokens,
            None => self.tokens,
        }
    }

    /// Whether the last chunk may hold fewer tokens than the others; else it is not stored.
    pub(super) fn keeps_tail(&self) -> bool {
        matches!(self.layout(), EngineLayout::Llmd | EngineLayout::Nixl)
            || self.options.is_on(LayoutOption::Tail)
    }

    /// Number of chunks of a prefix.
    fn units(&self) -> u64 {
        match self.keeps_tail() {
            true => self.tokens.div_ceil(self.chunk_tokens()),
            false => self.tokens / self.chunk_tokens(),
        }
    }

    /// Number of tokens of a chunk. A block of NIXL is whole whatever is in it.
    fn unit_tokens(&self, unit: u64) -> u64 {
        match self.layout() {
            EngineLayout::Nixl => self.chunk_tokens(),
            _ => self.chunk_tokens().min(self.tokens - unit * self.chunk_tokens()),
        }
    }

    /// Number of ranks that have objects of their own.
    pub(super) fn writers(&self) -> u64 {
        match self.layout() {
            EngineLayout::Vllm | EngineLayout::Mlperf => 1,
            EngineLayout::Llmd | EngineLayout::Nixl => self.tensor_parallel,
            _ if self.is_replicated => 1,
            _ => self.tensor_parallel,
        }
    }

    /// Number of objects that a rank has of a chunk: K and V apart.
    fn parts(&self) -> u64 {
        let is_apart = self.layout() == EngineLayout::Mooncake && !self.is_replicated;
        if is_apart { 2 } else { 1 }
    }

    /// Number of objects that a prefix has.
    pub fn objects_per_prefix(&self) -> u64 {
        self.units() * self.writers() * self.parts()
    }

    /// KV bytes of a token in an object of one rank.
    pub(super) fn rank_token_bytes(&self) -> u64 {
        match self.layout() {
            EngineLayout::Vllm => self.token_bytes,
            EngineLayout::Nixl | EngineLayout::Mlperf => self.token_bytes / self.tensor_parallel,
            _ if self.is_replicated => self.token_bytes,
            _ => self.token_bytes / self.tensor_parallel,
        }
    }

    /// Size of the objects of a chunk, with headers and padding, bytes.
    pub(super) fn object_bytes(&self, unit: u64) -> u64 {
        let payload_bytes = self.unit_tokens(unit) * self.rank_token_bytes() / self.parts();
        let is_padded = matches!(self.layout(), EngineLayout::Vllm | EngineLayout::LmcacheRaw);
        let unit_bytes = if is_padded { PAGE_BYTES } else { 1 };
        self.header_bytes() + payload_bytes.next_multiple_of(unit_bytes)
    }

    /// Size of what comes before the KV cache in an object, bytes.
    pub(super) fn header_bytes(&self) -> u64 {
        match self.layout() {
            EngineLayout::LmcacheRaw => PAGE_BYTES,
            EngineLayout::Mlperf => NPY_HEADER_BYTES,
            _ => 0,
        }
    }

    /// Whether objects are slots of one size, in one file or in one of each rank.
    pub fn has_slots(&self) -> bool {
        matches!(self.layout(), EngineLayout::LmcacheRaw | EngineLayout::Nixl)
    }

    pub(super) fn slot_offset(&self, slot: u64, slot_bytes: u64) -> u64 {
        let first = if self.layout() == EngineLayout::LmcacheRaw { SLOTS_AT_BYTES } else { 0 };
        first + slot * slot_bytes
    }

    /// KV bytes that a fetch of a prefix brings, each token's counted once although every rank may
    /// have its own copy; without headers, padding and a tail that is not stored.
    pub fn useful_bytes(&self) -> u64 {
        match self.layout() {
            EngineLayout::Mlperf => self.tokens * self.rank_token_bytes(),
            _ if self.keeps_tail() => self.tokens * self.token_bytes,
            _ => self.units() * self.chunk_tokens() * self.token_bytes,
        }
    }

    /// Size of all objects of a prefix, bytes.
    pub fn prefix_bytes(&self) -> u64 {
        let bytes: u64 = (0..self.units()).map(|unit| self.object_bytes(unit)).sum();
        bytes * self.writers() * self.parts()
    }

    /// Objects of a prefix, chunk by chunk. Prefixes are numbered from 0 on.
    pub fn objects(&self, prefix: u64) -> Vec<KvObject> {
        let mut objects = Vec::new();
        for unit in 0..self.units() {
            let digest = chunk_digest(prefix, unit);
            for rank in 0..self.writers() {
                for _part in 0..self.parts() {
                    let number = prefix * self.objects_per_prefix() + objects.len() as u64;
                    let path = self.path(prefix, &digest, rank, number);
                    let bytes = self.object_bytes(unit);
                    let offset_bytes = match self.layout() {
                        EngineLayout::LmcacheRaw => self.slot_offset(number, self.object_bytes(0)),
                        EngineLayout::Mooncake => {
                            let place = number % self.objects_per_bucket();
                            place * self.record_bytes() + self.key_bytes()
                        }
                        EngineLayout::Nixl => self.slot_offset(prefix * self.units() + unit, bytes),
                        _ => 0,
                    };
                    objects.push(KvObject { path: path.into(), offset_bytes, bytes, rank });
                }
            }
        }
        objects
    }

    pub(super) fn path(&self, prefix: u64, digest: &str, rank: u64, number: u64) -> String {
        let (model, ranks) = (&self.model, self.tensor_parallel);
        match self.layout() {
            EngineLayout::Lmcache => {
                let kv_rank = lmcache_rank(rank, ranks);
                format!("{}@0x{kv_rank:08x}@0@{digest}.data", model.replace('/', "-SEP-"))
            }
            EngineLayout::LmcacheRaw => "raw_block.slots".to_owned(),
            EngineLayout::Vllm | EngineLayout::Llmd => vllm_path(&vllm_root(model, rank), digest),
            EngineLayout::Hicache => {
                let model = model.replace('/', "-");
                match self.is_replicated {
                    true => format!("{digest}_{model}.bin"),
                    false => format!("{digest}_{model}_{rank}_{ranks}.bin"),
                }
            }
            EngineLayout::Mooncake => bucket_path(number / self.objects_per_bucket(), "bucket"),
            EngineLayout::Nixl => format!("nixlbench_POSIX_test_file_{rank}_0"),
            EngineLayout::Mlperf => format!("conv_{prefix}_{CONVERSATION_MS}_turn_1.npy"),
        }
    }

    /// Length of a key of Mooncake's, which stands before its value: the tenant, a NUL and
    /// `MODEL_HASH_RANK_k`.
    fn key_bytes(&self) -> u64 {
        let rank = self.writers() - 1;
        let longest = format!("default\0{}_{}_{rank}_k", self.model, chunk_digest(0, 0));
        longest.len() as u64
    }

    /// Size of a key and its value in a bucket, bytes.
    fn record_bytes(&self) -> u64 {
        self.key_bytes() + self.object_bytes(0)
    }

    fn objects_per_bucket(&self) -> u64 {
        (BUCKET_BYTES / self.object_bytes(0)).clamp(1, BUCKET_OBJECTS_MAX)
    }

    /// Whether each object has a file of its own.
    pub fn has_file_each(&self) -> bool {
        !self.has_slots() && !self.stores_buckets()
    }

    /// Whether objects of several prefixes are stored together, when they fill a bucket.
    pub fn stores_buckets(&self) -> bool {
        self.layout() == EngineLayout::Mooncake
    }

    /// Number of prefixes of which everything is on storage when so many were stored, from 0 on: a
    /// bucket that is not full waits in memory.
    pub fn whole_prefixes(&self, stored: u64) -> u64 {
        if !self.stores_buckets() {
            return stored;
        }
        let (of_prefix, of_bucket) = (self.objects_per_prefix(), self.objects_per_bucket());
        stored * of_prefix / of_bucket * of_bucket / of_prefix
    }

    /// Workers of the engine for work of that direction.
    pub fn workers(&self, work: LayoutWork) -> EngineWorkers {
        let option = match work {
            LayoutWork::Store => LayoutOption::StoreThreads,
            LayoutWork::Load => LayoutOption::LoadThreads,
        };
        let count = self.options.number(option) * self.workers_times;
        match self.layout() {
            EngineLayout::Nixl => EngineWorkers::Queue(count),
            EngineLayout::Llmd | EngineLayout::Hicache => {
                EngineWorkers::Threads(count * self.writers())
            }
            _ => EngineWorkers::Threads(count),
        }
    }

    /// Number of prefixes that the engine works on at a time.
    pub fn requests(&self) -> u64 {
        self.options.number(LayoutOption::Requests)
    }

    /// Work of that direction on a prefix.
    pub fn request(&self, work: LayoutWork, prefix: u64) -> EngineRequest {
        if (work, self.layout()) == (LayoutWork::Store, EngineLayout::Mooncake) {
            return one_tile(self.filled_buckets(prefix));
        }
        let objects = self.objects(prefix);
        if self.layout() == EngineLayout::Mooncake {
            return one_tile(loads_by_file(&objects));
        }
        let tiles = self.cut(work, &objects).into_iter().map(|objects| {
            let scripts = match work {
                LayoutWork::Store => objects.iter().map(|one| self.stored(one)).collect(),
                // Lookups first: the engines ask for all keys before they load any.
                LayoutWork::Load => {
                    let lookups = objects.iter().filter_map(|one| self.looked_up(one));
                    lookups.chain(objects.iter().map(|one| self.loaded(one))).collect()
                }
            };
            WorkerTile { scripts }
        });
        EngineRequest { tiles: tiles.collect() }
    }

    /// The objects of a prefix as the engine deals them to its workers.
    fn cut(&self, work: LayoutWork, objects: &[KvObject]) -> Vec<Vec<KvObject>> {
        let parts = match (self.layout(), self.workers(work)) {
            (EngineLayout::Lmcache, EngineWorkers::Threads(threads)) => threads,
            (EngineLayout::LmcacheRaw | EngineLayout::Vllm, _) => 1,
            (EngineLayout::Hicache, _) => {
                let of_rank = |rank| {
                    let of_it = objects.iter().filter(|object| object.rank == rank);
                    of_it.cloned().collect()
                };
                return (0..self.writers()).map(of_rank).collect();
            }
            _ => objects.len() as u64,
        };
        contiguous(objects, parts)
    }

    fn is_direct(&self, object: &KvObject) -> bool {
        // Engines open a file of another length without it, as the kernel would refuse its I/O.
        self.options.is_on(LayoutOption::Direct) && object.bytes.is_multiple_of(PAGE_BYTES)
    }

    /// Name under which an object is written before it gets its own; none where it is written to
    /// its own at once.
    pub(super) fn temporary(&self, path: &str) -> Option<Arc<str>> {
        let number = || digest64(&path.bytes().map(u64::from).collect::<Vec<u64>>());
        let name = match self.layout() {
            EngineLayout::Lmcache => Some(format!("{}.tmp", path.trim_end_matches(".data"))),
            // 63 bits, a thread's own number.
            EngineLayout::Vllm => Some(format!("{path}_{}.tmp", number() >> 1)),
            EngineLayout::Llmd => Some(format!("{path}_{}.tmp", number() >> 32)),
            // A UUID.
            EngineLayout::Hicache => {
                let (number, more) = (number(), digest64(&[number()]));
                Some(format!(".{number:016x}{more:016x}.tmp"))
            }
            _ => None,
        };
        name.map(Arc::from)
    }

    pub(super) fn stored(&self, object: &KvObject) -> ObjectScript {
        let KvObject { path, offset_bytes: offset, bytes, .. } = object;
        let (path, offset, bytes) = (Arc::clone(path), *offset, *bytes);
        let mut operations = Vec::new();
        let temporary = self.temporary(&path);
        if temporary.is_some() {
            operations.push(FileOperation::Look { path: Arc::clone(&path), ends_if_found: true });
        }
        if let Some(directory) = parent(&path) {
            operations.push(FileOperation::MakeDirectories { path: directory.into() });
        }
        operations.push(FileOperation::Create {
            path: temporary.clone().unwrap_or_else(|| Arc::clone(&path)),
            exclusive: self.layout() == EngineLayout::Vllm,
            truncate: !self.has_slots(),
            direct: self.is_direct(object),
        });
        let header_bytes = self.header_bytes();
        if header_bytes > 0 {
            operations.push(FileOperation::Write { offset, bytes: header_bytes });
        }
        let (offset, bytes) = (offset + header_bytes, bytes - header_bytes);
        operations.push(FileOperation::Write { offset, bytes });
        if self.options.is_on(LayoutOption::Fsync) {
            operations.push(FileOperation::Sync);
        }
        operations.push(FileOperation::Close);
        if let Some(from) = temporary {
            let at = match self.layout() {
                // It renames while the file is open.
                EngineLayout::Llmd => operations.len() - 1,
                _ => operations.len(),
            };
            operations.insert(at, FileOperation::Rename { from, to: path });
        }
        ObjectScript { operations }
    }

    /// Looks an object up before any is loaded; none where the engine knows by itself.
    pub(super) fn looked_up(&self, object: &KvObject) -> Option<ObjectScript> {
        let path = Arc::clone(&object.path);
        let look = FileOperation::Look { path, ends_if_found: false };
        self.layout().renames_files().then(|| ObjectScript { operations: vec![look] })
    }

    /// Loads an object.
    pub(super) fn loaded(&self, object: &KvObject) -> ObjectScript {
        let KvObject { path, offset_bytes: offset, bytes, .. } = object;
        let (path, offset, bytes) = (Arc::clone(path), *offset, *bytes);
        let open =
            FileOperation::OpenToRead { path: Arc::clone(&path), direct: self.is_direct(object) };
        let header_bytes = self.header_bytes();
        let read =
            FileOperation::Read { offset: offset + header_bytes, bytes: bytes - header_bytes };
        let operations = match self.layout() {
            EngineLayout::Mlperf => vec![
                FileOperation::Look { path, ends_if_found: false },
                open.clone(),
                FileOperation::DropCache,
                FileOperation::Close,
                open,
                FileOperation::Read { offset, bytes: header_bytes },
                read,
                FileOperation::Close,
            ],
            _ => vec![open, read, FileOperation::Close],
        };
        ObjectScript { operations }
    }

    /// Writes the buckets that are full once a prefix was stored, in the order of the prefixes.
    fn filled_buckets(&self, prefix: u64) -> Vec<ObjectScript> {
        let (of_prefix, of_bucket) = (self.objects_per_prefix(), self.objects_per_bucket());
        let from = prefix * of_prefix / of_bucket;
        let to = (prefix + 1) * of_prefix / of_bucket;
        let meta_bytes = of_bucket * (self.key_bytes() + BUCKET_ENTRY_BYTES);
        let bucket = |number: u64| {
            let files = [("bucket", of_bucket * self.record_bytes()), ("meta", meta_bytes)];
            let operations = files.into_iter().flat_map(|(ending, bytes)| {
                let create = FileOperation::Create {
                    path: bucket_path(number, ending).into(),
                    exclusive: false,
                    truncate: true,
                    direct: false,
                };
                let begin = [create, FileOperation::Write { offset: 0, bytes }];
                let sync = self.options.is_on(LayoutOption::Fsync).then_some(FileOperation::Sync);
                begin.into_iter().chain(sync).chain([FileOperation::Close])
            });
            ObjectScript { operations: operations.collect() }
        };
        (from..to).map(bucket).collect()
    }
}

/// The numbers of so many prefixes in an order that follows from the seed and the number of the
/// pass.
pub fn shuffled(prefixes: u64, seed: u64, pass: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..prefixes).collect();
    order.sort_by_cached_key(|prefix| digest64(&[seed, pass, *prefix]));
    order
}

fn bucket_path(number: u64, ending: &str) -> String {
    format!("{}.{ending}", FIRST_BUCKET + number)
}

fn one_tile(scripts: Vec<ObjectScript>) -> EngineRequest {
    EngineRequest { tiles: vec![WorkerTile { scripts }] }
}

/// The objects in so many contiguous parts as equal as can be, none of them empty.
fn contiguous(objects: &[KvObject], parts: u64) -> Vec<Vec<KvObject>> {
    let count = objects.len();
    let parts = usize::try_from(parts).unwrap_or(usize::MAX).clamp(1, count.max(1));
    let part = |index: usize| objects[count * index / parts..count * (index + 1) / parts].to_vec();
    (0..parts).map(part).collect()
}

/// Loads objects that lie one after the other in files: each file is opened once.
fn loads_by_file(objects: &[KvObject]) -> Vec<ObjectScript> {
    let of_file = |objects: &[KvObject]| {
        let reads = objects.iter().map(|object| {
            let KvObject { offset_bytes: offset, bytes, .. } = *object;
            FileOperation::Read { offset, bytes }
        });
        let path = objects.first().map(|object| Arc::clone(&object.path));
        let open = path.map(|path| FileOperation::OpenToRead { path, direct: false });
        let operations = open.into_iter().chain(reads).chain([FileOperation::Close]);
        ObjectScript { operations: operations.collect() }
    };
    objects.chunk_by(|one, next| one.path == next.path).map(of_file).collect()
}
