//! Errors of a GPU.

use super::ErrorKind;

/// Something that a GPU could not do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{device}: {what}")]
pub struct GpuFault {
    /// Its class: `Gone` when the device is lost and no later job can succeed.
    pub kind: ErrorKind,
    /// Name of the device on which the job failed.
    pub device: String,
    /// Message of the driver.
    pub what: String,
}
