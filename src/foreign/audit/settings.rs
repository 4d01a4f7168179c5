//! Settings of an audit, beside the paths.

/// Settings of an audit, beside the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AuditSettings {
    /// Specified read bandwidth of one host's storage, MB/s (10^6 B/s).
    pub drive_read_mb_per_s: Option<f64>,
    /// Specified write bandwidth of one host's storage, MB/s.
    pub drive_write_mb_per_s: Option<f64>,
}
