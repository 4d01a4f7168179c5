//! Threads that work side by side, and the data that they share.

use std::io::Error;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Runs one thread for each item; returns their results in the order of the items. Where a thread
/// can't be started, the items from its own on are left out, and what `refused` makes of it comes
/// first.
pub(crate) fn on_threads<I: Send, R: Send, E: Send>(
    name: &str,
    items: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> Result<R, E> + Sync,
    refused: impl FnOnce(Error) -> E,
) -> Vec<Result<R, E>> {
    let work = &work;
    std::thread::scope(|scope| {
        let (mut results, mut threads) = (Vec::new(), Vec::new());
        for item in items {
            let builder = Builder::new().name(name.to_owned());
            match builder.spawn_scoped(scope, move || work(item)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    results.push(Err(refused(error)));
                    break;
                }
            }
        }
        let ended = threads.into_iter().map(|thread| thread.join());
        results.extend(ended.map(|result| result.unwrap_or_else(|panic| resume_unwind(panic))));
        results
    })
}

/// Locks plain data, which a panic elsewhere can't have left half-changed.
pub(crate) fn locked<T>(data: &Mutex<T>) -> MutexGuard<'_, T> {
    data.lock().unwrap_or_else(PoisonError::into_inner)
}
