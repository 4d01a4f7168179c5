//! Ways in which a shard's I/Os reach the drives, and checks that they can.

use std::sync::Arc;

use super::builder::EngineBuilder;
use super::error::{EngineError, SettingsError};
use crate::device::DataFile;

impl EngineBuilder {
    /// Whether these ways go together.
    pub(super) fn check_reach(&self) -> Result<(), SettingsError> {
        if self.polled && self.submission_thread {
            return Err(SettingsError::Polling);
        }
        if self.polled && self.passthrough {
            return Err(SettingsError::PolledCommands);
        }
        Ok(())
    }

    /// Finds out whether each drive can be reached so; O(drives) I/Os.
    pub(super) fn probe_drives(&self, files: &[Arc<DataFile>]) -> Result<(), EngineError> {
        if self.polled {
            files.iter().try_for_each(|file| file.probe_polled(self.io_bytes))?;
        }
        self.open_namespaces(files)
    }

    /// Opens the namespaces of all drives that are not open yet, if they are to be handed NVMe
    /// commands, and tries them; O(drives) I/Os.
    pub(super) fn open_namespaces(&self, files: &[Arc<DataFile>]) -> Result<(), EngineError> {
        if self.passthrough && self.has_storage && self.objects.is_none() {
            let sizes = self.drive_sizes();
            files.iter().zip(sizes).try_for_each(|(file, bytes)| file.open_namespace(bytes))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{CacheDir, Preallocate};
    use crate::error::{PassthroughFault, SetupError};
    use crate::units::MIB;

    #[test]
    fn ways_that_exclude_each_other_are_refused() {
        let good = || EngineBuilder::default().storage_bytes(MIB);
        let error = |builder: EngineBuilder| builder.check().unwrap_err();
        assert_eq!(error(good().polled(true).submission_thread(true)), SettingsError::Polling);
        assert_eq!(error(good().polled(true).passthrough(true)), SettingsError::PolledCommands);
        assert_eq!(good().submission_thread(true).passthrough(true).check(), Ok(()));
    }

    #[test]
    fn a_file_in_a_directory_is_handed_no_nvme_commands() {
        let name = format!("ringfall-reach-{}", std::process::id());
        let mut directory = CacheDir::open(&std::env::temp_dir().join(name)).unwrap();
        let (file, path) = directory.create_data_file().unwrap();
        let file = Arc::new(DataFile::new(file, path.clone(), Preallocate::Grow).unwrap());
        file.prepare(256).unwrap();
        let builder = EngineBuilder::default().storage_bytes(MIB).passthrough(true);
        let Err(EngineError::Setup(error)) = builder.specs(&[Arc::clone(&file)]) else {
            panic!("a file was taken for a namespace");
        };
        let fault = PassthroughFault::NotNvme;
        assert_eq!(error, SetupError::Passthrough { path, fault });
        assert!(file.command_target().is_none());
        directory.remove().unwrap();
    }

    #[test]
    fn a_place_that_takes_no_commands_is_found_out_before_it_is_given_space() {
        let path = std::env::temp_dir().join(format!("ringfall-early-{}", std::process::id()));
        let builder = EngineBuilder::default().directory(path.clone()).passthrough(true);
        // More than there is: it would fail if it were taken first.
        let builder = builder.storage_bytes(1 << 51).preallocate(Preallocate::Reserve);
        let error = builder.start().err().expect("no directory is a namespace").to_string();
        assert!(error.contains("NVMe passthrough does not work"), "{error}");
        assert!(!path.exists(), "its data is deleted");
    }
}
