//! Busy times of a simulated drive and its memory.

/// Figures that only a simulation has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SimulationFigures {
    /// Share of the window in which the drive was occupied.
    pub drive_busy_share: f64,
    /// Share of the window in which I/Os occupied it for as long as its limit of I/Os a second
    /// says, rather than its bandwidth.
    pub drive_iops_share: f64,
    /// Share of the window in which I/Os occupied it only because so many are in flight.
    pub drive_slowed_share: f64,
    /// Share of the window in which I/Os waited for one of the drive's parallel places.
    pub drive_crowded_share: f64,
    /// Share of the window in which a core was busy copying, that of the busiest shard.
    pub memory_busy_share: f64,
    /// Share of the window in which something was copied between host and GPU memory.
    pub gpu_link_busy_share: f64,
    /// Mean number of files of an engine's layout that waited for a thread.
    pub files_waiting_mean: f64,
}
