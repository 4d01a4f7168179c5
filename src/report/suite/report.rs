//! All that `discover` says: the machine, the place, what was tried, advice, and the flags of every
//! workload.

use ringfall_core::facts::RingFeatures;
use ringfall_host::survey::Survey;
use serde::Serialize;

use super::advice::{Advice, Weight, advise};
use super::machine::{Engine, Machine, Place};
use super::workload::{Asked, Invocation, WORKLOADS, invocations};

/// Findings and recommendations of `discover`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Discovery {
    /// Version of ringfall that made the report.
    pub version: &'static str,
    /// Everything that was found out about the machine.
    pub machine: Survey,
    /// Default engine settings of a run here.
    pub engine: Engine,
    /// The place recommended for the data.
    pub place: Place,
    /// Whether files there take I/O past the page cache (O_DIRECT), without which nothing runs;
    /// null where that could not be tried.
    pub takes_direct_io: Option<bool>,
    /// Outcome of trying to use io_uring.
    pub io_uring: IoUring,
    /// Recommended changes to the machine's configuration, the most important first.
    pub advice: Vec<Advice>,
    /// The invocations of each workload, with the reason for each flag.
    pub workloads: Vec<Invocation>,
}

/// Outcome of making a ring, registering the buffers of all shards with it, and having it complete
/// a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct IoUring {
    /// Whether a ring could be made and completed a request.
    pub works: bool,
    /// Reason why io_uring does not work, a sentence; null where it does.
    pub error: Option<String>,
    /// Mode in which completions are delivered: `DEFER_TASKRUN`, `COOP_TASKRUN` or `plain`.
    pub completions: Option<&'static str>,
    /// Memory that was to be registered, bytes.
    pub buffer_bytes: u64,
    /// Whether it could be registered; without that each I/O pins its pages.
    pub buffers_registered: Option<bool>,
}

impl IoUring {
    /// A trial that succeeded with so many bytes of buffers, and whether they were registered.
    #[must_use]
    pub fn works(features: RingFeatures, buffers_registered: bool, buffer_bytes: u64) -> IoUring {
        IoUring {
            works: true,
            error: None,
            completions: Some(completions(features)),
            buffer_bytes,
            buffers_registered: Some(buffers_registered),
        }
    }

    /// A trial with so many bytes of buffers that failed; the error is a sentence.
    #[must_use]
    pub fn failed(error: String, buffer_bytes: u64) -> IoUring {
        IoUring { error: Some(error), buffer_bytes, ..IoUring::default() }
    }

    fn advice(&self) -> Vec<Advice> {
        let mut all = Vec::new();
        if let Some(error) = &self.error {
            let what = format!("io_uring can't be used: {error}");
            all.push(Advice { weight: Weight::Needed, what, command: None });
        }
        if self.buffers_registered == Some(false) {
            let what = format!(
                "the kernel does not register {} MiB of I/O buffers: each I/O then pins its pages, \
                 which costs time",
                self.buffer_bytes >> 20
            );
            let command = Some("ulimit -l unlimited".to_owned());
            all.push(Advice { weight: Weight::Matters, what, command });
        }
        all
    }
}

fn completions(features: RingFeatures) -> &'static str {
    match features {
        RingFeatures { defer_taskrun: true, .. } => "DEFER_TASKRUN",
        RingFeatures { coop_taskrun: true, .. } => "COOP_TASKRUN",
        _ => "plain",
    }
}

impl Discovery {
    /// Draws the conclusions. `tried` is what came of trying io_uring and O_DIRECT.
    #[must_use]
    pub fn of(
        survey: Survey,
        asked: &Asked,
        machine: &Machine,
        engine: Engine,
        tried: (IoUring, Option<bool>),
    ) -> Discovery {
        let (io_uring, takes_direct_io) = tried;
        let mut known = io_uring.advice();
        if takes_direct_io == Some(false) {
            let what = format!(
                "files in {} do not take O_DIRECT: no run can measure the drive there; name \
                 another directory",
                machine.place.directory.display()
            );
            known.push(Advice { weight: Weight::Needed, what, command: None });
        }
        let workloads = WORKLOADS.iter().flat_map(|row| invocations(row.0, asked, machine));
        Discovery {
            version: env!("CARGO_PKG_VERSION"),
            advice: advise(&survey, &machine.place, &engine, &known),
            place: machine.place.clone(),
            workloads: workloads.collect(),
            machine: survey,
            engine,
            takes_direct_io,
            io_uring,
        }
    }
}
