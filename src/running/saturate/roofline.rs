//! The file that holds a device's limits, against which later runs are held.

use std::path::Path;

use ringfall_config::InputError;
use ringfall_model::facts::{ROOFLINE_VERSION, Roofline};

const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a file of limits that `ringfall saturate` wrote.
pub fn read_roofline(path: &Path) -> Result<Roofline, InputError> {
    let wrong = |what: String| InputError::new(format!("--roofline {}: {what}", path.display()));
    let metadata = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(wrong("it is not a file written by `ringfall saturate --output`".to_owned()));
    }
    let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let roofline: Roofline = serde_json::from_slice(&text).map_err(|error| {
        wrong(format!("it is not a file written by `ringfall saturate --output`: {error}"))
    })?;
    if roofline.ringfall_roofline != ROOFLINE_VERSION {
        return Err(wrong(format!(
            "its layout is {}, this version reads {ROOFLINE_VERSION}",
            roofline.ringfall_roofline
        )));
    }
    roofline.check().map_err(wrong)?;
    Ok(roofline)
}

#[cfg(test)]
mod tests {
    use ringfall_host::Scratch;
    use ringfall_model::testing::roofline;

    use super::*;

    #[test]
    fn what_is_no_roofline_is_named() {
        let scratch = Scratch::new("roofline");
        for text in ["", "{}", "[1]", "{\"ringfall_roofline\":1}"] {
            let error = read_roofline(&scratch.file("a", text)).unwrap_err().to_string();
            assert!(error.contains("saturate") && error.contains("ringfall-roofline"), "{error}");
        }
        let later = Roofline { ringfall_roofline: 9, ..roofline(1.0, 1.0) };
        let path = scratch.file("b", serde_json::to_vec(&later).unwrap());
        assert!(read_roofline(&path).unwrap_err().to_string().contains("layout is 9"));
        let path = scratch.file("c", serde_json::to_vec(&roofline(1.0, 1.0)).unwrap());
        assert_eq!(read_roofline(&path).unwrap(), roofline(1.0, 1.0));
        assert!(read_roofline(&scratch).is_err());
    }
}
