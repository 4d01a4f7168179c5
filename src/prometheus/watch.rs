//! A run being watched: its figures are added up here, and published where the plan says.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use ringfall_config::{Listen, Plan};
use ringfall_core::clock::Nanos;
use ringfall_engine::shard::Second;
use ringfall_model::facts::RunFigures;
use ringfall_running::run::{Phase, Progress};

use super::file::MetricsFile;
use super::look::{LastLook, RunLook};
use super::server::MetricsServer;
use super::table::RunIdentity;

/// See the module. Publishing ends when it is dropped.
pub struct Watch {
    look: RunLook,
    last: Arc<LastLook>,
    server: Option<MetricsServer>,
    _file: Option<MetricsFile>,
}

impl Watch {
    /// Begins to publish the metrics of that plan's run; none where nobody asked for them.
    pub fn start(plan: &Plan) -> Result<Option<Watch>> {
        if plan.metrics_listen.is_none() && plan.metrics_file.is_none() {
            return Ok(None);
        }
        let look = RunLook::unbegun();
        let last = Arc::new(LastLook::new(&look));
        let identity = RunIdentity::of(plan);
        let serve = |Listen(address)| {
            MetricsServer::start(address, identity.clone(), Arc::clone(&last)).with_context(|| {
                format!(
                    "--metrics-listen {address}: the metrics can't be served there: give another \
                     port, or an address of this machine"
                )
            })
        };
        let server = plan.metrics_listen.map(serve).transpose()?;
        let keep = |path: &Path| {
            MetricsFile::start(path, identity.clone(), Arc::clone(&last)).with_context(|| {
                format!(
                    "--metrics-file {}: the metrics can't be written there: give a file in a \
                     directory that you may write to",
                    path.display()
                )
            })
        };
        let file = plan.metrics_file.as_deref().map(keep).transpose()?;
        Ok(Some(Watch { look, last, server, _file: file }))
    }

    /// Address at which the metrics are served, if they are.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(MetricsServer::address)
    }

    /// The run is in a phase in which no shards run yet.
    pub fn enter(&mut self, phase: Phase) {
        self.look.phase = phase;
        (self.look.elapsed, self.look.left) = (Nanos::ZERO, Nanos::MAX);
        self.last.set(&self.look);
    }

    /// Adds seconds of a shard, which are published with the next look.
    pub fn add(&mut self, seconds: &[Second]) {
        self.look.add(seconds);
    }

    /// Publishes how the run is getting on.
    pub fn see(&mut self, progress: &Progress<'_>) {
        self.look.see(progress);
        self.last.set(&self.look);
    }

    /// Publishes the figures of the run, which is over.
    pub fn end(&mut self, figures: &RunFigures) {
        self.look.end(figures);
        self.last.set(&self.look);
    }
}
