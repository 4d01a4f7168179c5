//! Files by name, directory or pattern; `.gz` and `.zst` read as what is inside.

use std::fs::Metadata;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use ringfall_host::open_to_read;

use super::reading::Reading;
use super::spool::SpooledPipe;

/// First bytes of compressed files (RFC 1952, RFC 8878).
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Read at once: a trace is read beside a benchmark, in few and large steps.
const READ_BYTES: usize = 1 << 18;
/// Endings of a trace's files in a directory.
pub(super) const TRACE_ENDINGS: [&str; 2] = ["csv", "jsonl"];
/// The same where the format is recognised.
pub(super) const RECORDED_ENDINGS: [&str; 3] = ["csv", "json", "jsonl"];

/// Opens a file for reading, through its compression.
pub fn open(path: &Path, reading: &Reading) -> Result<Box<dyn BufRead + Send>, String> {
    let mut file = BufReader::new(opened(path, reading)?);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let ending = ending.to_ascii_lowercase();
    // A pipe has no ending.
    let begin = file.fill_buf().map_err(|error| explain(&error))?;
    let is_gzip = ending == "gz" || begin.starts_with(&GZIP);
    let is_zstd = ["zst", "zstd"].contains(&&*ending) || begin.starts_with(&ZSTD);
    let reader: Box<dyn Read + Send> = if is_gzip {
        // Several members one after the other are one file, as `gzip -d` has it.
        Box::new(flate2::bufread::MultiGzDecoder::new(file))
    } else if is_zstd {
        let decoder = zstd::stream::read::Decoder::with_buffer(file);
        Box::new(decoder.map_err(|error| explain(&error))?)
    } else {
        Box::new(file)
    };
    let watched = reading.watch(path.display().to_string(), reader);
    Ok(Box::new(BufReader::with_capacity(READ_BYTES, watched)))
}

/// Opens a file, which may be a pipe (`<(…)` of a shell), as it is.
fn opened(path: &Path, reading: &Reading) -> Result<Box<dyn Read + Send>, String> {
    if let Some(pipe) = SpooledPipe::begun(path) {
        return Ok(Box::new(pipe));
    }
    let file = open_to_read(path).map_err(|error| explain(&error))?.ended_when(reading.wish());
    let metadata = file.metadata().map_err(|error| explain(&error))?;
    if metadata.is_dir() {
        return Err("it is a directory: give a file".to_owned());
    }
    // A device may never end.
    let kind = metadata.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err("it is a device: give a file or a pipe".to_owned());
    }
    if !kind.is_fifo() || !reading.is_repeated() {
        return Ok(Box::new(file));
    }
    let pipe = SpooledPipe::begin(path, file).map_err(|error| error.to_string())?;
    Ok(Box::new(pipe))
}

/// Plain files as they were when a run began to read them.
pub(super) struct Stamps(Vec<(PathBuf, Metadata)>);

impl Stamps {
    pub(super) fn look(paths: &[PathBuf]) -> Stamps {
        let found = paths.iter().filter_map(|path| Some((path.clone(), path.metadata().ok()?)));
        Stamps(found.filter(|(_, metadata)| metadata.is_file()).collect())
    }

    /// The first that is another file now or has been written to, in words; one that is gone is
    /// read on.
    pub(super) fn changed(&self) -> Option<String> {
        self.0.iter().find_map(|(path, was)| {
            let is = path.metadata().ok()?;
            let (size, time) = (was.len(), |of: &Metadata| (of.mtime(), of.mtime_nsec()));
            let what = if (was.dev(), was.ino()) != (is.dev(), is.ino()) {
                "another file took its place".to_owned()
            } else if size != is.len() {
                format!("it had {size} bytes and has {} now", is.len())
            } else if time(was) != time(&is) {
                "it was written to".to_owned()
            } else {
                return None;
            };
            Some(format!("{}: {what}", path.display()))
        })
    }
}

fn explain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file: check the path".to_owned(),
        std::io::ErrorKind::PermissionDenied => "you don't have permission to read it".to_owned(),
        _ => error.to_string(),
    }
}

/// The files that a path stands for: itself, those of a directory with one of these endings, or
/// those of a pattern; sorted by name.
pub(super) fn expand(path: &Path, endings: &[&str]) -> Result<Vec<PathBuf>, String> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).map_err(|error| explain(&error))?;
        let paths: std::io::Result<Vec<PathBuf>> =
            entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut files = paths.map_err(|error| explain(&error))?;
        files.retain(|file| file.is_file() && ends_with_one_of(endings, file));
        files.sort();
        return match files.is_empty() {
            true => Err(format!(
                "the directory has no .{} file (also .gz, .zst)",
                endings.join(" or .")
            )),
            false => Ok(files),
        };
    }
    let text = path.to_string_lossy();
    if path.exists() || !text.contains(['*', '?', '[']) {
        return Ok(vec![path.to_path_buf()]);
    }
    let found = glob::glob(&text).map_err(|error| format!("not a pattern: {error}"))?;
    let files: Result<Vec<PathBuf>, _> = found.collect();
    let mut files = files.map_err(|error| error.to_string())?;
    files.retain(|file| file.is_file());
    match files.is_empty() {
        true => Err("no file matches the pattern".to_owned()),
        false => Ok(files),
    }
}

fn ends_with_one_of(endings: &[&str], path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let bare = [".gz", ".zst", ".zstd"].iter().find_map(|end| name.strip_suffix(end));
    let bare = bare.unwrap_or(&name);
    endings.iter().any(|ending| bare.ends_with(&format!(".{ending}")))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::time::UNIX_EPOCH;

    use ringfall_host::Scratch;

    use super::*;

    #[test]
    fn compressed_files_read_as_what_is_inside() {
        let directory = Scratch::new("compressed");
        let open = |path: &Path| open(path, &Reading::new(|| false, false));
        let text = b"one\ntwo\n".repeat(1_000);
        let gz = directory.join("a.csv.gz");
        let mut encoder = flate2::write::GzEncoder::new(
            File::create(&gz).unwrap(),
            flate2::Compression::default(),
        );
        encoder.write_all(&text).unwrap();
        encoder.finish().unwrap();
        let zst = directory.file("b.csv.zst", zstd::encode_all(&text[..], 3).unwrap());
        let as_pipe = |path: &Path, name: &str| directory.file(name, std::fs::read(path).unwrap());
        let unnamed = [as_pipe(&gz, "fd-63"), as_pipe(&zst, "fd-64")];
        directory.file("notes.txt", "no trace");
        for path in [&gz, &zst].into_iter().chain(&unnamed) {
            let mut read = Vec::new();
            open(path).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, text);
        }
        let expand = |path: &Path| expand(path, &TRACE_ENDINGS);
        assert_eq!(expand(&directory).unwrap(), [gz.clone(), zst.clone()]);
        assert_eq!(expand(&directory.join("*.gz")).unwrap(), std::slice::from_ref(&gz));
        assert!(expand(&directory.join("*.nothing")).unwrap_err().contains("no file matches"));
        // Cut in the middle: an error, not an early end.
        std::fs::write(&zst, &std::fs::read(&zst).unwrap()[..20]).unwrap();
        assert!(open(&zst).unwrap().read_to_end(&mut Vec::new()).is_err());
        assert!(open(&directory).is_err());
        assert!(open(Path::new("/dev/zero")).err().unwrap().contains("device"));
        assert!(open(&directory.join("none.csv")).err().unwrap().contains("no such file"));
    }

    #[test]
    fn a_file_that_was_replaced_or_written_to_is_told() {
        let directory = Scratch::new("stamps");
        let path = directory.file("a.csv", "one");
        let paths = [path.clone(), directory.join("none.csv")];
        let told = |change: &dyn Fn()| {
            let stamps = Stamps::look(&paths);
            change();
            stamps.changed().map(|what| what.rsplit(": ").next().unwrap_or_default().to_owned())
        };
        let touch = || File::options().write(true).open(&path).unwrap().set_modified(UNIX_EPOCH);
        assert_eq!(told(&|| ()), None);
        assert_eq!(told(&|| touch().unwrap()).unwrap(), "it was written to");
        let write = || std::fs::write(&path, "three").unwrap();
        assert_eq!(told(&write).unwrap(), "it had 3 bytes and has 5 now");
        let replace = || std::fs::rename(directory.file("b.csv", "three"), &path).unwrap();
        assert_eq!(told(&replace).unwrap(), "another file took its place");
        assert_eq!(told(&|| std::fs::remove_file(&path).unwrap()), None);
    }
}
