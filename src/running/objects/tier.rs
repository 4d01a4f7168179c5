//! An object store as the storage tier of a run: what the engine asks for, by name.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringfall_config::object_store::{ObjectOptions, ObjectUrl};
use ringfall_core::clock::Nanos;
use ringfall_engine::device::{ObjectDone, ObjectIo, ObjectName, ObjectPart};
use ringfall_model::facts::ObjectCounts;
use rustix::io::Errno;

use super::Bytes;
use super::cause::{Cause, ObjectError};
use super::client::{Objects, OpenError};

/// A prefix that is a run's own: nothing was below it, and all that is goes when the run ends.
/// Cheap to clone.
#[derive(Clone)]
pub struct TierObjects {
    objects: Objects,
    /// The URL, as the user would name it.
    path: Arc<Path>,
    /// Whether a failure was told: the first says why, and all are counted.
    is_told: Arc<AtomicBool>,
}

impl std::fmt::Debug for TierObjects {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("TierObjects").field("path", &self.path).finish()
    }
}

impl TierObjects {
    /// Opens the prefix; an object below it, if there is one. While the store has not answered,
    /// `goes_on` says whether to go on.
    pub fn open(
        url: &ObjectUrl,
        options: &ObjectOptions,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<(TierObjects, Option<String>), OpenError> {
        let (objects, found) = Objects::open(url, options, goes_on)?;
        Ok((TierObjects::over(objects), found))
    }

    fn over(objects: Objects) -> TierObjects {
        let path = Path::new(&objects.url().to_string()).into();
        TierObjects { objects, path, is_told: Arc::default() }
    }

    /// The URL as a path, for who shows paths.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Counts of the requests so far.
    pub fn counts(&self) -> ObjectCounts {
        self.objects.counts()
    }

    /// Removes everything below the prefix.
    ///
    /// # Errors
    /// The first object that could not be removed; the rest is removed nevertheless.
    pub fn remove_all(&self) -> Result<(), ObjectError> {
        let left = self.objects.list(usize::MAX)?;
        self.objects.remove_all(left.into_iter().map(|(name, _)| name))
    }

    /// Tells the first failure and says what it is to the engine.
    fn errno(&self, error: &ObjectError) -> i32 {
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::error!("{error}");
        }
        errno_of(&error.cause).raw_os_error()
    }
}

/// The error of a drive that comes nearest.
fn errno_of(cause: &Cause) -> Errno {
    match cause {
        Cause::Timeout { .. } => Errno::TIMEDOUT,
        Cause::NoCredentials
        | Cause::Expired { .. }
        | Cause::UnknownKey { .. }
        | Cause::WrongSecret { .. }
        | Cause::Denied { .. }
        | Cause::ClockSkew { .. } => Errno::ACCESS,
        Cause::NoBucket | Cause::Connect { .. } | Cause::Tls { .. } | Cause::Region { .. } => {
            Errno::NODEV
        }
        Cause::NoObject | Cause::Length { .. } => Errno::NODATA,
        Cause::Busy { .. }
        | Cause::Server { .. }
        | Cause::Cut { .. }
        | Cause::Checksum { .. }
        | Cause::PartLost { .. }
        | Cause::NoUpload
        | Cause::Other { .. } => Errno::IO,
    }
}

/// Objects of one entry have names that begin alike.
fn key(name: ObjectName) -> String {
    format!("{:012x}-{:x}", name.entry, name.first_block)
}

/// The engine's view of it: it calls back on a thread of the store.
impl ObjectIo for TierObjects {
    fn put(&self, part: ObjectPart, bytes: Vec<u8>, done: ObjectDone) {
        let (content, tier, begun) = (Bytes::from(bytes), self.clone(), Nanos::ZERO);
        let kept = content.clone();
        self.objects.start_put(&key(part.name), content, move |outcome| match outcome {
            // Without a copy, unless a connection still holds it.
            Ok(()) => done(begun, Ok(Vec::from(kept))),
            Err(error) => done(begun, Err(tier.errno(&error))),
        });
    }

    fn get(&self, part: ObjectPart, offset_bytes: u64, buffer: Vec<u8>, done: ObjectDone) {
        let (length, tier, begun) = (buffer.len(), self.clone(), Nanos::ZERO);
        let answer = move |buffer, outcome: Result<(), ObjectError>| match outcome {
            Ok(()) => done(begun, Ok(buffer)),
            Err(error) => done(begun, Err(tier.errno(&error))),
        };
        self.objects.start_get(&key(part.name), offset_bytes, length, buffer, answer);
    }

    fn remove(&self, name: ObjectName) {
        let tier = self.clone();
        self.objects.start_remove(&key(name), move |outcome| {
            // What is left now is removed at the end.
            if let Err(error) = outcome {
                tier.errno(&error);
            }
        });
    }

    fn name(&self) -> &str {
        self.path.to_str().unwrap_or_default()
    }

    fn path(&self, object: ObjectName) -> String {
        self.objects.inner.place(&self.objects.url().key(&key(object)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::super::client::tests::in_memory;
    use super::*;

    #[test]
    fn what_the_engine_puts_it_gets_back_and_nothing_is_left() {
        let io = TierObjects::over(in_memory(1, ObjectOptions::default()));
        let (tell, told) = channel();
        let answer = || {
            let tell = tell.clone();
            Box::new(move |_begun, outcome| tell.send(outcome).unwrap())
        };
        let name = ObjectName { entry: 16, first_block: 3 };
        let part = |name| ObjectPart { name, entry_blocks: 5, transfer: 1 };
        io.put(part(name), vec![7; 8192], answer());
        assert_eq!(told.recv().unwrap(), Ok(vec![7; 8192]));
        io.get(part(name), 4096, vec![0; 4096], answer());
        assert_eq!(told.recv().unwrap(), Ok(vec![7; 4096]));
        assert_eq!(io.objects.list(9).unwrap(), [("000000000010-3".to_owned(), 8192)]);
        io.get(part(ObjectName { first_block: 4, ..name }), 0, vec![0; 4096], answer());
        assert_eq!(told.recv().unwrap(), Err(Errno::NODATA.raw_os_error()));
        io.get(part(name), 8192, vec![0; 4096], answer());
        assert!(told.recv().unwrap().is_err());
        io.remove_all().unwrap();
        assert_eq!(io.objects.list(9).unwrap(), []);
        assert_eq!(io.name(), "s3://bucket/prefix");
    }
}
