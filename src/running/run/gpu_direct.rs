//! The way between GPU memory and the data files past host memory: opened when the files are there,
//! before anything else uses either.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use ringfall_core::units::BLOCK_BYTES;
use ringfall_engine::tier::gpu::{DirectStorage, NoDirect};

use super::{Observer, RunSettings, SetupError};
use crate::store::Store;

type Open = dyn Fn(Vec<OwnedFd>, u64) -> Result<Arc<dyn DirectStorage>, NoDirect> + Send + Sync;

/// Opens that way to the data files of a run.
#[derive(Clone)]
pub struct DirectOpener {
    open: Arc<Open>,
    is_required: bool,
}

impl DirectOpener {
    /// An opener that is given a descriptor of each data file and the bytes at its beginning that
    /// may be written over. Where it is required, a run does not begin without it.
    pub fn new(
        is_required: bool,
        open: impl Fn(Vec<OwnedFd>, u64) -> Result<Arc<dyn DirectStorage>, NoDirect>
        + Send
        + Sync
        + 'static,
    ) -> DirectOpener {
        DirectOpener { open: Arc::new(open), is_required }
    }

    fn try_open(&self, store: &Store) -> Result<Arc<dyn DirectStorage>, NoDirect> {
        let files = store.files();
        let prepared = files.iter().map(|file| file.prepared_blocks().saturating_mul(BLOCK_BYTES));
        let probe_bytes = prepared.chain(store.sizes_bytes()).min();
        let descriptors: std::io::Result<Vec<OwnedFd>> =
            files.iter().map(|file| file.descriptor()).collect();
        let descriptors = descriptors.map_err(|error| {
            NoDirect::Unusable(format!("the data file can't be opened again ({error})"))
        })?;
        (self.open)(descriptors, probe_bytes.unwrap_or(0))
    }
}

/// Opens the way that a run asks for, if it asks for one, and tells what came of that.
///
/// # Errors
/// It can't be had, and the run does not do without it; or its trial is still under way.
pub(super) fn open(
    settings: &RunSettings,
    store: &Store,
    observer: &mut dyn Observer,
) -> Result<Option<Arc<dyn DirectStorage>>, SetupError> {
    let Some(opener) = settings.gpu_direct.as_ref().filter(|_| store.is_somewhere()) else {
        return Ok(None);
    };
    let (direct, told) = match opener.try_open(store) {
        Ok(direct) => (Some(direct), Ok(())),
        Err(NoDirect::UnderWay(why)) => {
            let what = format!("GPUDirect Storage: {why}");
            return Err(SetupError::new(what, "give --gpu-transfer pinned, which does not try it"));
        }
        Err(NoDirect::Unusable(why)) if opener.is_required => {
            let remedy = "leave out --strict, or give --gpu-transfer pinned";
            return Err(SetupError::new(format!("--gpu-transfer gds: {why}"), remedy));
        }
        Err(NoDirect::Unusable(why)) => (None, Err(why)),
    };
    observer.gpu_direct(told);
    Ok(direct)
}
