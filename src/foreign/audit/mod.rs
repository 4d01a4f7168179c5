//! Audit of results that others published: reads them file by file, and computes their rates over
//! the time that really passed. Every finding names its inputs (file and JSON key), its formula and
//! bounds.
//!
//! Here: reading a tree of results whatever is in it, arithmetic, findings as values. Not here:
//! running anything, deciding whether our own runs are trustworthy (`results`), or writing to the
//! terminal (`show`).
//!
//! Files are not read with the reader of documents (`results::document::read`), on purpose: that
//! one reads a result of ours, or the figures that the reference's have in common with it, in the
//! shape that they should have. An audit reads what strangers publish. It must go on where a figure
//! has another type, name the file, the key and the value that can't be, and know keys that no
//! document has: a run's metadata, a harness's summary.
//!
//! The way of a figure: `walk` lists files within bounds, `json` reads each, `rank`, `summary`,
//! `command` and `log` make facts of them, `leaf` puts those of one run together, `span` bounds the
//! time, `rates` adds up as the harness does, `report` makes the rows, and `findings` holds them
//! against each other.

mod command;
mod find;
mod finding;
mod findings;
mod json;
mod leaf;
mod log;
mod preload;
mod rank;
mod rates;
mod report;
mod span;
mod summary;
mod walk;

pub use find::audit;
pub use finding::{AuditSettings, Finding, Input, Kind, Level, Value};
pub use rates::{Direction, Rate};
pub use report::{
    AUDIT_VERSION, Audit, GroupReport, LeafReport, PassedOver, RankRow, Read, Skipped, SlaRow,
};

#[cfg(test)]
mod hostile_test;
