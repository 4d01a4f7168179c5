//! GPUDirect Storage: data files read into GPU memory and written from it by the drive itself,
//! through cuFile's batches.
//!
//! It is used only where a probe proves it: a real write and a real read through it of each data
//! file and from each GPU, compared by the GPU and by the host, on a thread of its own with a limit
//! on its time, since a library that waits for ever must not take the run with it. Given up before
//! it has touched anything, it never will, and other ways may be used; given up later, it may still
//! write where it was told to, and the caller has to end.
//!
//! *Critique.* That what cuFile does goes past host memory is cuFile's word: newer versions are
//! told not to go another way, of older ones the properties are believed.

#![allow(unsafe_code, reason = "calls of cuFile")]

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use super::super::direct::{Mover, NoDirect, Part, PartEnded, ThreadQueue};
use super::super::{Bell, DirectQueue, DirectStorage, GpuMemory, GpuQueue, GpuWork, Piece};
use super::CudaMemory;
use super::cufile::{
    Cufile, Description, Event, Handle, NVME_P2P, Properties, Status, Transfer, describe, errno_of,
};
use super::trial::Trial;
use crate::buffer::AlignedBytes;
use crate::clock::{Clock, Nanos};
use crate::error::SetupError;
use crate::fill::{self, ContentName, VerifyMode};
use crate::key::EntryKey;
use crate::units::{BLOCK_BYTES, MIB};

/// Transfers of a batch: cuFile takes 128 unless its configuration says otherwise.
const BATCH_ENTRIES: u32 = 32;
/// Batches of a shard on each GPU. A batch takes no more until all of it has ended.
const BATCHES: usize = 8;
/// Longest transfer: what cuFile's documentation gives as the default of `max_direct_io_size`.
const TRANSFER_BYTES_MAX: u64 = 16 * MIB;
/// Written and read by the probe of each file, at most.
const PROBE_BYTES: u64 = MIB;
/// Time that a look waits for something to end.
const LOOK: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 200_000 };
/// Longest wait for transfers of which cuFile does not tell any more: what the kernel gives an NVMe
/// command by default (`nvme_core.io_timeout`).
const SETTLE_MAX: Nanos = Nanos::from_secs(30);
/// `CUFILE_WAITING` and `CUFILE_PENDING`: it has not ended.
const UNDER_WAY: i32 = 1 | 2;
/// `CUFILE_COMPLETE`.
const COMPLETE: i32 = 16;
/// `CUFILE_BATCH`.
const BATCH_MODE: i32 = 1;
/// The kernel module by which cuFile reaches drives, where the kernel's own way is not used.
const MODULE: &str = "/proc/driver/nvidia-fs/version";

struct File {
    descriptor: OwnedFd,
    handle: Handle,
}

/// The data files as the GPUs' memory reaches them through cuFile; for any number of shards.
#[derive(Clone, Debug)]
pub struct Gds(Arc<Opened>);

struct Opened {
    library: Cufile,
    memory: Arc<CudaMemory>,
    files: Vec<File>,
    /// Addresses of the GPUs' memory that is registered.
    registered: Vec<u64>,
    batch_entries: u32,
    is_open: bool,
}

// SAFETY: handles of cuFile, which may be used from any thread; nothing here changes after it was
// made.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").field("files", &self.files.len()).finish_non_exhaustive()
    }
}

impl Gds {
    /// Whether cuFile is installed beside a driver, without which it is not even loaded: a quick
    /// look, before anything is prepared for it.
    pub fn is_installed() -> bool {
        super::driver::is_present() && super::cufile::is_present()
    }

    /// Opens the way between this memory, in which nothing is yet, and these data files, one a
    /// drive; proves it by writing and reading the first `probe_bytes` of each, whose content is
    /// lost. Takes no longer than `limit`.
    ///
    /// # Errors
    /// Why it can't be used, and whether anything else may use the memory and the files now.
    pub fn open(
        memory: &Arc<CudaMemory>,
        files: Vec<OwnedFd>,
        probe_bytes: u64,
        limit: Duration,
    ) -> Result<Gds, NoDirect> {
        let (sender, receiver) = sync_channel(1);
        let memory = Arc::clone(memory);
        let trial = Arc::new(Trial::default());
        let own = Arc::clone(&trial);
        let work = move || {
            // Whoever waited no longer does: what came too late is given back here.
            let _told = sender.send(Opened::establish(memory, files, probe_bytes, &own));
        };
        std::thread::Builder::new().name("ringfall-gds".to_owned()).spawn(work).map_err(
            |error| NoDirect::Unusable(format!("no thread can be started to try it ({error})")),
        )?;
        let seconds = limit.as_secs_f64();
        match receiver.recv_timeout(limit) {
            Ok(opened) => opened.map(Gds).map_err(NoDirect::Unusable),
            Err(RecvTimeoutError::Timeout) if trial.give_up() => Err(NoDirect::UnderWay(format!(
                "cuFile did not finish a trial write and read within {seconds:.0} s, and may \
                 still write to GPU memory and to the data files"
            ))),
            Err(RecvTimeoutError::Timeout) => {
                Err(NoDirect::Unusable(format!("cuFile did not start within {seconds:.0} s")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(NoDirect::Unusable("the trial of cuFile ended early".to_owned()))
            }
        }
    }
}

impl Opened {
    fn establish(
        memory: Arc<CudaMemory>,
        files: Vec<OwnedFd>,
        probe_bytes: u64,
        trial: &Trial,
    ) -> Result<Arc<Opened>, String> {
        let library = Cufile::load()?;
        let mut gds = Opened {
            library,
            memory,
            files: Vec::new(),
            registered: Vec::new(),
            batch_entries: BATCH_ENTRIES,
            is_open: false,
        };
        gds.library.forbid_compatibility();
        // SAFETY: `drop` closes it.
        let opened = unsafe { (gds.library.driver_open)() };
        tried("could not be started", opened)?;
        gds.is_open = true;
        let mut properties = Properties::default();
        // SAFETY: writes properties, for which there is room and to spare.
        let told = unsafe { (gds.library.properties)(&raw mut properties) };
        tried("does not tell its properties", told)?;
        judge(&properties, Path::new(MODULE).exists())?;
        if properties.batch_entries_max > 0 {
            gds.batch_entries = gds.batch_entries.min(properties.batch_entries_max);
        }
        gds.register_memory()?;
        for descriptor in files {
            let mut handle: Handle = std::ptr::null_mut();
            let mut description = Description::of(descriptor.as_raw_fd());
            // SAFETY: the descriptor is open for as long as the handle, which `drop` gives back.
            let code =
                unsafe { (gds.library.file_register)(&raw mut handle, &raw mut description) };
            tried("cannot use the data file", code)?;
            gds.files.push(File { descriptor, handle });
        }
        let gds = Arc::new(gds);
        trial.begin()?;
        gds.prove(probe_bytes.min(PROBE_BYTES) / BLOCK_BYTES * BLOCK_BYTES, trial)?;
        tracing::info!(
            "cuFile {} moves data between GPU memory and the drives; it has registered the memory \
             of {} of {} GPUs",
            gds.library.version_text().unwrap_or_else(|| "of an unknown version".to_owned()),
            gds.registered.len(),
            gds.memory.devices.len()
        );
        Ok(gds)
    }

    /// Registers each GPU's part of the memory. Where a GPU can't map so much, cuFile goes by way
    /// of buffers of its own on the GPU, which is slower and still past host memory.
    fn register_memory(&mut self) -> Result<(), String> {
        for device in &self.memory.devices {
            device.enter().map_err(|fault| fault.to_string())?;
            let bytes = self.memory.device_bytes as usize;
            // SAFETY: the device's own allocation, which outlives this; `drop` gives it back.
            let status = unsafe { (self.library.memory_register)(device.start, bytes, 0) };
            match status.code {
                0 => self.registered.push(device.start),
                _ => {
                    tracing::info!("GPU memory is not registered with cuFile: {}", describe(status))
                }
            }
        }
        Ok(())
    }

    /// A write and a read of each file from the first GPU, and of the first file from each other.
    fn prove(self: &Arc<Self>, bytes: u64, trial: &Trial) -> Result<(), String> {
        if bytes == 0 {
            return Err("the data file has no space yet to try it on".to_owned());
        }
        let ways = (0..self.files.len())
            .map(|drive| (0, drive))
            .chain((1..self.memory.devices.len()).map(|device| (device, 0)));
        let mut mover = Batches::new(Arc::clone(self))?;
        let queue =
            self.memory.open_queue(Clock::Os, Bell::silent()).map_err(|error| error.to_string())?;
        for (number, (device, drive)) in ways.enumerate() {
            trial.goes_on()?;
            let offset_bytes = device as u64 * self.memory.device_bytes;
            let memory = Piece { offset_bytes, length_bytes: bytes };
            let name = |version| ContentName {
                seed: u64::from_be_bytes(*b"gds test"),
                key: EntryKey(number as u128),
                version,
            };
            let (written, other) = (name(1), name(2));
            let part = |is_write| Part { drive, offset_bytes: 0, is_write, memory };
            work(&*queue, &GpuWork::Fill { name: written, first_block: 0 }, memory)?;
            trial.goes_on()?;
            mover.move_one("write", part(true))?;
            trial.goes_on()?;
            self.compare_on_host(drive, bytes, &written)?;
            work(&*queue, &GpuWork::Fill { name: other, first_block: 0 }, memory)?;
            trial.goes_on()?;
            mover.move_one("read", part(false))?;
            let mode = VerifyMode::Full;
            let check = GpuWork::Check { name: written, first_block: 0, mode };
            let bad = work(&*queue, &check, memory)?;
            if bad > 0 {
                return Err(format!(
                    "a trial read through cuFile brought {bad} of {} blocks wrong",
                    bytes / BLOCK_BYTES
                ));
            }
        }
        Ok(())
    }

    fn compare_on_host(&self, drive: usize, bytes: u64, name: &ContentName) -> Result<(), String> {
        let mut buffer = AlignedBytes::zeroed(bytes as usize);
        let mut done = 0;
        while done < bytes {
            let rest = &mut buffer.bytes_mut()[done as usize..];
            match rustix::io::pread(&self.files[drive].descriptor, rest, done) {
                Ok(0) => return Err("a trial write through cuFile did not arrive".to_owned()),
                Ok(read) => done += read as u64,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(format!("the data file can't be read ({errno})")),
            }
        }
        match fill::verify(VerifyMode::Full, buffer.bytes(), name, 0).blocks_bad {
            0 => Ok(()),
            bad => Err(format!("a trial write through cuFile left {bad} blocks wrong in the file")),
        }
    }
}

/// One job of the GPU, to its end; the wrong blocks that it found.
fn work(queue: &dyn GpuQueue, work: &GpuWork, memory: Piece) -> Result<u64, String> {
    // SAFETY: nobody uses the memory before the run begins, and the job has ended below.
    unsafe { queue.submit(work, &[memory]) }.map_err(|fault| fault.to_string())?;
    queue.finish();
    let mut came = Err("the GPU did not finish a trial job".to_owned());
    queue.reap(&mut |_, result| {
        came = result.map(|done| done.found.blocks_bad).map_err(|fault| fault.to_string());
    });
    came
}

fn tried(what: &str, status: Status) -> Result<(), String> {
    match status.code {
        0 => Ok(()),
        _ => Err(format!("cuFile {what} ({})", describe(status))),
    }
}

/// Whether drives are reached directly, by what cuFile says of itself.
fn judge(properties: &Properties, has_module: bool) -> Result<(), String> {
    if properties.storage_bits & NVME_P2P != 0 {
        return Ok(());
    }
    match (has_module && properties.module_major > 0, properties.storage_bits) {
        (true, 1..) => Ok(()),
        (true, 0) => {
            Err("cuFile reaches no kind of storage directly, and would go by way of host \
                          memory (its compatibility mode)"
                .to_owned())
        }
        (false, _) => {
            Err("cuFile would go by way of host memory (its compatibility mode), as the \
                           kernel module nvidia-fs is not loaded"
                .to_owned())
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        for file in &self.files {
            // SAFETY: registered by `establish`, given back once; no batch uses it any more, since
            // each holds this.
            unsafe { (self.library.file_deregister)(file.handle) };
        }
        for start in &self.registered {
            // SAFETY: as above.
            let _code = unsafe { (self.library.memory_deregister)(*start) };
        }
        if self.is_open {
            // SAFETY: opened by `establish`.
            let _code = unsafe { (self.library.driver_close)() };
        }
    }
}

impl DirectStorage for Gds {
    fn open_queue(&self, bell: Bell) -> Result<Box<dyn DirectQueue>, SetupError> {
        let gds = Arc::clone(&self.0);
        let make = move || Batches::new(gds);
        Ok(Box::new(ThreadQueue::start(bell, TRANSFER_BYTES_MAX, make)?))
    }
}

/// A batch: idle, or with transfers under way.
struct Batch {
    handle: Handle,
    device: usize,
    /// Numbers of the parts under way, by their cookie; none where one has ended.
    parts: Vec<Option<u64>>,
    left: usize,
    /// Transfers that cuFile may look at until the batch is over.
    transfers: Vec<Transfer>,
}

struct Batches {
    gds: Arc<Opened>,
    batches: Vec<Batch>,
    events: Vec<Event>,
}

impl Batches {
    fn new(gds: Arc<Opened>) -> Result<Batches, String> {
        let mut all = Batches { gds, batches: Vec::new(), events: Vec::new() };
        let entries = all.gds.batch_entries;
        all.events = vec![Event::default(); entries as usize];
        for device in 0..all.gds.memory.devices.len() {
            all.enter(device)?;
            for _ in 0..BATCHES {
                let mut handle: Handle = std::ptr::null_mut();
                // SAFETY: writes a handle, which `drop` gives back.
                let code = unsafe { (all.gds.library.batch_open)(&raw mut handle, entries) };
                tried("has no batch", code)?;
                let (parts, transfers) = (Vec::new(), Vec::new());
                all.batches.push(Batch { handle, device, parts, left: 0, transfers });
            }
        }
        Ok(all)
    }

    fn enter(&self, device: usize) -> Result<(), String> {
        self.gds.memory.devices[device].enter().map_err(|fault| fault.to_string())
    }

    fn device_of(&self, part: &Part) -> usize {
        (part.memory.offset_bytes / self.gds.memory.device_bytes) as usize
    }

    fn transfer(&self, part: &Part, cookie: usize) -> Transfer {
        let memory = &self.gds.memory;
        Transfer {
            mode: BATCH_MODE,
            memory: memory.devices[self.device_of(part)].start,
            file_offset: part.offset_bytes.cast_signed(),
            memory_offset: (part.memory.offset_bytes % memory.device_bytes).cast_signed(),
            bytes: part.memory.length_bytes as usize,
            file: self.gds.files[part.drive].handle,
            operation: i32::from(part.is_write),
            cookie,
        }
    }

    /// Begins parts on one device with an idle batch of its own.
    fn begin_batch(&mut self, index: usize, parts: &[(u64, Part)], ended: &mut Vec<PartEnded>) {
        let transfers: Vec<Transfer> = parts
            .iter()
            .enumerate()
            .map(|(cookie, (_, part))| self.transfer(part, cookie))
            .collect();
        let device = self.batches[index].device;
        let entered = self.enter(device);
        let gds = &*self.gds;
        let batch = &mut self.batches[index];
        batch.transfers = transfers;
        batch.parts = parts.iter().map(|(number, _)| Some(*number)).collect();
        batch.left = parts.len();
        let (count, first) = (batch.transfers.len() as u32, batch.transfers.as_mut_ptr());
        let status = match entered {
            // SAFETY: the transfers stay where they are until the batch is over; their memory is
            // promised to `submit`; the file and the memory outlive the batch.
            Ok(()) => unsafe { (gds.library.batch_submit)(batch.handle, count, first, 0) },
            Err(_) => Status { code: -1, cuda: 0 },
        };
        if status.code == 0 {
            return;
        }
        tracing::warn!("cuFile took no batch of {count}: {}", describe(status));
        // Of one that was refused nothing is under way, unless cuFile says so.
        batch.settle(gds, BTreeSet::new());
        let errno = -i64::from(libc::EIO);
        ended.extend(batch.parts.drain(..).flatten().map(|number| (number, errno)));
    }

    /// Collects what has ended of one batch; waits for something when told to.
    fn look(&mut self, index: usize, waits: bool, ended: &mut Vec<PartEnded>) {
        let (device, left) = (self.batches[index].device, self.batches[index].left);
        let _entered = self.enter(device);
        let gds = &*self.gds;
        let batch = &mut self.batches[index];
        let (mut count, mut limit) = (left as u32, LOOK);
        if !waits {
            limit.tv_nsec = 0;
        }
        let (least, events) = (u32::from(waits), self.events.as_mut_ptr());
        // SAFETY: room for as many events as are asked for, at most those of a whole batch.
        let status = unsafe {
            (gds.library.batch_status)(batch.handle, least, &raw mut count, events, &raw mut limit)
        };
        if status.code != 0 {
            tracing::warn!("cuFile does not tell of a batch: {}", describe(status));
            // What of it had begun must be over before anybody has its memory.
            let begun = (0..).zip(&batch.parts).filter(|(_, part)| part.is_some());
            let begun = begun.map(|(cookie, _)| cookie).collect();
            batch.settle(gds, begun);
            let errno = -i64::from(libc::EIO);
            ended.extend(batch.parts.drain(..).flatten().map(|number| (number, errno)));
            return;
        }
        for event in &self.events[..(count as usize).min(self.events.len())] {
            if event.status & UNDER_WAY != 0 {
                continue;
            }
            let Some(number) = batch.parts.get_mut(event.cookie).and_then(Option::take) else {
                continue;
            };
            batch.left -= 1;
            let result = match event.status {
                COMPLETE if event.result >= 0 => event.result as i64,
                _ if event.result < 0 => errno_of(event.result),
                _ => -i64::from(libc::EIO),
            };
            ended.push((number, result));
        }
    }

    /// Moves one part to its end: for the probe.
    fn move_one(&mut self, what: &str, part: Part) -> Result<(), String> {
        let mut ended = Vec::new();
        self.begin_batch(self.first_of(self.device_of(&part)), &[(0, part)], &mut ended);
        while ended.is_empty() {
            self.collect(&mut ended);
        }
        match ended[0].1 {
            moved if moved == part.memory.length_bytes as i64 => Ok(()),
            failed if failed < 0 => {
                let error = std::io::Error::from_raw_os_error((-failed) as i32);
                Err(format!("a trial {what} through cuFile failed ({error})"))
            }
            moved => Err(format!("a trial {what} through cuFile moved {moved} bytes only")),
        }
    }

    fn first_of(&self, device: usize) -> usize {
        device * BATCHES
    }
}

impl Batch {
    /// Cancels it, and waits until cuFile has told of the end of these transfers, by their cookies,
    /// and says of no other that it is under way; no longer than [`SETTLE_MAX`].
    fn settle(&mut self, gds: &Opened, mut begun: BTreeSet<usize>) {
        self.left = 0;
        // SAFETY: a batch of this thread.
        let _cancelled = unsafe { (gds.library.batch_cancel)(self.handle) };
        let mut events = vec![Event::default(); gds.batch_entries as usize];
        let deadline = Clock::Os.now() + SETTLE_MAX;
        loop {
            let (mut count, mut limit) = (events.len() as u32, LOOK);
            // SAFETY: room for so many events.
            let status = unsafe {
                let (events, limit) = (events.as_mut_ptr(), &raw mut limit);
                (gds.library.batch_status)(self.handle, 0, &raw mut count, events, limit)
            };
            let told = match status.code {
                0 => &events[..(count as usize).min(events.len())],
                _ => &[],
            };
            let (under_way, ended): (Vec<&Event>, Vec<&Event>) =
                told.iter().partition(|event| event.status & UNDER_WAY != 0);
            for event in ended {
                begun.remove(&event.cookie);
            }
            if begun.is_empty() && under_way.is_empty() {
                return;
            }
            if Clock::Os.now() >= deadline {
                tracing::warn!(
                    "cuFile does not tell what became of {} transfers: data that is verified \
                     from now on may be found wrong",
                    begun.len().max(under_way.len())
                );
                return;
            }
            // Nothing waits where the call fails at once.
            std::thread::sleep(Duration::from_nanos(LOOK.tv_nsec.unsigned_abs()));
        }
    }
}

impl Mover for Batches {
    fn room(&self) -> usize {
        // Whatever device the parts are on: each has a batch for them.
        let idle = |device| {
            let own = self.batches.iter().filter(|batch| batch.device == device);
            own.filter(|batch| batch.left == 0).count()
        };
        let fewest = (0..self.gds.memory.devices.len()).map(idle).min().unwrap_or(0);
        if fewest > 0 { self.gds.batch_entries as usize } else { 0 }
    }

    fn begin(&mut self, parts: &[(u64, Part)], ended: &mut Vec<PartEnded>) {
        for device in 0..self.gds.memory.devices.len() {
            let own: Vec<(u64, Part)> =
                parts.iter().filter(|(_, part)| self.device_of(part) == device).copied().collect();
            if own.is_empty() {
                continue;
            }
            let is_idle = |batch: &Batch| batch.device == device && batch.left == 0;
            let index = self.batches.iter().position(is_idle).expect("there was room");
            self.begin_batch(index, &own, ended);
        }
    }

    fn collect(&mut self, ended: &mut Vec<PartEnded>) {
        let busy: Vec<usize> =
            (0..self.batches.len()).filter(|&index| self.batches[index].left > 0).collect();
        for index in &busy {
            self.look(*index, false, ended);
        }
        if let (true, Some(first)) = (ended.is_empty(), busy.first()) {
            self.look(*first, true, ended);
        }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        for batch in &self.batches {
            let _entered = self.enter(batch.device);
            // SAFETY: opened by `new`, with nothing under way, given back once.
            unsafe { (self.gds.library.batch_close)(batch.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reaches_drives_directly_counts() {
        let properties = |module_major, storage_bits| Properties {
            module_major,
            storage_bits,
            ..Properties::default()
        };
        assert_eq!(judge(&properties(0, NVME_P2P), false), Ok(()));
        assert_eq!(judge(&properties(2, 1 << 4), true), Ok(()));
        for (properties, has_module, words) in [
            (properties(0, 0), false, "nvidia-fs is not loaded"),
            (properties(2, 1 << 4), false, "nvidia-fs is not loaded"),
            (properties(2, 0), true, "no kind of storage"),
            (properties(0, 1 << 4), true, "compatibility mode"),
        ] {
            let why = judge(&properties, has_module).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
