//! The directory that `mlpstorage … kvcache run --kvcache-bin-path` is given: two scripts that
//! become ringfall, and the configuration file that every rank reads.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ringfall_core::held::HeldDirectory;
use ringfall_host::{open_plain, write_output};

use super::NOT_CLOSED;

/// Script that the harness starts on every rank.
const WRAPPER: &str = "mlperf_wrapper.py";
/// Script whose path the harness asks for; the reference's own launcher would start it.
pub const PROGRAM: &str = "kv-cache.py";
/// File that the harness passes on as --config.
const CONFIG: &str = "config.yaml";
/// A line that tells scripts of this kind from those of others.
const MARK: &str = "# Written by `ringfall mlperf shim`.";

/// Most of a script that is looked at, bytes: one of ours has a tenth of that.
const SCRIPT_BYTES_MAX: u64 = 16 << 10;

/// Why a shim can't be written.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// The path can't be written in a script.
    #[error(
        "the path of ringfall, {}, is not UTF-8, and no script can name it; install ringfall \
         elsewhere, or give --ringfall",
        .0.display()
    )]
    NoText(PathBuf),
    /// It would not be found from another directory.
    #[error("--ringfall {}: give an absolute path: ranks begin in any directory", .0.display())]
    NotAbsolute(PathBuf),
    /// Somebody else's file is there.
    #[error(
        "{} is there, and was not written by `ringfall mlperf shim`; give a directory of its own \
         (a changed kv_cache_benchmark/ would spoil CLOSED runs of the reference)",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A file can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the file system.
        source: std::io::Error,
    },
}

/// Files written as the shim, for the instructions to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Path to give as `--kvcache-bin-path`.
    pub program: PathBuf,
    /// Whether a configuration file was there already, and was left as it is.
    pub config_kept: bool,
}

/// Writes the shim into `directory`, which is made where it is missing. Each rank is given `flags`
/// before what the harness gives it. Scripts of an earlier one
/// are replaced; a configuration file that is there stays.
pub fn write(directory: &Path, ringfall: &Path, flags: &[String]) -> Result<Written, ShimError> {
    if !ringfall.is_absolute() {
        return Err(ShimError::NotAbsolute(ringfall.to_owned()));
    }
    let program = ringfall.to_str().ok_or_else(|| ShimError::NoText(ringfall.to_owned()))?;
    let io = |path: &Path| {
        let path = path.to_owned();
        |source| ShimError::Io { path, source }
    };
    let mut rank = vec!["mlperf", "rank"];
    rank.extend(flags.iter().map(String::as_str));
    let scripts = [
        (WRAPPER, script(WRAPPER_ABOUT, program, &rank)),
        (PROGRAM, script(PROGRAM_ABOUT, program, &["run"])),
    ];
    HeldDirectory::make(directory).map_err(io(directory))?;
    for (name, _) in &scripts {
        let path = directory.join(name);
        let mut text = Vec::new();
        let read = |file: File| file.take(SCRIPT_BYTES_MAX).read_to_end(&mut text);
        match open_plain(&path).and_then(read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(io(&path)(error)),
            Ok(_) if String::from_utf8_lossy(&text).contains(MARK) => {}
            Ok(_) => return Err(ShimError::Foreign(path)),
        }
    }
    for (name, text) in scripts {
        let path = directory.join(name);
        write_output(&path, text.as_bytes()).map_err(io(&path))?;
    }
    let config = directory.join(CONFIG);
    let config_kept = config.exists();
    if !config_kept {
        write_output(&config, CONFIG_TEXT.as_bytes()).map_err(io(&config))?;
    }
    // The harness takes the directory from the path as it is given.
    let directory = std::fs::canonicalize(directory).map_err(io(directory))?;
    Ok(Written { program: directory.join(PROGRAM), config_kept })
}

const WRAPPER_ABOUT: &str = "The MLPerf Storage harness starts this file on every rank, in the \
                             place of the reference benchmark's launcher of the same name.";
const PROGRAM_ABOUT: &str = "--kvcache-bin-path names this file. The harness never starts it; the \
                             reference benchmark's own launcher would.";

/// A Python script that becomes ringfall.
fn script(about: &str, ringfall: &str, arguments: &[&str]) -> String {
    // A string of JSON is one of Python's.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
    let comments: Vec<String> = textwrap::wrap(&format!("{about} {NOT_CLOSED}"), 96)
        .iter()
        .map(|line| format!("# {line}\n"))
        .collect();
    format!(
        r#"#!/usr/bin/env python3
{MARK}
{}
import os
import sys

RINGFALL = {}

try:
    os.execv(RINGFALL, [RINGFALL, {}, *sys.argv[1:]])
except OSError as error:
    sys.exit(
        f"{{RINGFALL}} can't be started on this host: {{error.strerror}}. Install it there, or"
        " write this directory anew: `ringfall mlperf shim DIR --ringfall PATH`"
    )
"#,
        comments.concat(),
        quoted(ringfall),
        arguments.join(", ")
    )
}

const CONFIG_TEXT: &str = "\
# Settings of ringfall that every rank reads; flags that the harness passes take precedence.
# `ringfall config --defaults` lists all settings with their defaults. The reference benchmark's own
# config.yaml can stand here instead.
#
# preallocate: write     # write all space before each run, so that no run writes to a block first
# arrival: closed        # users wait for their answers, so that requests do not pile up
";

#[cfg(test)]
mod tests {
    use ringfall_config::ConfigFile;
    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn all_that_the_harness_looks_for_is_there() {
        let scratch = Scratch::new("shim");
        let directory = scratch.join("harness");
        let written =
            write(&directory, Path::new("/opt/a \"b\"/ringfall"), &["--end-delay".into()]).unwrap();
        assert!(!written.config_kept);
        assert!(written.program.ends_with(PROGRAM), "{written:?}");
        let wrapper = std::fs::read_to_string(directory.join(WRAPPER)).unwrap();
        assert!(wrapper.contains(r#"RINGFALL = "/opt/a \"b\"/ringfall""#), "{wrapper}");
        assert!(wrapper.contains(r#"[RINGFALL, "mlperf", "rank", "--end-delay", *sys.argv[1:]]"#));
        assert!(wrapper.contains("CLOSED"), "{wrapper}");
        let program = std::fs::read_to_string(directory.join(PROGRAM)).unwrap();
        assert!(program.contains(r#"[RINGFALL, "run", *sys.argv[1:]]"#), "{program}");
        let config = ConfigFile::read(&directory.join(CONFIG)).unwrap();
        assert_eq!(config.options, ringfall_config::Options::default());
        // What it proposes takes nothing but the mark of a comment away.
        let proposed: String = CONFIG_TEXT
            .lines()
            .map(|line| line.strip_prefix("# "))
            .filter_map(|line| line.filter(|line| line.contains(": ")))
            .map(|line| format!("{line}\n"))
            .collect();
        std::fs::write(directory.join(CONFIG), format!("{CONFIG_TEXT}{proposed}")).unwrap();
        let config = ConfigFile::read(&directory.join(CONFIG)).unwrap();
        assert!(config.options.preallocate.is_some() && config.options.arrival.is_some());
    }

    #[test]
    fn what_is_somebody_elses_stays() {
        let directory = Scratch::new("shim");
        let ringfall = Path::new("/usr/bin/ringfall");
        directory.file(CONFIG, "duration: 7\n");
        assert!(write(&directory, ringfall, &[]).unwrap().config_kept);
        // Its own it writes anew.
        assert!(write(&directory, Path::new("/other/ringfall"), &[]).unwrap().config_kept);
        let wrapper = directory.join(WRAPPER);
        assert!(std::fs::read_to_string(&wrapper).unwrap().contains("/other/ringfall"));
        std::fs::write(&wrapper, "print('the reference')\n").unwrap();
        assert!(matches!(write(&directory, ringfall, &[]), Err(ShimError::Foreign(_))));
        assert_eq!(std::fs::read_to_string(&wrapper).unwrap(), "print('the reference')\n");
        assert!(matches!(
            write(&directory, Path::new("ringfall"), &[]),
            Err(ShimError::NotAbsolute(_))
        ));
        // Nobody writes into it: a read that waits would never end.
        std::fs::remove_file(&wrapper).unwrap();
        let (mode, kind) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, &wrapper, kind, mode, 0).unwrap();
        let refused = write(&directory, ringfall, &[]).unwrap_err().to_string();
        assert!(refused.ends_with("it is not a plain file: give one"), "{refused}");
    }
}
