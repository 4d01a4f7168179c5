//! Objects stored in parts: begun, continued later from a record of what the store has, completed
//! or ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hyper::body::Bytes;
use object_store::PutPayload;
use object_store::multipart::PartId;
use ringfall_config::object_store::PARTS_MAX;
use serde::{Deserialize, Serialize};
use tokio::task::AbortHandle;

use super::cause::{Cause, ObjectError};
use super::client::Objects;
use crate::threads::locked;

/// Name of the last step of an upload, for messages.
const COMPLETING: &str = "completing the upload of";

/// Parts that the store has of an incomplete object: enough to continue its upload, also in another
/// process. It holds no credentials, and is of no use without them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UploadRecord {
    /// Name that the store gave the upload; Azure gives none.
    pub id: String,
    /// Parts that the store has acknowledged, in the order of their numbers.
    pub parts: Vec<RecordedPart>,
}

/// A part of an upload that the store has acknowledged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedPart {
    /// Its number, from 0.
    pub index: u64,
    /// Name that the store gave the part, which completing the upload takes.
    pub content_id: String,
    /// Length of the content, bytes.
    pub bytes: u64,
}

impl UploadRecord {
    /// The record that a text in JSON has.
    pub fn read(text: &[u8]) -> Result<UploadRecord, String> {
        let record: UploadRecord =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        record.check()?;
        Ok(record)
    }

    /// Checks values that others may have written.
    ///
    /// # Errors
    /// Returns the first problem, as a clause.
    pub fn check(&self) -> Result<(), String> {
        let mut least = 0;
        for part in &self.parts {
            if !(least..PARTS_MAX).contains(&part.index) {
                return Err(format!("part {} is out of order or out of range", part.index));
            }
            least = part.index + 1;
        }
        Ok(())
    }
}

/// An object that is being stored in parts. Parts may be sent from several threads, in any order;
/// each may be sent again.
pub struct Upload {
    objects: Objects,
    key: String,
    id: Arc<str>,
    /// Parts that the store has acknowledged, by their numbers.
    parts: Mutex<BTreeMap<u64, RecordedPart>>,
    /// Whether the store has let go of it or of one of its parts.
    is_lost: AtomicBool,
}

impl Objects {
    /// Begins to store an object in parts. It has its name when [`Upload::complete`] says so, and
    /// nobody sees any of it before.
    pub fn upload(&self, name: &str) -> Result<Upload, ObjectError> {
        let key = self.url().key(name);
        let asked = self.inner.ask("beginning the upload of", &key, |store, path| async move {
            Ok(store.create_multipart(&path).await?)
        });
        let record = UploadRecord { id: self.wait(asked)?, parts: Vec::new() };
        Ok(self.continue_upload(name, record))
    }

    /// Continues an upload of which there is a record, without asking the store: whether it still
    /// has the parts shows when more are sent, or when the upload is completed. The record must
    /// have passed [`UploadRecord::check`].
    #[must_use]
    pub fn continue_upload(&self, name: &str, record: UploadRecord) -> Upload {
        let key = self.url().key(name);
        let parts = record.parts.into_iter().map(|part| (part.index, part)).collect();
        let (objects, id) = (self.clone(), Arc::from(record.id));
        Upload { objects, key, id, parts: Mutex::new(parts), is_lost: AtomicBool::new(false) }
    }
}

impl Upload {
    /// Records the parts that the store has acknowledged so far.
    pub fn record(&self) -> UploadRecord {
        let parts = locked(&self.parts).values().cloned().collect();
        UploadRecord { id: self.id.to_string(), parts }
    }

    /// Whether the store has let go of it, or of one of its parts: it can only be ended.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Begins to send part `index`, counted from 0; `done` is called on a thread of the store. The
    /// caller bounds how many it begins: the bytes of each stay in memory until it is done.
    pub fn start_part(
        self: &Arc<Upload>,
        index: usize,
        bytes: Bytes,
        done: impl FnOnce(Result<(), ObjectError>) + Send + 'static,
    ) -> AbortHandle {
        let upload = Arc::clone(self);
        self.objects.start(async move {
            let outcome = upload.part(index, bytes).await;
            // Before the caller hears of it: it may let go of the store.
            drop(upload);
            done(outcome);
        })
    }

    async fn part(&self, index: usize, bytes: Bytes) -> Result<(), ObjectError> {
        let (inner, id) = (&self.objects.inner, self.id.to_string());
        let length = bytes.len() as u64;
        let sent = inner.ask("writing a part of", &self.key, |store, path| {
            let (id, payload) = (id.clone(), PutPayload::from_bytes(bytes.clone()));
            async move { Ok(store.put_part(&path, &id, index, payload).await?) }
        });
        let PartId { content_id } = self.noted(sent.await)?;
        inner.counters.now().sent_bytes += length;
        let index = index as u64;
        locked(&self.parts).insert(index, RecordedPart { index, content_id, bytes: length });
        Ok(())
    }

    /// The same; a failure that means that the upload is lost is remembered.
    fn noted<T>(&self, outcome: Result<T, ObjectError>) -> Result<T, ObjectError> {
        if let Err(error) = &outcome
            && matches!(error.cause, Cause::NoUpload | Cause::PartLost { .. })
        {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// Gives the object its name, when all parts from 0 on have been sent, and sees that all of it
    /// is there.
    ///
    /// # Errors
    /// A part is missing, and the object is removed where it was made without it; the store refuses
    /// or can't be reached.
    pub fn complete(&self) -> Result<(), ObjectError> {
        let inner = &self.objects.inner;
        let UploadRecord { id, parts } = self.record();
        if !parts.iter().map(|part| part.index).eq(0..parts.len() as u64) {
            let code = "it was not sent".to_owned();
            return Err(self.error(COMPLETING, Cause::PartLost { code }));
        }
        let wanted_bytes = parts.iter().map(|part| part.bytes).sum();
        let content_ids = parts.into_iter().map(|part| part.content_id);
        let parts: Vec<PartId> = content_ids.map(|content_id| PartId { content_id }).collect();
        let asked = inner.ask(COMPLETING, &self.key, |store, path| {
            let (id, parts) = (id.clone(), parts.clone());
            async move { Ok(store.complete_multipart(&path, &id, parts).await.map(drop)?) }
        });
        match self.noted(self.objects.wait(asked)) {
            // A server whose answer was lost has completed it, and then knows no such upload.
            Err(error) if error.cause != Cause::NoUpload => return Err(error),
            _ => {}
        }
        match self.objects.wait(inner.size(&self.key))? {
            Some(found_bytes) if found_bytes == wanted_bytes => Ok(()),
            Some(found_bytes) => {
                self.is_lost.store(true, Ordering::Relaxed);
                // Nobody must take it for whole.
                self.objects.wait(inner.remove(&self.key))?;
                Err(self.error(COMPLETING, Cause::Length { found_bytes, wanted_bytes }))
            }
            None => Err(self.error(COMPLETING, Cause::NoUpload)),
        }
    }

    /// Ends it: the store forgets its parts.
    ///
    /// # Errors
    /// The store refuses or can't be reached: parts may be left there, which cost space until a
    /// life-cycle rule or `aws s3api abort-multipart-upload` removes them.
    pub fn abort(&self) -> Result<(), ObjectError> {
        let asked = self.objects.inner.ask("ending the upload of", &self.key, |store, path| {
            let id = self.id.to_string();
            async move { Ok(store.abort_multipart(&path, &id).await?) }
        });
        match self.objects.wait(asked) {
            Err(error) if matches!(error.cause, Cause::NoUpload | Cause::NoObject) => Ok(()),
            other => other,
        }
    }

    fn error(&self, operation: &'static str, cause: Cause) -> ObjectError {
        let place = self.objects.inner.place(&self.key);
        ObjectError { operation, place, cause, attempts: 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use ringfall_config::object_store::ObjectOptions;

    use super::super::client::tests::in_memory;
    use super::*;

    fn send(upload: &Arc<Upload>, parts: &[(usize, &'static str)]) {
        let (tell, told) = mpsc::channel();
        for &(index, text) in parts {
            let tell = tell.clone();
            upload.start_part(index, Bytes::from(text), move |outcome| tell.send(outcome).unwrap());
        }
        for _ in parts {
            told.recv().unwrap().unwrap();
        }
    }

    #[test]
    fn parts_in_any_order_make_an_object() {
        let objects = in_memory(2, ObjectOptions::default());
        let upload = Arc::new(objects.upload("x").unwrap());
        send(&upload, &[(1, "world"), (0, "hello ")]);
        assert_eq!(objects.size("x").unwrap(), None);
        upload.complete().unwrap();
        let mut buffer = [0; 11];
        objects.get("x", 0, &mut buffer).unwrap();
        assert_eq!(&buffer, b"hello world");
    }

    #[test]
    fn an_upload_goes_on_from_its_record() {
        let objects = in_memory(1, ObjectOptions::default());
        let upload = Arc::new(objects.upload("x").unwrap());
        send(&upload, &[(0, "hello "), (2, "!")]);
        let text = serde_json::to_string(&upload.record()).unwrap();
        drop(upload);
        let record: UploadRecord = serde_json::from_str(&text).unwrap();
        record.check().unwrap();
        let upload = Arc::new(objects.continue_upload("x", record.clone()));
        assert_eq!(upload.record(), record);
        send(&upload, &[(1, "world")]);
        upload.complete().unwrap();
        let mut buffer = [0; 12];
        objects.get("x", 0, &mut buffer).unwrap();
        assert_eq!(&buffer, b"hello world!");
    }

    #[test]
    fn a_record_that_nobody_has_written_is_refused() {
        let part = |index| RecordedPart { index, content_id: String::new(), bytes: 1 };
        for wrong in [vec![part(1), part(1)], vec![part(2), part(0)], vec![part(PARTS_MAX)]] {
            UploadRecord { id: String::new(), parts: wrong }.check().unwrap_err();
        }
    }

    #[test]
    fn an_upload_without_one_of_its_parts_is_not_completed() {
        let objects = in_memory(1, ObjectOptions::default());
        let upload = Arc::new(objects.upload("x").unwrap());
        send(&upload, &[(1, "b")]);
        let error = upload.complete().unwrap_err();
        assert!(matches!(error.cause, Cause::PartLost { .. }), "{error}");
        upload.abort().unwrap();
        assert_eq!(objects.size("x").unwrap(), None);
    }
}
