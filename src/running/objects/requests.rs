//! Requests to a store: objects whole and in ranges, and lists of them.

use std::ops::Range;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use hyper::body::Bytes;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt, PutPayload};
use tokio::task::AbortHandle;

use super::cause::{Cause, ObjectError};
use super::client::{Inner, Objects, Trouble};

impl Objects {
    /// Names below the prefix and their sizes in bytes, at most so many, in no particular order.
    pub fn list(&self, count_max: usize) -> Result<Vec<(String, u64)>, ObjectError> {
        self.wait(self.listed(count_max))
    }

    /// As [`Objects::list`], for who waits otherwise.
    pub(super) async fn listed(&self, count_max: usize) -> Result<Vec<(String, u64)>, ObjectError> {
        let url = self.url();
        let asked = self.inner.ask("listing", &url.prefix, |store, prefix| async move {
            let below = (!prefix.as_ref().is_empty()).then_some(&prefix);
            let mut found = Vec::new();
            let mut objects = store.list(below);
            while found.len() < count_max {
                let Some(object) = objects.next().await else { break };
                let object = object?;
                found.push((object.location.to_string(), object.size));
            }
            Ok(found)
        });
        // A list is of a bucket: who answers that there is nothing of the name keeps no buckets.
        let found = asked.await.map_err(|error| match error.cause {
            Cause::NoObject => {
                let (code, message) = (String::new(), String::new());
                ObjectError { cause: Cause::Other { status: 404, code, message }, ..error }
            }
            _ => error,
        })?;
        let skip = if url.prefix.is_empty() { 0 } else { url.prefix.len() + 1 };
        let name =
            |(key, size): (String, u64)| (key.get(skip..).unwrap_or_default().to_owned(), size);
        Ok(found.into_iter().map(name).collect())
    }

    /// Stores an object whole, in place of an older one.
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
    pub fn size(&self, name: &str) -> Result<Option<u64>, ObjectError> {
        self.wait(self.inner.size(&self.url().key(name)))
    }

    /// Removes an object, if it is there.
    pub fn remove(&self, name: &str) -> Result<(), ObjectError> {
        self.wait(self.inner.remove(&self.url().key(name)))
    }

    /// Removes objects, if they are there.
    ///
    /// # Errors
    /// The first object that could not be removed; the rest is removed nevertheless.
    pub fn remove_all(&self, names: impl IntoIterator<Item = String>) -> Result<(), ObjectError> {
        let inner = &self.inner;
        let keys = stream::iter(names).map(|name| self.url().key(&name));
        let removed = keys.map(|key| async move { inner.remove(&key).await });
        let removed = removed.buffer_unordered(self.options().concurrency as usize);
        // All of them, before the first error is returned.
        self.wait(removed.fold(Ok(()), |first, next| std::future::ready(first.and(next))))
    }

    /// As [`Objects::put`], without waiting: `done` is called on a thread of the store, unless it
    /// is cancelled before.
    pub fn start_put(
        &self,
        name: &str,
        bytes: Bytes,
        done: impl FnOnce(Result<(), ObjectError>) + Send + 'static,
    ) -> AbortHandle {
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
    ) -> AbortHandle {
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
    ) -> AbortHandle {
        let (inner, key) = (Arc::clone(&self.inner), self.url().key(name));
        self.start(async move { done(inner.remove(&key).await) })
    }

    /// Runs it on the threads of the store. The handle ends it soon: what it owns is dropped then,
    /// and nobody hears of it.
    pub(super) fn start(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.threads.runtime().spawn(work).abort_handle()
    }
}

impl Inner {
    async fn put(&self, key: &str, bytes: Bytes) -> Result<(), ObjectError> {
        let length = bytes.len() as u64;
        self.ask("writing", key, |store, path| {
            let payload = PutPayload::from_bytes(bytes.clone());
            async move { Ok(store.put(&path, payload).await.map(drop)?) }
        })
        .await?;
        self.counters.now().sent_bytes += length;
        Ok(())
    }

    async fn get(&self, key: &str, offset: u64, buffer: &mut [u8]) -> Result<(), ObjectError> {
        let length = buffer.len() as u64;
        let range = offset..offset + length;
        // An attempt that is repeated begins again: the buffer is filled from the start.
        let buffer = tokio::sync::Mutex::new(buffer);
        self.ask("reading", key, |store, path| {
            let (range, buffer) = (range.clone(), &buffer);
            async move {
                let mut buffer = buffer.lock().await;
                read(&*store, &path, range, &mut buffer).await
            }
        })
        .await?;
        self.counters.now().received_bytes += length;
        Ok(())
    }

    pub(super) async fn size(&self, key: &str) -> Result<Option<u64>, ObjectError> {
        let asked = self.ask("looking at", key, |store, path| async move {
            match store.head(&path).await {
                Ok(object) => Ok(Some(object.size)),
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            }
        });
        asked.await
    }

    pub(super) async fn remove(&self, key: &str) -> Result<(), ObjectError> {
        let asked = self.ask("removing", key, |store, path| async move {
            match store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error.into()),
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
    let cut = |what: String| Err(Trouble::Cause(Cause::Cut { what }));
    let mut rest = buffer;
    let mut pieces = answer.into_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece?;
        let Some((begin, end)) = rest.split_at_mut_checked(piece.len()) else {
            return cut("more bytes than the server announced".to_owned());
        };
        begin.copy_from_slice(&piece);
        rest = end;
    }
    match rest.len() {
        0 => Ok(()),
        missing => cut(format!("{missing} of {wanted_bytes} bytes are missing")),
    }
}

#[cfg(test)]
mod tests {
    use ringfall_config::object_store::ObjectOptions;

    use super::super::client::tests::in_memory;
    use super::*;

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
        objects.put("c", Bytes::new()).unwrap();
        objects.remove_all(["a/b".to_owned(), "c".to_owned()]).unwrap();
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
}
