//! A run that Prometheus can watch: figures of the run's last look at its shards, as text that is
//! served over HTTP and written to a file. Figures of an answer of `ringfall quick` are text, too.
//!
//! The run's own thread adds up what the shards have reported anyway, and copies it; the threads
//! that serve and write read that copy, so that no scraper can hold up a shard. What must not be
//! here: figures that a run would not count without it.

mod file;
mod look;
mod request;
mod server;
mod table;
mod text;
mod watch;

pub use text::answer_text;
pub use watch::Watch;

#[cfg(test)]
mod tests;
