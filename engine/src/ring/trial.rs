//! Whether a ring with registered buffers can be made and used here, found out by doing it.

#![allow(unsafe_code, reason = "registering memory, and pushing an entry that has no buffer")]

use io_uring::opcode;

use super::dialect::Files;
use super::patience::SILENCE_MAX;
use super::probe::{RingFeatures, setup_failure};
use super::raw::RawRing;
use super::setup::{RingConfig, RingSetup};
use crate::buffer::{Mapping, PageKind};
use crate::error::SetupError;
use crate::units::MIB;

/// Findings of a trial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingTrial {
    /// Flags that the kernel took.
    pub features: RingFeatures,
    /// The positive errno with which the kernel refused to register the buffers; none when it
    /// registered them. Without registration each I/O pins its pages: slower, not wrong.
    pub buffers_errno: Option<i32>,
    /// Pages that back the buffers.
    pub pages: PageKind,
}

impl RingTrial {
    /// Makes a ring as a shard does, with `entries` entries and `buffer_bytes` of buffers in pieces
    /// of 1 MiB, has the kernel complete one request that does nothing, and takes all of it down.
    ///
    /// # Errors
    /// When io_uring is missing, forbidden or out of a resource, or there is no memory.
    pub fn run(entries: u32, buffer_bytes: u64) -> Result<RingTrial, SetupError> {
        let bytes = usize::try_from(buffer_bytes).unwrap_or(usize::MAX / 2).max(1);
        let memory = Mapping::new(bytes, true)?;
        let config = RingConfig { entries: entries.max(1), ..RingConfig::default() };
        let mut setup = RingSetup::new(config)?;
        // SAFETY: `memory` outlives the ring, which is declared after it and so dropped before it;
        // and the kernel holds registered pages whatever is unmapped.
        let registered =
            unsafe { setup.register_buffers(memory.as_ptr(), memory.len(), MIB as usize) };
        let features = setup.features();
        let mut ring: RawRing<Files> = RawRing::new(setup.ring);
        // SAFETY: the entry refers to no memory.
        unsafe { ring.push(0, opcode::Nop::new().build(), |_| {}) };
        let _silent = ring.wait(Some(SILENCE_MAX), |_| {});
        // It does nothing: what has not completed by now the kernel had no memory for.
        match ring.reap().map_or(-libc::EAGAIN, |(_, result)| result) {
            0.. => {}
            errno => return Err(setup_failure(-errno)),
        }
        Ok(RingTrial {
            features,
            buffers_errno: registered.err().map(|error| error.raw_os_error().unwrap_or(0)),
            pages: memory.page_kind(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_made_used_and_taken_down() {
        let trial = RingTrial::run(8, 2 * MIB).unwrap();
        assert_eq!(trial.features.registered_buffers, trial.buffers_errno.is_none());
        assert!(!trial.features.registered_file, "no file was given");
        let again = RingTrial::run(0, 0).unwrap();
        assert_eq!(again.features.defer_taskrun, trial.features.defer_taskrun);
    }
}
