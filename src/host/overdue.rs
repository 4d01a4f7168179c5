//! Says what is waited for when something outside of this program (a mount, a driver, another
//! process) takes long to come back, and whoever called it can say nothing meanwhile.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// After how long without a sign it is told: longer than a healthy device, driver or launch takes.
const TELL_AFTER: Duration = Duration::from_secs(10);

/// Something that is waited for, from its making until it is dropped.
#[derive(Debug)]
pub struct Overdue {
    signs: Sender<()>,
}

impl Overdue {
    /// Tells on standard error that `what` is waited for, once it took 10 s and whenever it took
    /// twice as long as when that was told last.
    #[must_use]
    pub fn new(what: String) -> Overdue {
        Overdue::after(TELL_AFTER, what)
    }

    /// The same, told first after that time.
    #[must_use]
    pub fn after(first: Duration, what: String) -> Overdue {
        let (signs, seen) = channel();
        let tell = move |seconds: u64| {
            crate::stderr::tell(format_args!(
                "waiting for {what}, {seconds} s so far: Ctrl-C, twice if need be, ends that…"
            ));
        };
        let thread = std::thread::Builder::new().name("ringfall-overdue".to_owned());
        if let Err(error) = thread.spawn(move || watch(&seen, first, tell)) {
            tracing::warn!("no thread can be started to say what is waited for: {error}");
        }
        Overdue { signs }
    }

    /// It goes on: the time is counted from now.
    pub fn moves(&self) {
        // Where there is no thread, nobody wants to know.
        let _seen = self.signs.send(());
    }
}

/// Tells how many seconds there was no sign, until nobody gives any more.
fn watch(seen: &Receiver<()>, first: Duration, mut tell: impl FnMut(u64)) {
    let (mut silence, mut next) = (Duration::ZERO, first);
    loop {
        match seen.recv_timeout(next) {
            Ok(()) => (silence, next) = (Duration::ZERO, first),
            Err(RecvTimeoutError::Timeout) => {
                silence += next;
                next = silence;
                tell(silence.as_secs());
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_back_is_told_until_it_does() {
        let (signs, seen) = channel();
        let (tell, told) = channel();
        let first = Duration::from_millis(1);
        let watching = std::thread::spawn(move || watch(&seen, first, |_| tell.send(()).unwrap()));
        told.recv().unwrap();
        told.recv().unwrap();
        signs.send(()).unwrap();
        told.recv().unwrap();
        drop(signs);
        watching.join().unwrap();
    }

    #[test]
    fn what_comes_back_at_once_is_not_told() {
        let (signs, seen) = channel();
        signs.send(()).unwrap();
        drop(signs);
        watch(&seen, TELL_AFTER, |seconds| panic!("told after {seconds} s"));
    }
}
