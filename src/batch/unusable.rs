//! Files and directories of a batch that can't be made or used.

use std::io::{Error, ErrorKind};

use ringfall_core::held::Stranger;

/// The error, with what can't be used and the next step: a clause each.
pub(crate) fn unusable(what: &str, error: Error) -> anyhow::Error {
    let is_stranger = error.get_ref().is_some_and(|inner| inner.is::<Stranger>());
    let remedy = match error.kind() {
        _ if is_stranger => "delete it, or give another directory",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "delete files there, or give a directory on another file system"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "mount the file system for writing, or give a directory on another one"
        }
        ErrorKind::PermissionDenied => {
            "check its owner and permissions, or give a directory that you may write to"
        }
        _ => "give another directory",
    };
    anyhow::Error::new(error).context(format!("{what}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use ringfall_core::held::NoInodes;

    use super::*;

    /// A lock file that could not be made was to be deleted, and a full disk had no remedy.
    #[test]
    fn the_next_step_is_one_that_helps() {
        for (error, remedy) in [
            (Error::from(Stranger::Link), "x; delete it, or give another directory"),
            (Error::new(ErrorKind::StorageFull, NoInodes), "x; delete files there, or give"),
            (Error::from(ErrorKind::QuotaExceeded), "x; delete files there"),
            (Error::from(ErrorKind::ReadOnlyFilesystem), "x; mount the file system for writing"),
            (Error::from(ErrorKind::PermissionDenied), "x; check its owner and permissions"),
            (Error::from(ErrorKind::NotADirectory), "x; give another directory"),
        ] {
            let told = unusable("x", error).to_string();
            assert!(told.starts_with(remedy), "{told}");
        }
    }
}
