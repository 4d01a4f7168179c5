//! The files that a run writes: found wanting before it, written after it.

use std::path::{Path, PathBuf};

use anyhow::Result;

use ringfall_config::{Plan, RooflineFrom};
use ringfall_engine::device::{DATA_NAME, LOCK_NAME};
use ringfall_host::{Overdue, is_strange_pipe, try_output, write_output};
use ringfall_model::{Document, write_json};
use ringfall_report::show::{Named, fio_job, write_html, write_sheet};

use crate::cli::flag;
use crate::commands::{is_full, is_same_file, refuse_input, write_form};

/// Files that the run writes, by flag.
pub(in crate::commands) fn all_outputs(plan: &Plan) -> impl Iterator<Item = (String, &Path)> {
    plan.written().into_iter().map(move |(key, path)| (flag(key), path))
}

/// Where results go.
pub(super) fn outputs(plan: &Plan) -> impl Iterator<Item = &Path> {
    let is_result = |key: &str| !["io_trace_log", "metrics_file"].contains(&key);
    let results = plan.written().into_iter().filter(move |(key, _)| is_result(key));
    results.map(|(_, path)| path)
}

/// Results that can't be written are found before the work, not after it; of two in one file, the
/// second would overwrite the first.
pub(in crate::commands) fn check_outputs(outputs: &[(impl AsRef<str>, &Path)]) -> Result<()> {
    for (place, (flag, path)) in outputs.iter().enumerate() {
        let mut others = outputs[place + 1..].iter();
        if let Some((other, _)) = others.find(|(_, other)| is_same_file(path, other)) {
            let (flag, other, path) = (flag.as_ref(), other.as_ref(), path.display());
            refuse!("{flag} and {other} are the same file, {path}");
        }
    }
    outputs.iter().try_for_each(|(flag, path)| check_output_writable(flag.as_ref(), path))
}

/// No input may be written over: those files, and what the plan names besides.
pub(super) fn refuse_inputs<'a>(
    plan: &'a Plan,
    files: impl Iterator<Item = &'a Path>,
) -> Result<()> {
    let mut inputs: Vec<&Path> = files.chain(plan.validation_trace.as_deref()).collect();
    // A raw device, that is.
    inputs.extend(plan.cache_dirs.iter().map(PathBuf::as_path));
    if let Some(RooflineFrom::File(path)) = &plan.roofline {
        inputs.push(path);
    }
    let refuse =
        |(flag, output): (String, &Path)| refuse_input(&flag, output, inputs.iter().copied());
    Ok(all_outputs(plan).try_for_each(refuse)?)
}

/// Writes all that was asked for; the first failure is told when all was tried.
pub(super) fn write_results(plan: &Plan, document: &Document) -> Result<()> {
    let what = "the results";
    let _overdue = Overdue::new(format!("{what} to be written"));
    let json = write_form(Some(&plan.output), what, |path| write_json(document, path));
    let named = [Named { name: plan.output.display().to_string(), document: document.clone() }];
    let sheet = write_form(plan.xlsx_output.as_deref(), what, |path| write_sheet(&named, path));
    let page = write_form(plan.html_output.as_deref(), what, |path| write_html(&named, path));
    let job = write_form(plan.fio_output.as_deref(), what, |path| write_fio_job(document, path));
    json.and(sheet).and(page).and(job)
}

pub(in crate::commands) fn write_fio_job(document: &Document, path: &Path) -> std::io::Result<()> {
    let nothing = || "; the run did no I/O that fio could repeat\n".to_owned();
    write_output(path, fio_job(document).unwrap_or_else(nothing).as_bytes())
}

/// Refuses the names that a run's own files have: a run in that directory would delete the results,
/// or refuse to start beside them.
pub(in crate::commands) fn refuse_data_name(flag: &str, path: &Path) -> Result<()> {
    if path.file_name().is_some_and(|name| name == DATA_NAME || name == LOCK_NAME) {
        refuse!(
            "{flag} {} has the name that runs give to their data: the next run there would delete \
             the results or refuse to start; give another name",
            path.display()
        );
    }
    Ok(())
}

/// Size of the results of a few minutes: there must be room for them before the run begins.
const RESULT_BYTES: usize = 256 << 10;

/// Refuses a place where no file can be written when the run is over.
pub(in crate::commands) fn check_output_writable(flag: &str, path: &Path) -> Result<()> {
    if path == Path::new("-") {
        refuse!(
            "{flag} - would write a file named `-`: give /dev/stdout for standard output, or ./- \
             for that name"
        );
    }
    refuse_data_name(flag, path)?;
    anyhow::ensure!(
        !path.is_dir(),
        "{} is a directory: give {flag} a file in a directory that you may write to",
        path.display()
    );
    if is_strange_pipe(path) {
        refuse!(
            "{flag} {} is a named pipe, whose reader may be gone when the results are there: give \
             a plain file, or /dev/stdout for a pipe",
            path.display()
        );
    }
    try_output(path, RESULT_BYTES).map_err(|error| {
        let remedy = remedy_of(flag, &error);
        let told = format!("the results can't be written to {}: {remedy}", path.display());
        anyhow::Error::new(error).context(told)
    })
}

/// Remedy where the file of that flag can't be written.
fn remedy_of(flag: &str, error: &std::io::Error) -> String {
    match is_full(error) {
        true => format!("free space there, or give {flag} a file on another file system"),
        false => format!("give {flag} a file in a directory that you may write to"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    /// It was the same for all: a directory that may be written to.
    #[test]
    fn a_full_file_system_needs_space_and_not_another_owner() {
        for (kind, remedy) in [
            (ErrorKind::StorageFull, "free space there, or give --output a file on another"),
            (ErrorKind::QuotaExceeded, "free space there"),
            (ErrorKind::PermissionDenied, "a directory that you may write to"),
        ] {
            let told = remedy_of("--output", &Error::from(kind));
            assert!(told.contains(remedy), "{told}");
        }
    }
}
