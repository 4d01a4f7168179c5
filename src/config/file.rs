//! Reading a YAML configuration, ours or the reference benchmark's: every complaint names the key
//! and the line.

use std::path::Path;

use super::yaml::{explain, key_of};
use super::{InputError, Options, reference};

/// Largest configuration read: far above any written by hand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file's settings, and its text for finding lines in.
#[derive(Clone, Debug)]
pub struct ConfigFile {
    /// As the user named it.
    pub name: String,
    /// Text of the whole file, by which messages find the line of a key.
    pub text: String,
    /// Settings that the file gives, as typed; they are not checked yet.
    pub options: Options,
    /// Sentences about what of it has no effect.
    pub told: Vec<String>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It can't be read, isn't YAML, has an unknown key or a value of the wrong type.
    pub fn read(path: &Path) -> Result<ConfigFile, InputError> {
        let name = path.display().to_string();
        let failed = |what: String| InputError::new(format!("--config {name}: {what}"));
        let text = read_small(path).map_err(failed)?;
        ConfigFile::parse(name, text)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// As [`ConfigFile::read`].
    pub fn parse(name: String, text: String) -> Result<ConfigFile, InputError> {
        if let Some(section) = reference::section_of(&text) {
            let (options, told) = reference::parse(&name, &text, section)?;
            return Ok(ConfigFile { name, text, options, told });
        }
        match serde_saphyr::from_str(&text) {
            Ok(options) => Ok(ConfigFile { name, text, options, told: Vec::new() }),
            Err(error) => {
                let all = "`ringfall config --defaults` lists all";
                Err(InputError::new(explain(&name, &text, &error, all)))
            }
        }
    }

    /// The line that sets `key`, from 1; `None` when none does so plainly.
    pub fn line_of(&self, key: &str) -> Option<usize> {
        self.text.lines().position(|line| key_of(line) == Some(key)).map(|index| index + 1)
    }
}

/// Reads a file that a person wrote.
pub(super) fn read_small(path: &Path) -> Result<String, String> {
    ringfall_host::read_text(path, FILE_BYTES_MAX).map_err(|error| error.to_string())
}
