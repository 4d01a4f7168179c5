//! `ringfall report`: results read back, as a page or a table.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::refuse_input;
use super::run::write_fio_job;
use crate::cli::ReportArgs;
use crate::config::InputError;
use crate::exit::Exit;
use crate::results::document::ResultFile;
use crate::show::{Named, write_html, write_sheet};

/// Makes the report.
///
/// # Errors
/// A result can't be read or is none; the report can't be written.
pub fn report(args: &ReportArgs) -> Result<Exit> {
    let mut results = Vec::new();
    for path in &args.results {
        let document = ResultFile::read_ours(path)?.document;
        let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        results.push(Named { name, document });
    }
    tell_apart(&mut results, args);
    refuse_input("--output", &args.output, args.results.iter().map(PathBuf::as_path))?;
    let told = || format!("the report can't be written to {}", args.output.display());
    let ending = args.output.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match (ending.to_ascii_lowercase().as_str(), results.as_slice()) {
        ("html" | "htm", results) => write_html(results, &args.output).with_context(told)?,
        ("fio", [one]) => write_fio_job(&one.document, &args.output).with_context(told)?,
        ("xlsx" | "csv", [one]) => {
            write_sheet(&one.document, &args.output).with_context(told)?;
        }
        ("xlsx" | "csv" | "fio", _) => {
            let what = "a workbook, CSV or fio job holds one result: give one, or a page (.html)";
            return Err(
                InputError::new(format!("--output {}: {what}", args.output.display())).into()
            );
        }
        _ => {
            let what = "is neither .html, .xlsx, .csv nor .fio";
            return Err(
                InputError::new(format!("--output {} {what}", args.output.display())).into()
            );
        }
    }
    Ok(Exit::Done)
}

/// Results whose files have the same name are shown with their paths.
fn tell_apart(results: &mut [Named], args: &ReportArgs) {
    let names: Vec<String> = results.iter().map(|named| named.name.clone()).collect();
    for (index, named) in results.iter_mut().enumerate() {
        if names.iter().filter(|name| **name == named.name).count() > 1 {
            named.name = args.results[index].display().to_string();
        }
    }
}
