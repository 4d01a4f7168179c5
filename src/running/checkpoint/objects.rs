//! Checkpoints in an object store: a large file is an object, uploaded in parts of a chunk each,
//! and has its name when the upload is completed.
//!
//! Beside a file of several parts, `NAME.upload.json` records which parts the store has, written
//! when the upload begins, every few seconds, and when the save is interrupted: an upload goes on
//! from there. The crate `object_store` can't list the parts that a store has, and a record is the
//! same for all stores; it costs the parts of the last few seconds after a kill -9.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use ringfall_config::object_store::{ObjectOptions, ObjectUrl, PART_BYTES, PARTS_MAX};
use ringfall_core::clock::{Nanos, monotonic_now};
use ringfall_engine::buffer::{Chunk, ChunkPool};

use super::target::{
    ChunkPlace, FilePlan, Moved, Mover, Presence, Target, TargetCounters, TargetError, Version,
};
use crate::objects::{AbortHandle, Bytes, ObjectError, Objects, OpenError, Upload, UploadRecord};
use crate::threads::locked;

/// Suffix of an upload record's name, after the name of its file.
const RECORD_ENDING: &str = ".upload.json";
/// Longest record, bytes: one of 10,000 parts has a fifth of it.
const RECORD_BYTES_MAX: u64 = 8 << 20;
/// Maximum age of an upload's record while parts are stored: a few requests in a thousand are spent
/// on it, and a kill costs a few seconds of work.
const RECORD_AGE_MAX: Nanos = Nanos::from_secs(5);

/// A prefix in a bucket.
pub struct ObjectTarget {
    objects: Objects,
}

/// An object that is being uploaded.
pub struct ObjectDraft {
    upload: Arc<Upload>,
    plan: FilePlan,
    /// When its record was written last; none for a file of one part, which has none.
    recorded: Option<Mutex<Nanos>>,
}

impl ObjectDraft {
    /// Writes down what the store has of it.
    fn record(&self, objects: &Objects) -> Result<(), TargetError> {
        let text = serde_json::to_vec(&self.upload.record()).expect("plain values become JSON");
        Ok(objects.put(&record_name(&self.plan.name), Bytes::from(text))?)
    }

    /// The same when the record has grown old.
    fn record_in_time(&self, objects: &Objects) -> Result<(), TargetError> {
        let Some(recorded) = &self.recorded else { return Ok(()) };
        let (now, mut recorded) = (monotonic_now(), locked(recorded));
        if now.saturating_sub(*recorded) < RECORD_AGE_MAX {
            return Ok(());
        }
        *recorded = now;
        // Others need not wait until it is written.
        drop(recorded);
        self.record(objects)
    }
}

/// Where the record of a file's upload is.
fn record_name(name: &str) -> String {
    format!("{name}{RECORD_ENDING}")
}

/// Moves chunks on the threads of the store.
pub struct ObjectMover {
    objects: Objects,
    tell: Sender<Told>,
    told: Receiver<Told>,
    in_flight: HashMap<u64, Flight>,
}

/// A chunk that is being moved.
struct Flight {
    began: Nanos,
    request: AbortHandle,
    /// Upload that the chunk is a part of; `None` for a read.
    draft: Option<Arc<ObjectDraft>>,
}

/// Message of the store's threads about a chunk.
struct Told {
    tag: u64,
    outcome: Result<Option<Chunk>, ObjectError>,
}

impl From<ObjectError> for TargetError {
    fn from(error: ObjectError) -> TargetError {
        TargetError::new(error.what(), error.cause.to_string())
    }
}

impl ObjectTarget {
    /// Opens it and sees whether it answers.
    ///
    /// # Errors
    /// Fails if the options are invalid, or the store refuses or can't be reached.
    pub fn open(url: &ObjectUrl, options: &ObjectOptions) -> Result<ObjectTarget, TargetError> {
        match Objects::open(url, options, &mut || true) {
            Ok((objects, _)) => Ok(ObjectTarget { objects }),
            Err(OpenError::Refused(error)) => Err(error.into()),
            Err(OpenError::Options(what)) => {
                Err(TargetError::input(format!("{url} can't be used"), what))
            }
            Err(error @ OpenError::Interrupted { .. }) => {
                Err(TargetError::new(error.to_string(), "look whether its address is right"))
            }
            Err(OpenError::Threads(what)) => Err(TargetError::new(
                format!("no threads for requests can be started ({what})"),
                "raise the limit on processes (ulimit -u)",
            )),
        }
    }

    /// Reads the record that an earlier save left of the upload of a file.
    fn record_of(&self, name: &str) -> Result<Option<UploadRecord>, TargetError> {
        let record_name = record_name(name);
        let Some(text) = self.get(&record_name, RECORD_BYTES_MAX)? else { return Ok(None) };
        let strange = |why: String| {
            TargetError::input(
                format!("{} records no upload: {why}", self.objects.url().below(&record_name)),
                "give --overwrite to begin again, or another prefix",
            )
        };
        UploadRecord::read(&text).map(Some).map_err(strange)
    }

    /// Removes the record of an upload that has ended, if it has one.
    fn remove_record(&self, draft: &ObjectDraft) -> Result<(), TargetError> {
        match draft.recorded {
            Some(_) => Ok(self.objects.remove(&record_name(&draft.plan.name))?),
            None => Ok(()),
        }
    }

    /// Ends the upload of a file that an earlier save has left, if there is one.
    fn end_upload(&self, name: &str) -> Result<(), TargetError> {
        match self.record_of(name) {
            Ok(None) => return Ok(()),
            Ok(Some(record)) => self.objects.continue_upload(name, record).abort()?,
            // What is not a record names no upload that could be ended.
            Err(error) if error.is_input => {}
            Err(error) => return Err(error),
        }
        Ok(self.objects.remove(&record_name(name))?)
    }
}

impl Target for ObjectTarget {
    type Draft = ObjectDraft;
    /// Name of an object that is read.
    type Stored = String;
    type Mover = ObjectMover;

    fn name(&self) -> String {
        self.objects.url().to_string()
    }

    fn kind(&self) -> &'static str {
        self.objects.url().scheme.name()
    }

    fn mover(&self, _pool: &ChunkPool) -> Result<ObjectMover, TargetError> {
        let (tell, told) = channel();
        let in_flight = HashMap::new();
        Ok(ObjectMover { objects: self.objects.clone(), tell, told, in_flight })
    }

    fn presence(&self, name: &str) -> Result<Presence, TargetError> {
        Ok(match self.objects.size(name)? {
            Some(bytes) => Presence::Published { bytes },
            None => match self.record_of(name)? {
                Some(record) => Presence::Parts {
                    parts: record.parts.iter().map(|part| (part.index, part.bytes)).collect(),
                },
                None => Presence::Absent,
            },
        })
    }

    fn check(&self, file: &FilePlan) -> Result<(), TargetError> {
        let (least, most) = PART_BYTES;
        let parts = file.bytes.div_ceil(file.chunk_bytes);
        let has_several = parts > 1;
        if has_several && !(least..=most).contains(&file.chunk_bytes) {
            return Err(TargetError::input(
                format!("chunks of {} bytes can't be parts of an upload", file.chunk_bytes),
                "choose 5 MiB or more with --chunk-mib, which is the least that S3 takes",
            ));
        }
        if parts > PARTS_MAX {
            return Err(TargetError::input(
                format!(
                    "{} would have {parts} parts, and an upload has at most {PARTS_MAX}",
                    file.name
                ),
                format!(
                    "raise --chunk-mib to {}",
                    file.bytes.div_ceil(PARTS_MAX).div_ceil(1 << 20)
                ),
            ));
        }
        Ok(())
    }

    fn create(&self, file: &FilePlan, goes_on: bool) -> Result<ObjectDraft, TargetError> {
        let record = if goes_on { self.record_of(&file.name)? } else { None };
        let is_fresh = record.is_none();
        let upload = match record {
            Some(record) => self.objects.continue_upload(&file.name, record),
            None => self.objects.upload(&file.name)?,
        };
        let has_several = file.bytes > file.chunk_bytes;
        let recorded = has_several.then(|| Mutex::new(monotonic_now()));
        let draft = ObjectDraft { upload: Arc::new(upload), plan: file.clone(), recorded };
        // Whoever is killed from now on leaves the name of the upload.
        if has_several && let Err(error) = draft.record(&self.objects) {
            if is_fresh {
                // Without a record nobody could end it later; the first error is the one to tell.
                let _ended = draft.upload.abort();
            }
            return Err(error);
        }
        Ok(draft)
    }

    fn publish(&self, draft: &ObjectDraft, _durable: bool) -> Result<(), TargetError> {
        // A store answers when the object is durable, whether that is asked for or not.
        draft.upload.complete()?;
        self.remove_record(draft)
    }

    fn abandon(&self, draft: &ObjectDraft) -> Result<(), TargetError> {
        if draft.recorded.is_some() && !draft.upload.is_lost() {
            return draft.record(&self.objects);
        }
        draft.upload.abort()?;
        self.remove_record(draft)
    }

    fn open(&self, name: &str, _version: Version) -> Result<String, TargetError> {
        // Of a draft there are parts, which can't be read.
        match self.objects.size(name)? {
            Some(_) => Ok(name.to_owned()),
            None => Err(TargetError::input(
                format!("there is no {}", self.objects.url().below(name)),
                "give the URL to which `ringfall checkpoint write` has written",
            )),
        }
    }

    fn put(&self, name: &str, content: &[u8]) -> Result<(), TargetError> {
        Ok(self.objects.put(name, Bytes::copy_from_slice(content))?)
    }

    fn get(&self, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, TargetError> {
        let Some(bytes) = self.objects.size(name)? else { return Ok(None) };
        if bytes > bytes_max {
            return Err(TargetError::new(
                format!(
                    "{} has {bytes} bytes, more than {bytes_max}",
                    self.objects.url().below(name)
                ),
                "it was not written by ringfall: give another prefix",
            ));
        }
        let mut content = vec![0; bytes as usize];
        if bytes > 0 {
            self.objects.get(name, 0, &mut content)?;
        }
        Ok(Some(content))
    }

    fn remove(&self, name: &str) -> Result<(), TargetError> {
        self.end_upload(name)?;
        self.remove_small(name)
    }

    fn remove_small(&self, name: &str) -> Result<(), TargetError> {
        Ok(self.objects.remove(name)?)
    }

    fn forget_draft(&self, name: &str) -> Result<(), TargetError> {
        self.end_upload(name)
    }

    fn counters(&self) -> TargetCounters {
        let counts = self.objects.counts();
        TargetCounters { requests: counts.requests, retries: counts.retries.total() }
    }
}

impl Mover for ObjectMover {
    type Draft = ObjectDraft;
    type Stored = String;

    fn write(&mut self, draft: &Arc<ObjectDraft>, place: ChunkPlace, chunk: Chunk) {
        let index = (place.offset_bytes / draft.plan.chunk_bytes) as usize;
        let bytes = Bytes::from_owner(chunk).slice(..place.length_bytes);
        let (tag, tell, began) = (place.tag, self.tell.clone(), monotonic_now());
        let request = draft.upload.start_part(index, bytes, move |outcome| {
            let outcome = outcome.map(|()| None);
            // Where the mover is gone, nobody asks.
            let _nobody_asks = tell.send(Told { tag, outcome });
        });
        self.in_flight.insert(tag, Flight { began, request, draft: Some(Arc::clone(draft)) });
    }

    fn read(&mut self, stored: &Arc<String>, place: ChunkPlace, chunk: Chunk) {
        let (tag, tell, began) = (place.tag, self.tell.clone(), monotonic_now());
        let (offset, length) = (place.offset_bytes, place.length_bytes);
        let done = move |chunk: Chunk, outcome: Result<(), ObjectError>| {
            let outcome = outcome.map(|()| Some(chunk));
            let _nobody_asks = tell.send(Told { tag, outcome });
        };
        let request = self.objects.start_get(stored, offset, length, chunk, done);
        self.in_flight.insert(tag, Flight { began, request, draft: None });
    }

    fn wait(&mut self) -> Result<Moved, TargetError> {
        let Told { tag, outcome } = self.told.recv().expect("this mover has a sender itself");
        let ended = monotonic_now();
        let flight = self.in_flight.remove(&tag).expect("each that is told was begun");
        let mut outcome = outcome.map_err(TargetError::from);
        if let (Ok(_), Some(draft)) = (&outcome, &flight.draft)
            && let Err(error) = draft.record_in_time(&self.objects)
        {
            outcome = Err(error);
        }
        Ok(Moved { tag, outcome, began: flight.began, ended })
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

impl Drop for ObjectMover {
    fn drop(&mut self) {
        // Each holds its chunk until it has ended, which a cancelled one does soon.
        self.in_flight.values().for_each(|flight| flight.request.abort());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::in_memory;

    const CHUNK_BYTES: u64 = 5 << 20;

    fn target() -> ObjectTarget {
        ObjectTarget { objects: in_memory(1, ObjectOptions::default()) }
    }

    fn plan(bytes: u64, chunk_bytes: u64) -> FilePlan {
        FilePlan { name: "rank_0/weights".into(), bytes, chunk_bytes }
    }

    fn write(target: &ObjectTarget, draft: &Arc<ObjectDraft>, pool: &ChunkPool, bytes: u64) {
        let mut mover = target.mover(pool).unwrap();
        let chunk_bytes = pool.buffer_bytes() as u64;
        for tag in 0..bytes.div_ceil(chunk_bytes) {
            let mut chunk = pool.take_wait();
            chunk.bytes_mut().fill(tag as u8 + 1);
            let offset_bytes = tag * chunk_bytes;
            let length_bytes = chunk_bytes.min(bytes - offset_bytes) as usize;
            mover.write(draft, ChunkPlace { offset_bytes, length_bytes, tag }, chunk);
        }
        while mover.in_flight() > 0 {
            assert!(mover.wait().unwrap().outcome.unwrap().is_none());
        }
    }

    #[test]
    fn a_file_is_published_whole_and_read_back_in_chunks() {
        let (target, bytes) = (target(), 2 * CHUNK_BYTES + 4096);
        // The store in memory keeps the chunks themselves until the upload is complete.
        let pool = ChunkPool::new(CHUNK_BYTES as usize, 3).unwrap();
        let draft = Arc::new(target.create(&plan(bytes, CHUNK_BYTES), false).unwrap());
        let parts = Vec::new();
        assert_eq!(target.presence("rank_0/weights").unwrap(), Presence::Parts { parts });
        write(&target, &draft, &pool, bytes);
        target.publish(&draft, true).unwrap();
        assert_eq!(target.presence("rank_0/weights").unwrap(), Presence::Published { bytes });
        let stored = Arc::new(target.open("rank_0/weights", Version::Published).unwrap());
        let mut mover = target.mover(&pool).unwrap();
        let place = ChunkPlace { offset_bytes: 2 * CHUNK_BYTES, length_bytes: 4096, tag: 7 };
        mover.read(&stored, place, pool.take().unwrap());
        let moved = mover.wait().unwrap();
        let chunk = moved.outcome.unwrap().unwrap();
        assert!(moved.tag == 7 && chunk.bytes()[..4096].iter().all(|&byte| byte == 3));
        drop(chunk);
        assert_eq!(pool.free_count(), 3);
        target.remove("rank_0/weights").unwrap();
        assert_eq!(target.presence("rank_0/weights").unwrap(), Presence::Absent);
    }

    #[test]
    fn an_abandoned_file_of_one_part_leaves_nothing() {
        let target = target();
        let pool = ChunkPool::new(CHUNK_BYTES as usize, 1).unwrap();
        let draft = Arc::new(target.create(&plan(CHUNK_BYTES, CHUNK_BYTES), false).unwrap());
        write(&target, &draft, &pool, CHUNK_BYTES);
        target.abandon(&draft).unwrap();
        assert_eq!(target.presence("rank_0/weights").unwrap(), Presence::Absent);
        assert!(target.publish(&draft, true).is_err());
        assert!(target.open("rank_0/weights", Version::Published).unwrap_err().is_input);
    }

    #[test]
    fn an_abandoned_file_of_several_parts_goes_on_with_those_that_are_stored() {
        let (target, bytes) = (target(), 2 * CHUNK_BYTES + 4096);
        let plan = plan(bytes, CHUNK_BYTES);
        let pool = ChunkPool::new(CHUNK_BYTES as usize, 3).unwrap();
        let draft = Arc::new(target.create(&plan, false).unwrap());
        write(&target, &draft, &pool, 2 * CHUNK_BYTES);
        target.abandon(&draft).unwrap();
        drop(draft);
        let parts = vec![(0, CHUNK_BYTES), (1, CHUNK_BYTES)];
        assert_eq!(target.presence(&plan.name).unwrap(), Presence::Parts { parts });
        let draft = Arc::new(target.create(&plan, true).unwrap());
        let mut mover = target.mover(&pool).unwrap();
        let place = ChunkPlace { offset_bytes: 2 * CHUNK_BYTES, length_bytes: 4096, tag: 0 };
        mover.write(&draft, place, pool.take_wait());
        mover.wait().unwrap().outcome.unwrap();
        target.publish(&draft, true).unwrap();
        assert_eq!(target.presence(&plan.name).unwrap(), Presence::Published { bytes });
        assert_eq!(target.get(&record_name(&plan.name), 1 << 20).unwrap(), None);
    }

    #[test]
    fn what_is_removed_leaves_no_upload_and_no_record() {
        let target = target();
        let plan = plan(2 * CHUNK_BYTES, CHUNK_BYTES);
        let draft = target.create(&plan, false).unwrap();
        target.abandon(&draft).unwrap();
        target.remove(&plan.name).unwrap();
        assert_eq!(target.objects.list(9).unwrap(), []);
        target.put(&record_name(&plan.name), b"{}").unwrap();
        assert!(target.presence(&plan.name).unwrap_err().is_input);
        target.remove(&plan.name).unwrap();
        assert_eq!(target.presence(&plan.name).unwrap(), Presence::Absent);
    }

    #[test]
    fn a_small_file_is_removed_by_one_request() {
        let target = target();
        target.put("index.json", b"{}").unwrap();
        let before = target.counters().requests;
        target.remove_small("index.json").unwrap();
        assert_eq!(target.counters().requests, before + 1);
        assert_eq!(target.get("index.json", 9).unwrap(), None);
    }

    #[test]
    fn chunks_that_can_t_be_parts_are_refused() {
        let target = target();
        let told = |bytes, chunk| target.check(&plan(bytes, chunk)).unwrap_err();
        assert!(told(8 << 20, 4 << 20).to_string().contains("5 MiB"));
        assert!(told(1 << 40, 5 << 20).to_string().contains("at most 10000"));
        // Alone it is the last part, which may be small.
        target.check(&plan(4096, 4096)).unwrap();
    }

    #[test]
    fn small_files_are_written_and_read_whole() {
        let target = target();
        assert_eq!(target.get("index.json", 10).unwrap(), None);
        target.put("index.json", b"0123456789").unwrap();
        assert_eq!(target.get("index.json", 10).unwrap().unwrap(), b"0123456789");
        assert!(target.get("index.json", 9).unwrap_err().to_string().contains("more than 9"));
        target.put("empty", b"").unwrap();
        assert_eq!(target.get("empty", 9).unwrap().unwrap(), b"");
        assert!(target.counters().requests > 0);
    }
}
