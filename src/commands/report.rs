//! `ringfall report`: results read back, as a page or a table.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ringfall_config::Part;
use ringfall_foreign::iostat;
use ringfall_host::counted;
use ringfall_host::escape::terminal_path;
use ringfall_host::exit::Exit;
use ringfall_model::document::{
    FileProblem, ResultFile, contradictions, json_files, told_contradictions,
};
use ringfall_model::{Code, Warning};
use ringfall_report::quick::QuickReport;
use ringfall_report::show::{Named, write_html, write_quick_html, write_sheet};

use super::compare::read_answer;
use super::run::write_fio_job;
use super::{merge, print, refuse_input, tell};
use crate::cli::{MergeArgs, ReportArgs};

/// Makes a page or a table of results, or merges them.
pub fn report(args: &ReportArgs, command_line: &[String]) -> Result<Exit> {
    let output = &args.output;
    let ending = output.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let ending = ending.to_ascii_lowercase();
    if args.results.iter().any(|path| QuickReport::is_in(path)) {
        return page_of_answers(&args.results, output, &ending);
    }
    if ending == "json" {
        let (files, output) = (args.results.clone(), Some(output.clone()));
        let allow_different = args.allow_different;
        return merge::run(
            &MergeArgs { files, output, allow_different, json: false },
            command_line,
        );
    }
    if args.allow_different {
        refuse!("--allow-different is for merging: give an --output that ends in .json");
    }
    let is_table = matches!(&*ending, "xlsx" | "csv");
    if !is_table && !matches!(&*ending, "html" | "htm" | "fio") {
        let what =
            "has an unknown ending: give a name that ends in .html, .xlsx, .csv, .fio or .json";
        refuse!("--output {} {what}", output.display());
    }
    if ending == "xlsx" {
        Part::Workbooks.require()?;
    }
    let files = read_all(&args.results, is_table)?;
    refuse_input("--output", output, files.iter().map(|file| file.path.as_path()))?;
    let told = || format!("the report can't be written to {}", output.display());
    let results = named(files, is_table);
    match (&*ending, results.as_slice()) {
        ("html" | "htm", results) => write_html(results, output).with_context(told)?,
        ("fio", [one]) if !one.document.ringfall.has_data_file() => {
            let what = "a fio job repeats I/Os on a data file, and this run kept entries as \
                        objects or as an engine's files";
            refuse!("--output {}: {what}", output.display());
        }
        ("fio", [one]) => write_fio_job(&one.document, output).with_context(told)?,
        ("fio", _) => {
            let what = "a fio job holds one result: give one, or a page (.html) or a table \
                        (.xlsx, .csv) for all";
            refuse!("--output {}: {what}", output.display());
        }
        (_, results) => write_sheet(results, output).with_context(told)?,
    }
    let count = counted(results.len() as u64, "result");
    print(&format!("  report     {count} in {}\n", terminal_path(output)))
}

/// Makes a page of an answer of `ringfall quick`, or of two side by side.
fn page_of_answers(answers: &[PathBuf], output: &Path, ending: &str) -> Result<Exit> {
    if !matches!(ending, "html" | "htm") {
        let what = "an answer of `ringfall quick` becomes a page: give a name that ends in .html";
        refuse!("--output {}: {what}", output.display());
    }
    refuse_input("--output", output, answers.iter().map(PathBuf::as_path))?;
    let written = match answers {
        [answer] => write_quick_html(&read_answer(answer)?, None, answer, output),
        [first, answer] => {
            let (first, second) = (read_answer(first)?, read_answer(answer)?);
            let other = first.told_from(&second, 1);
            write_quick_html(&second.told_from(&first, 2), Some(&other), answer, output)
        }
        _ => refuse!("a page holds one answer of `ringfall quick`, or two side by side"),
    };
    written.with_context(|| format!("the page can't be written to {}", output.display()))?;
    print(&format!(
        "  report     {} in {}\n",
        counted(answers.len() as u64, "answer"),
        terminal_path(output)
    ))
}

/// All results, those of directories too. What lies in a directory and is no result is told and
/// left out; what is named must be one.
fn read_all(paths: &[PathBuf], is_table: bool) -> Result<Vec<ResultFile>> {
    let read = |path: &Path| -> Result<ResultFile, FileProblem> {
        let mut file = match is_table {
            true => ResultFile::read(path)?,
            false => ResultFile::read_ours(path)?,
        };
        if let Some(text) = told_contradictions(&contradictions(&file.document)) {
            tell(&[format!("{}: {text}", file.name())]);
            let code = Code::ContradictsItself;
            file.document.ringfall.warnings.push(Warning { code, text, flag_to_try: None });
        }
        Ok(file)
    };
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(read(path)?);
            continue;
        }
        let before = all.len();
        for file in json_files(path, iostat::is_named_so)? {
            match read(&file) {
                Ok(result) => all.push(result),
                Err(problem) => tell(&[format!("left out: {problem}")]),
            }
        }
        if all.len() == before {
            let what = "the directory holds no result (*.json) that this report can show";
            return Err(FileProblem::new(path, what).into());
        }
    }
    Ok(all)
}

/// Results by what tells them apart: in a table by their paths, as the reference's converter has
/// it, on a page by the names of their files, unless two are alike.
fn named(files: Vec<ResultFile>, is_table: bool) -> Vec<Named> {
    let stem =
        |path: &Path| path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let stems: Vec<String> = files.iter().map(|file| stem(&file.path)).collect();
    let is_alone = |name: &String| stems.iter().filter(|other| *other == name).count() == 1;
    let name = |file: &ResultFile| {
        let stem = stem(&file.path);
        if is_alone(&stem) && !is_table { stem } else { file.name() }
    };
    files.into_iter().map(|file| Named { name: name(&file), document: file.document }).collect()
}
