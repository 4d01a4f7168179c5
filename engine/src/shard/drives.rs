//! State of each drive as a shard sees it: flushes under way, bytes that wait for it, failures in a
//! row.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::task::Poll;

use super::data_path::{ATTEMPTS_MAX, DataPath, NOTHING, SLICE_BYTES};
use super::notify::Notify;
use crate::clock::Nanos;
use crate::drive::{DriveId, DriveSet};
use crate::error::{ErrorKind, IoError};
use crate::metrics::Metrics;
use crate::ring::{IoKind, IoRequest};

/// A drive has failed when so many I/Os in a row have: more than a bad spot gives, which the drive
/// sets aside, and few enough that a run does not hammer a dead device.
const FAILURES_MAX: u32 = 32;

pub(super) struct DriveState {
    id: DriveId,
    flush_running: Cell<bool>,
    flushes_started: Cell<u64>,
    /// Number of the last flush that ended; a cancelled one never does.
    flushes_done: Cell<u64>,
    flush_result: RefCell<Result<(), IoError>>,
    flush_done: Notify,
    /// Bytes of transfers under way that are not moved yet.
    waiting_bytes: Cell<u64>,
    /// I/Os that failed in a row.
    failures: Cell<u32>,
    /// I/Os that failed since the shard began.
    errors: Cell<u64>,
}

impl DriveState {
    pub(super) fn new(id: DriveId) -> DriveState {
        DriveState {
            id,
            flush_running: Cell::new(false),
            flushes_started: Cell::new(0),
            flushes_done: Cell::new(0),
            flush_result: RefCell::new(Ok(())),
            flush_done: Notify::default(),
            waiting_bytes: Cell::new(0),
            failures: Cell::new(0),
            errors: Cell::new(0),
        }
    }
}

impl DataPath {
    pub(super) fn all_drives(&self) -> DriveSet {
        let mut drives = DriveSet::default();
        self.drives.iter().for_each(|drive| drives.insert(drive.id));
        drives
    }

    /// Bytes that wait for that drive, or are on their way.
    pub(super) fn waiting_bytes(&self, drive: DriveId) -> u64 {
        self.drives[drive.index()].waiting_bytes.get()
    }

    pub(super) fn wait_for(&self, drive: DriveId, bytes: u64) {
        let waiting = &self.drives[drive.index()].waiting_bytes;
        waiting.set(waiting.get() + bytes);
    }

    pub(super) fn no_more_wait_for(&self, drive: DriveId, bytes: u64) {
        let waiting = &self.drives[drive.index()].waiting_bytes;
        waiting.set(waiting.get() - bytes);
    }

    /// An I/O is on its way.
    pub(super) fn comes(&self, request: IoRequest) {
        self.wait_for(DriveId::of_byte(request.offset_bytes).0, u64::from(request.length_bytes));
    }

    /// It is not any more.
    pub(super) fn moved(&self, request: IoRequest) {
        let (drive, _) = DriveId::of_byte(request.offset_bytes);
        self.no_more_wait_for(drive, u64::from(request.length_bytes));
    }

    /// An I/O did what it was to do.
    pub(super) fn worked(&self, request: IoRequest) {
        self.drives[DriveId::of_byte(request.offset_bytes).0.index()].failures.set(0);
    }

    /// Drives of which so many I/Os in a row have failed that they count as failed themselves.
    pub(super) fn failed_drives(&self) -> impl Iterator<Item = DriveId> {
        let failed = |drive: &&DriveState| drive.failures.get() >= FAILURES_MAX;
        self.drives.iter().filter(failed).map(|drive| drive.id)
    }

    /// I/Os of that drive that failed since the shard began.
    pub(super) fn errors(&self, drive: DriveId) -> u64 {
        self.drives[drive.index()].errors.get()
    }

    /// Which of several drives an address is on.
    pub(super) fn drive_of(&self, request: IoRequest) -> Option<DriveId> {
        (self.drives.len() > 1).then(|| DriveId::of_byte(request.offset_bytes).0)
    }

    /// Flushes what was written to the drives before the call, all of them at once; when the last
    /// of them was done, or the first error.
    pub(super) async fn flush(&self, drives: DriveSet) -> Result<Nanos, IoError> {
        if let Some(only) = drives.only() {
            return self.flush_one(&self.drives[only.index()]).await;
        }
        let flush = |drive: DriveId| Box::pin(self.flush_one(&self.drives[drive.index()]));
        let mut running: Vec<_> = drives.iter().map(flush).collect();
        let (mut last, mut failure) = (Nanos::ZERO, None);
        std::future::poll_fn(|cx| {
            running.retain_mut(|flush| match flush.as_mut().poll(cx) {
                Poll::Pending => true,
                Poll::Ready(result) => {
                    match result {
                        Ok(done) => last = last.max(done),
                        Err(error) => drop(failure.get_or_insert(error)),
                    }
                    false
                }
            });
            if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        failure.map_or(Ok(last), Err)
    }

    /// Callers that come while a flush runs share the next.
    async fn flush_one(&self, drive: &DriveState) -> Result<Nanos, IoError> {
        // A flush already running may have begun before our write ended: the next one counts.
        let wanted = drive.flushes_started.get() + 1;
        loop {
            if !drive.flush_running.get() {
                if drive.flushes_done.get() >= wanted {
                    drive.flush_result.borrow().clone()?;
                    return Ok(self.config.clock.now());
                }
                drive.flush_running.set(true);
                let number = drive.flushes_started.get() + 1;
                drive.flushes_started.set(number);
                // Also when this future is dropped half-way: the others must not wait for ever.
                let guard = FlushGuard(drive);
                let result = self.run_flush(drive.id).await;
                drive.flushes_done.set(number);
                *drive.flush_result.borrow_mut() =
                    result.as_ref().map(|_| ()).map_err(Clone::clone);
                drop(guard);
                return result;
            }
            drive.flush_done.notified().await;
        }
    }

    async fn run_flush(&self, drive: DriveId) -> Result<Nanos, IoError> {
        let request = IoRequest { offset_bytes: drive.first_byte(), ..NOTHING };
        let mut attempts = 0;
        loop {
            let (completion, _) = self.config.device.submit(request, None).await;
            match completion.result {
                0.. => {
                    let drive = self.drive_of(request);
                    self.config.measure.io(IoKind::Flush, drive, 0, 0, completion);
                    return Ok(completion.completed);
                }
                result if is_transient(-result) && attempts < ATTEMPTS_MAX => attempts += 1,
                result => {
                    let error = self.io_error(request, ErrorKind::of_errno(-result), -result);
                    self.failed(request, &error, completion.completed);
                    return Err(error);
                }
            }
        }
    }

    /// To be called before so many bytes are made or compared: now and then it first hands over
    /// what is queued and works off what has completed, so that the device does not wait for the
    /// processor. Otherwise that is the executor's, once for all tasks that are runnable.
    pub(super) fn before_work(&self, bytes: u64) {
        let worked_on_bytes = self.worked_on_bytes.get();
        if worked_on_bytes >= SLICE_BYTES {
            self.config.device.kick();
            self.worked_on_bytes.set(bytes);
        } else {
            self.worked_on_bytes.set(worked_on_bytes + bytes);
        }
    }

    pub(super) fn failed(&self, request: IoRequest, error: &IoError, now: Nanos) {
        self.config.measure.error(error, now);
        let (drive, _) = DriveId::of_byte(request.offset_bytes);
        let DriveState { failures, errors, .. } = &self.drives[drive.index()];
        errors.set(errors.get() + 1);
        // What was damaged on the drive was read from it.
        if error.kind != ErrorKind::Corrupt {
            failures.set(failures.get().saturating_add(1));
        }
        if self.drives.len() > 1 {
            let count = |metrics: &mut Metrics| metrics.drive(drive.index()).errors += 1;
            self.config.measure.record(now, count);
        }
    }
}

pub(super) fn is_transient(errno: i32) -> bool {
    matches!(errno, libc::EAGAIN | libc::EINTR)
}

struct FlushGuard<'a>(&'a DriveState);

impl Drop for FlushGuard<'_> {
    fn drop(&mut self) {
        self.0.flush_running.set(false);
        self.0.flush_done.notify_all();
    }
}
