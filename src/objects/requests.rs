//! What can be asked of a store: objects whole and in ranges, lists, uploads in parts.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use hyper::body::Bytes;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt, PutPayload};
use tokio::task::AbortHandle;

use super::cause::{Cause, ObjectError};
use super::client::{Inner, Objects, Trouble};
use super::counts::add;

/// What is done at the end of an upload, for messages.
const COMPLETING: &str = "completing the upload of";

fn path_of(key: &str) -> Path {
    // Prefixes are checked when a URL is read, and names are the program's own.
    Path::from(key)
}

/// Ends a request that is under way.
#[derive(Debug)]
pub struct Cancel(AbortHandle);

impl Cancel {
    /// Ends it soon; what it owns is dropped then, and nobody hears of it. No effect on one that
    /// has ended.
    pub fn cancel(&self) {
        self.0.abort();
    }
}

impl Objects {
    /// Names below the prefix and their sizes in bytes, at most so many, in no particular order.
    ///
    /// # Errors
    /// The store refuses, or can't be reached.
    pub fn list(&self, count_max: usize) -> Result<Vec<(String, u64)>, ObjectError> {
        self.wait(self.listed(count_max))
    }

    /// As [`Objects::list`], for who waits otherwise.
    pub(super) async fn listed(&self, count_max: usize) -> Result<Vec<(String, u64)>, ObjectError> {
        let url = self.url();
        let prefix = path_of(&url.prefix);
        let asked = self.inner.ask("listing", "", |store| {
            let prefix = prefix.clone();
            async move {
                let below = (!prefix.as_ref().is_empty()).then_some(&prefix);
                let mut found = Vec::new();
                let mut objects = store.list(below);
                while found.len() < count_max {
                    let Some(object) = objects.next().await else { break };
                    let object = object?;
                    found.push((object.location.to_string(), object.size));
                }
                Ok(found)
            }
        });
        let found = asked.await?;
        let skip = if url.prefix.is_empty() { 0 } else { url.prefix.len() + 1 };
        let name =
            |(key, size): (String, u64)| (key.get(skip..).unwrap_or_default().to_owned(), size);
        Ok(found.into_iter().map(name).collect())
    }

    /// Stores an object whole, in place of an older one.
    ///
    /// # Errors
    /// The store refuses, or can't be reached.
    pub fn put(&self, name: &str, bytes: Bytes) -> Result<(), ObjectError> {
        self.wait(self.inner.put(&self.url().key(name), bytes))
    }

    /// Reads from an object, from `offset_bytes` on, as much as the buffer holds.
    ///
    /// # Errors
    /// The store refuses or can't be reached, or the object ends before.
    pub fn get(&self, name: &str, offset_bytes: u64, buffer: &mut [u8]) -> Result<(), ObjectError> {
        self.wait(self.inner.get(&self.url().key(name), offset_bytes, buffer))
    }

    /// An object's size in bytes, if it is there.
    ///
    /// # Errors
    /// The store refuses, or can't be reached.
    pub fn size(&self, name: &str) -> Result<Option<u64>, ObjectError> {
        self.wait(self.inner.size(&self.url().key(name)))
    }

    /// Removes an object, if it is there.
    ///
    /// # Errors
    /// The store refuses, or can't be reached.
    pub fn remove(&self, name: &str) -> Result<(), ObjectError> {
        self.wait(self.inner.remove(&self.url().key(name)))
    }

    /// As [`Objects::put`], without waiting: `done` is called on a thread of the store, unless it
    /// is cancelled before.
    pub fn start_put(
        &self,
        name: &str,
        bytes: Bytes,
        done: impl FnOnce(Result<(), ObjectError>) + Send + 'static,
    ) -> Cancel {
        let (inner, key) = (Arc::clone(&self.inner), self.url().key(name));
        self.start(async move { done(inner.put(&key, bytes).await) })
    }

    /// As [`Objects::get`], without waiting: `done` is called on a thread of the store, with the
    /// buffer, whose first `length_bytes` are what was read.
    pub fn start_get<Buffer: AsMut<[u8]> + Send + 'static>(
        &self,
        name: &str,
        offset_bytes: u64,
        length_bytes: usize,
        mut buffer: Buffer,
        done: impl FnOnce(Buffer, Result<(), ObjectError>) + Send + 'static,
    ) -> Cancel {
        let (inner, key) = (Arc::clone(&self.inner), self.url().key(name));
        self.start(async move {
            let target = &mut buffer.as_mut()[..length_bytes];
            let outcome = inner.get(&key, offset_bytes, target).await;
            done(buffer, outcome);
        })
    }

    /// As [`Objects::remove`], without waiting: `done` is called on a thread of the store.
    pub fn start_remove(
        &self,
        name: &str,
        done: impl FnOnce(Result<(), ObjectError>) + Send + 'static,
    ) -> Cancel {
        let (inner, key) = (Arc::clone(&self.inner), self.url().key(name));
        self.start(async move { done(inner.remove(&key).await) })
    }

    fn start(&self, work: impl Future<Output = ()> + Send + 'static) -> Cancel {
        Cancel(self.threads.runtime().spawn(work).abort_handle())
    }

    /// Begins to store an object in parts. It has its name when [`Upload::complete`] says so, and
    /// nobody sees any of it before.
    ///
    /// # Errors
    /// The store refuses, or can't be reached.
    pub fn upload(&self, name: &str) -> Result<Upload, ObjectError> {
        let key = self.url().key(name);
        let path = path_of(&key);
        let id = self.wait(self.inner.ask("beginning the upload of", &key, |store| {
            let path = path.clone();
            async move { Ok(store.create_multipart(&path).await?) }
        }))?;
        Ok(Upload { objects: self.clone(), key, id: Arc::from(id), parts: Mutex::default() })
    }
}

impl Inner {
    async fn put(&self, key: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let (path, length) = (path_of(key), bytes.len() as u64);
        self.ask("writing", key, |store| {
            let (path, payload) = (path.clone(), PutPayload::from_bytes(bytes.clone()));
            async move { Ok(store.put(&path, payload).await.map(drop)?) }
        })
        .await?;
        add(&self.counters.sent_bytes, length);
        Ok(())
    }

    async fn get(&self, key: &str, offset: u64, buffer: &mut [u8]) -> Result<(), ObjectError> {
        let (path, length) = (path_of(key), buffer.len() as u64);
        let range = offset..offset + length;
        // An attempt that is repeated begins again: the buffer is filled from the start.
        let buffer = tokio::sync::Mutex::new(buffer);
        self.ask("reading", key, |store| {
            let (path, range, buffer) = (path.clone(), range.clone(), &buffer);
            async move {
                let mut buffer = buffer.lock().await;
                read(&*store, &path, range, &mut buffer).await
            }
        })
        .await?;
        add(&self.counters.received_bytes, length);
        Ok(())
    }

    async fn size(&self, key: &str) -> Result<Option<u64>, ObjectError> {
        let path = path_of(key);
        let asked = self.ask("looking at", key, |store| {
            let path = path.clone();
            async move {
                match store.head(&path).await {
                    Ok(object) => Ok(Some(object.size)),
                    Err(object_store::Error::NotFound { .. }) => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
        });
        asked.await
    }

    async fn remove(&self, key: &str) -> Result<(), ObjectError> {
        let path = path_of(key);
        let asked = self.ask("removing", key, |store| {
            let path = path.clone();
            async move {
                match store.delete(&path).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
        });
        asked.await
    }
}

/// One attempt to fill the buffer.
async fn read(
    store: &dyn super::backend::Store,
    path: &Path,
    range: Range<u64>,
    buffer: &mut [u8],
) -> Result<(), Trouble> {
    let wanted_bytes = range.end - range.start;
    let options = GetOptions { range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
    let answer = store.get_opts(path, options).await?;
    let found_bytes = answer.range.end - answer.range.start;
    if found_bytes != wanted_bytes {
        return Err(Trouble::Cause(Cause::Length { found_bytes, wanted_bytes }));
    }
    let mut rest = buffer;
    let mut pieces = answer.into_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        let Some((begin, end)) = rest.split_at_mut_checked(piece.len()) else {
            let what = "more bytes than the server announced".to_owned();
            return Err(Trouble::Cause(Cause::Cut { what }));
        };
        begin.copy_from_slice(&piece);
        rest = end;
    }
    match rest.len() {
        0 => Ok(()),
        missing => {
            let what = format!("{missing} of {wanted_bytes} bytes are missing");
            Err(Trouble::Cause(Cause::Cut { what }))
        }
    }
}

/// An object that is being stored in parts. Parts may be sent from several threads, in any order;
/// each may be sent again.
pub struct Upload {
    objects: Objects,
    key: String,
    id: Arc<str>,
    /// What the store calls each part, and its size in bytes.
    parts: Mutex<Vec<Option<(PartId, u64)>>>,
}

impl Upload {
    fn parts(&self) -> MutexGuard<'_, Vec<Option<(PartId, u64)>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to send part `index`, counted from 0; `done` is called on a thread of the store. The
    /// caller bounds how many it begins: the bytes of each stay in memory until it is done.
    pub fn start_part(
        self: &Arc<Upload>,
        index: usize,
        bytes: Bytes,
        done: impl FnOnce(Result<(), ObjectError>) + Send + 'static,
    ) -> Cancel {
        let upload = Arc::clone(self);
        self.objects.start(async move {
            let outcome = upload.part(index, bytes).await;
            // Before the caller hears of it: it may let go of the store.
            drop(upload);
            done(outcome);
        })
    }

    async fn part(&self, index: usize, bytes: Bytes) -> Result<(), ObjectError> {
        let (inner, path, id) = (&self.objects.inner, path_of(&self.key), self.id.to_string());
        let length = bytes.len() as u64;
        let sent = inner.ask("writing a part of", &self.key, |store| {
            let (path, id) = (path.clone(), id.clone());
            let payload = PutPayload::from_bytes(bytes.clone());
            async move { Ok(store.put_part(&path, &id, index, payload).await?) }
        });
        let sent = sent.await?;
        add(&inner.counters.sent_bytes, length);
        let mut parts = self.parts();
        if parts.len() <= index {
            parts.resize(index + 1, None);
        }
        parts[index] = Some((sent, length));
        Ok(())
    }

    /// Gives the object its name, when all parts from 0 on have been sent, and sees that all of it
    /// is there.
    ///
    /// # Errors
    /// A part is missing, and the object is removed where it was made without it; the store refuses
    /// or can't be reached.
    pub fn complete(&self) -> Result<(), ObjectError> {
        let inner = &self.objects.inner;
        let path = path_of(&self.key);
        let known: Option<Vec<_>> = self.parts().iter().cloned().collect();
        let Some(known) = known else {
            let code = "it was not sent".to_owned();
            return Err(self.error(COMPLETING, Cause::PartLost { code }));
        };
        let wanted_bytes = known.iter().map(|(_, bytes)| bytes).sum();
        let parts: Vec<PartId> = known.into_iter().map(|(part, _)| part).collect();
        let asked = inner.ask(COMPLETING, &self.key, |store| {
            let (path, id, parts) = (path.clone(), self.id.to_string(), parts.clone());
            async move { Ok(store.complete_multipart(&path, &id, parts).await.map(drop)?) }
        });
        let completed = self.objects.wait(asked);
        // A server whose answer was lost has completed it, and then knows no such upload.
        let is_gone = |error: &ObjectError| error.cause == Cause::NoUpload;
        if let Err(error) = completed
            && !is_gone(&error)
        {
            return Err(error);
        }
        match self.objects.wait(inner.size(&self.key))? {
            Some(found_bytes) if found_bytes == wanted_bytes => Ok(()),
            Some(found_bytes) => {
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
        let path = path_of(&self.key);
        let asked = self.objects.inner.ask("ending the upload of", &self.key, |store| {
            let (path, id) = (path.clone(), self.id.to_string());
            async move { Ok(store.abort_multipart(&path, &id).await?) }
        });
        match self.objects.wait(asked) {
            Err(error) if matches!(error.cause, Cause::NoUpload | Cause::NoObject) => Ok(()),
            other => other,
        }
    }

    fn error(&self, operation: &'static str, cause: Cause) -> ObjectError {
        let url = self.objects.url();
        let place = format!("{}://{}/{}", url.scheme.name(), url.bucket, self.key);
        ObjectError { operation, place, cause, attempts: 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::client::tests::in_memory;
    use super::*;
    use crate::objects::ObjectOptions;

    #[test]
    fn what_is_stored_is_listed_read_and_removed() {
        let objects = in_memory(1, ObjectOptions::default());
        objects.put("a/b", Bytes::from_static(b"0123456789")).unwrap();
        assert_eq!(objects.list(9).unwrap(), [("a/b".to_owned(), 10)]);
        assert_eq!(objects.size("a/b").unwrap(), Some(10));
        assert_eq!(objects.size("a").unwrap(), None);
        let mut buffer = [0; 4];
        objects.get("a/b", 3, &mut buffer).unwrap();
        assert_eq!(&buffer, b"3456");
        objects.remove("a/b").unwrap();
        objects.remove("a/b").unwrap();
        assert_eq!(objects.list(9).unwrap(), []);
        let counts = objects.counts();
        assert_eq!((counts.sent_bytes, counts.received_bytes, counts.failures), (10, 4, 0));
    }

    #[test]
    fn an_object_that_ends_before_is_an_error() {
        let objects = in_memory(1, ObjectOptions::default());
        objects.put("x", Bytes::from_static(b"0123456789")).unwrap();
        let error = objects.get("x", 8, &mut [0; 4]).unwrap_err();
        assert_eq!(error.cause, Cause::Length { found_bytes: 2, wanted_bytes: 4 });
    }

    #[test]
    fn parts_in_any_order_make_an_object() {
        let objects = in_memory(2, ObjectOptions::default());
        let upload = Arc::new(objects.upload("x").unwrap());
        let (tell, told) = mpsc::channel();
        for (index, text) in [(1, "world"), (0, "hello ")] {
            let tell = tell.clone();
            upload.start_part(index, Bytes::from(text), move |outcome| tell.send(outcome).unwrap());
        }
        told.recv().unwrap().unwrap();
        told.recv().unwrap().unwrap();
        assert_eq!(objects.size("x").unwrap(), None);
        upload.complete().unwrap();
        let mut buffer = [0; 11];
        objects.get("x", 0, &mut buffer).unwrap();
        assert_eq!(&buffer, b"hello world");
    }

    #[test]
    fn an_upload_without_one_of_its_parts_is_not_completed() {
        let objects = in_memory(1, ObjectOptions::default());
        let upload = Arc::new(objects.upload("x").unwrap());
        let (tell, told) = mpsc::channel();
        upload.start_part(1, Bytes::from("b"), move |outcome| tell.send(outcome).unwrap());
        told.recv().unwrap().unwrap();
        let error = upload.complete().unwrap_err();
        assert!(matches!(error.cause, Cause::PartLost { .. }), "{error}");
        upload.abort().unwrap();
        assert_eq!(objects.size("x").unwrap(), None);
    }
}
