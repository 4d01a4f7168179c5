//! Integration tests: one target, so that one build serves them all.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod analyze;
mod audit;
mod audit_published;
mod autoscale;
mod checkpoint;
mod cli;
mod compare;
mod dashboard;
mod datagen;
mod discover;
mod drives;
mod faults;
mod fuzz;
mod gpu;
mod gpu_direct;
mod interrupt;
mod launcher;
mod layouts;
mod limits;
mod links;
mod media;
mod media_failing;
mod merge;
mod mlperf;
#[cfg(feature = "objects")]
mod objects;
#[cfg(feature = "objects")]
mod objects_checkpoint;
mod package;
mod progress;
mod prometheus;
mod published;
mod published_runs;
mod quick;
mod ranks;
mod ranks_mpirun;
mod ranks_together;
mod readme;
mod regressions;
mod regressions_bounds;
mod regressions_hangs;
mod replay;
mod results;
mod run;
mod safety;
mod schedulers;
mod schema;
mod simulate;
mod simulated_traces;
mod sources;
mod suite;
mod support;
mod sweep;
mod tidy;
mod tidy_directions;
mod tools;
mod trace;
mod tracing;
mod trials;
