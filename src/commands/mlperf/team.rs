//! The ranks that run a sequence together: which run it is, and which trials it still lacks.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::batch::Job;
use crate::interrupt::Interrupt;

/// One process alone.
#[derive(Debug)]
pub(super) struct Team;

impl Team {
    pub(super) fn gather(_runs: &Path, _interrupt: &Interrupt) -> Result<Team> {
        Ok(Team)
    }
    pub(super) fn rank(&self) -> u32 {
        0
    }
    pub(super) fn size(&self) -> u32 {
        1
    }
    pub(super) fn leads(&self) -> bool {
        true
    }
    pub(super) fn agree_on(&self, choose: impl FnOnce() -> Result<PathBuf>) -> Result<PathBuf> {
        choose()
    }
    pub(super) fn forget_partly_done(&self, _run: &Path, _jobs: &[Job]) -> Result<()> {
        Ok(())
    }
    pub(super) fn leave(&self) {}
    pub(super) fn wait_for_all(&self) {}
}
