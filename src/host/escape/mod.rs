//! Text from outside (results, files, flags, device names) made fit for the format that it ends
//! in: one function a format. Every writer of a format uses its function, and nobody escapes
//! anywhere else. What must not be here: the writing itself.
//!
//! | format | function | what a hostile text would otherwise do |
//! |---|---|---|
//! | fio job | [`fio`] | become sections and keys of the job, some of which fio executes |
//! | CSV | [`csv`] | be evaluated as a formula by a spreadsheet |
//! | workbook | [`xlsx`] | make the workbook unreadable, or impossible to write |
//! | YAML | [`yaml`], [`yaml_key`] | become other keys, or another value than the text |
//! | HTML, SVG | [`html`] | become markup or script |
//! | terminal | [`terminal`], [`terminal_page`] | move the cursor, colour, hide or reorder words |
//! | JSON on a terminal | [`json`] | as on a terminal; files keep what they are given |
//! | labels of metrics | [`prometheus`] | become other labels, or lines with figures of their own |
//! | shell | [`shell`] | become other words, or other commands |
//! | bpftrace | [`bpftrace`] | end the string that it is in, and become a program |

mod bpftrace;
mod csv;
mod fio;
mod hidden;
mod html;
mod json;
mod prometheus;
mod shell;
mod terminal;
mod xlsx;
mod yaml;

pub use bpftrace::bpftrace;
pub use csv::csv;
pub use fio::fio;
pub use html::html;
pub use json::json;
pub use prometheus::prometheus;
pub use shell::shell;
pub use terminal::{terminal, terminal_page, terminal_path};
pub use xlsx::xlsx;
pub use yaml::{yaml, yaml_key};

#[cfg(test)]
mod hostile_test;
