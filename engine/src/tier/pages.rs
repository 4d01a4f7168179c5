//! Host memory that is page-locked for GPUs, so that copies between the two need no other memory.

#![allow(unsafe_code, reason = "a method whose caller promises that memory stays mapped")]

use std::fmt::Debug;

use crate::error::GpuFault;

/// Locks pages of host memory, for devices that reach it directly.
pub trait PageLocker: Send + Sync + Debug {
    /// Has the devices reach host memory without a copy between, until the answer is dropped.
    ///
    /// # Safety
    /// The range stays mapped until the answer is dropped.
    ///
    /// # Errors
    /// They can't: copies then go by way of memory of the driver's.
    unsafe fn lock_pages(&self, start: *mut u8, bytes: usize) -> Result<HostPages, GpuFault> {
        // What needs no page-locked memory has it as it is.
        let (_start, _bytes) = (start, bytes);
        Ok(HostPages::new(|| {}))
    }
}

/// Host memory that devices reach directly; no more once dropped.
pub struct HostPages(Option<Box<dyn FnOnce() + Send + Sync>>);

impl HostPages {
    pub(super) fn new(unlock: impl FnOnce() + Send + Sync + 'static) -> HostPages {
        HostPages(Some(Box::new(unlock)))
    }
}

impl Debug for HostPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostPages")
    }
}

impl Drop for HostPages {
    fn drop(&mut self) {
        if let Some(unlock) = self.0.take() {
            unlock();
        }
    }
}
