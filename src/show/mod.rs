//! Results in a person's hands: the terminal and its progress line, pages, workbooks, a fio job.
//!
//! What must not be here: deciding what a figure is or whether it can be trusted (`results`).

mod fio_job;
mod html;
pub mod progress;
mod sheet;
mod terminal;
mod what_if;

pub use fio_job::fio_job;
pub use html::{Named, write_html, write_roofline_html, write_what_if_html};
pub use sheet::write_sheet;
pub use terminal::{Banner, Style, print_banner, print_summary};
pub use what_if::{WhatIf, WhatIfRow};

#[cfg(test)]
mod tests;
