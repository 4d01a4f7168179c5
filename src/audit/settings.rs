//! What an audit is told beside the paths.

/// What an audit is told beside the paths.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AuditSettings {
    /// What the storage of one host is specified to read, MB/s (10^6 B/s).
    pub drive_read_mb_per_s: Option<f64>,
    /// What it is specified to write, MB/s.
    pub drive_write_mb_per_s: Option<f64>,
}
