//! `ringfall discover`: what this machine has, what keeps a run from measuring its drive, how many
//! users it holds, and the flags of each workload for it.

use anyhow::Result;
use ringfall_config::{Facts, Options, resolve};
use ringfall_engine::ring::RingTrial;
use ringfall_host::exit::Exit;
use ringfall_host::remedy::told_setup;
use ringfall_host::survey::{Root, Survey};
use ringfall_host::{Room, takes_direct_io};
use ringfall_report::show::{discovery_details, discovery_page};
use ringfall_report::suite::{Asked, Discovery, Engine, IoUring, KvSize};

use super::{machine_of, print, print_json};
use crate::cli::DiscoverArgs;

/// Looks at the machine and says what it found.
pub fn run(args: &DiscoverArgs) -> Result<Exit> {
    // What a run of this model is made with here; the model may be the beginning of a name.
    let typed = Options { model: Some(args.model.clone()), ..Options::default() };
    let plan = resolve(&typed, None, &Facts::look())?;
    let engine = Engine {
        shards: u32::from(plan.shards),
        queue_depth: plan.queue_depth,
        io_bytes: u64::from(plan.io_size_bytes),
        buffer_bytes: plan.io_buffer_bytes,
    };
    let survey = Survey::look(&Root::machine(), Some(&Room::look()));
    let machine = machine_of(&survey, args.directory.as_deref().or(args.cache_dir.as_deref()));
    let buffer_bytes = engine.buffer_bytes;
    let ring = match RingTrial::run(engine.queue_depth, buffer_bytes) {
        Ok(trial) => IoUring::works(trial.features, trial.buffers_errno.is_none(), buffer_bytes),
        Err(error) => IoUring::failed(told_setup(&error), buffer_bytes),
    };
    let direct = takes_direct_io(&std::path::absolute(&machine.place.directory)?);
    let asked = Asked { model: plan.model.clone(), ..Asked::default() };
    let kv = KvSize::of(&plan);
    let found = Discovery::of(survey, &asked, &machine, engine, (ring, direct), kv);
    match (args.json, args.details) {
        (true, _) => print_json(&found),
        (false, true) => print(&discovery_details(&found)),
        (false, false) => print(&discovery_page(&found)),
    }
}
