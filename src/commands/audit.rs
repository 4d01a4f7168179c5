//! `ringfall audit`: what published results come to over the time that really passed.

use std::path::PathBuf;

use anyhow::Result;
use ringfall_config::InputError;
use ringfall_foreign::audit::{Audit, AuditSettings, Level, audit};
use ringfall_host::exit::Exit;
use ringfall_model::write_json;
use ringfall_report::show::{audit_page, write_audit_csv, write_audit_html};

use super::run::check_outputs;
use super::{is_stdout, print, print_json, refuse_input, write_form};
use crate::cli::AuditArgs;

/// Audits the results and says what was found.
pub fn run(args: &AuditArgs) -> Result<Exit> {
    let outputs = [
        ("--json", &args.json),
        ("--html-output", &args.html_output),
        ("--csv-output", &args.csv_output),
    ];
    let files = outputs.iter().filter_map(|(flag, path)| Some((*flag, path.as_deref()?)));
    let files: Vec<_> = files.filter(|(_, output)| !is_stdout(output)).collect();
    check_outputs(&files)?;
    let settings = AuditSettings {
        drive_read_mb_per_s: args.drive_read_mb_s,
        drive_write_mb_per_s: args.drive_write_mb_s,
    };
    let found = audit(&args.paths, &settings);
    if found.read.rank_files == 0 {
        return Err(nothing_read(&found).into());
    }
    for (flag, output) in files {
        let inputs = args.paths.iter().chain(&found.files);
        refuse_input(flag, output, inputs.map(PathBuf::as_path))?;
    }
    let (what, json) = ("the audit", args.json.as_deref());
    let html = write_form(args.html_output.as_deref(), what, |path| write_audit_html(&found, path));
    let csv = write_form(args.csv_output.as_deref(), what, |path| write_audit_csv(&found, path));
    let file = json.filter(|output| !is_stdout(output));
    let written = html.and(csv).and(write_form(file, what, |path| write_json(&found, path)));
    match json.is_some_and(is_stdout) {
        true => print_json(&found)?,
        false => print(&audit_page(&found, args.all_findings))?,
    };
    written?;
    let is_found = found.findings.iter().any(|finding| finding.level == Level::Finding);
    Ok(if args.fail_on_findings && is_found { Exit::Failed } else { Exit::Done })
}

/// No result at all: the first thing that was skipped tells why, most often.
fn nothing_read(found: &Audit) -> InputError {
    let paths: Vec<String> = found.paths.iter().map(|path| path.display().to_string()).collect();
    let mut sentences = vec![format!(
        "no result can be read in {}; give a directory with files such as \
         option_1/trial_0/rank_0/kvcache_results_….json, or a JSON result",
        paths.join(", ")
    )];
    let shown = found.skipped.iter().take(5);
    sentences.extend(shown.map(|skipped| format!("{}: {}", skipped.path.display(), skipped.why)));
    InputError { sentences }
}
