//! Ctrl-C, SIGTERM, and SIGHUP of a terminal that went away: the first ends the run early, the
//! second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::Exit;
use crate::outlet;

/// Set by the first signal.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Installs the handlers.
    ///
    /// # Errors
    /// When the kernel refuses a handler.
    pub fn install() -> std::io::Result<Interrupt> {
        let flag = Arc::new(AtomicBool::new(false));
        // `nohup` means it.
        let hang_up = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hang_up) {
            // In this order: the second signal finds the flag set by the first.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                i32::from(Exit::Interrupted.status()),
                Arc::clone(&flag),
            )?;
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        outlet::heed(Arc::clone(&flag));
        Ok(Interrupt(flag))
    }

    /// Whether a signal came.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Whether the process was started with that signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (signal - 1) != 0
}

/// Has a write beyond the limit of file sizes (`ulimit -f`) fail, as one beyond the disk does,
/// instead of ending the process.
///
/// # Errors
/// When the kernel refuses a handler.
pub fn fail_at_the_limit_of_file_sizes() -> std::io::Result<()> {
    // Nobody looks at the flag: the write that failed tells.
    signal_hook::flag::register(rustix::process::Signal::XFSZ.as_raw(), Arc::default()).map(drop)
}
