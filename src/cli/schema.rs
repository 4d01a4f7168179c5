//! Arguments of the command `schema`.

use clap::{Args, ValueEnum};

/// Arguments of the command `schema`.
#[derive(Clone, Debug, Args)]
pub struct SchemaArgs {
    /// Document that the schema describes
    #[arg(value_name = "NAME", value_enum, default_value_t = SchemaName::Results)]
    pub name: SchemaName,
}

/// JSON documents that the program writes for others to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SchemaName {
    /// Results of runs, also merged ones
    Results,
    /// Limits of a device, from `saturate`
    Limits,
    /// Limits of an object store, from `saturate`
    ObjectLimits,
    /// Results of `checkpoint write`, `read`, `run` and `compare`
    Checkpoint,
    /// Answer of `quick`
    Quick,
    /// Table of a suite, from `suite` (`table.json`)
    Suite,
    /// Table of simulated runs side by side, from `simulate`
    WhatIf,
    /// Two results compared, from `compare --json`
    Comparison,
    /// Published results audited, from `audit --json`
    Audit,
    /// A machine and the flags for it, from `discover --json`
    Discovery,
    /// A recorded trace described, from `trace info --json`
    Trace,
    /// Sizes of caches for a recorded trace, from `trace plan --json`
    TracePlan,
    /// Layouts of engines compared on a drive, from `layouts compare --json`
    Layouts,
    /// A recording of an engine's calls done again, from `layouts replay --json`
    LayoutReplay,
    /// Two systems over all configurations that both have run, from `compare --json` of collections
    Analysis,
}
