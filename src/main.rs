//! The program: parse, run, exit status.

use std::process::ExitCode;

/// The stack that the work has: what a main thread usually has.
const STACK_BYTES: usize = 8 << 20;

fn main() -> ExitCode {
    // The main thread's own stack is as small as `ulimit -s` says, and overflows without a word.
    let work = std::thread::Builder::new().name("ringfall".to_owned()).stack_size(STACK_BYTES);
    match work.spawn(|| ringfall::main_with(std::env::args_os())) {
        Ok(thread) => match thread.join() {
            Ok(exit) => exit.into(),
            // It has said why on standard error.
            Err(panic) => {
                ringfall_host::outlet::settle();
                std::panic::resume_unwind(panic)
            }
        },
        Err(error) => {
            ringfall_host::stderr::tell(format_args!(
                "error: no thread can be started ({error}): raise the limits on threads (ulimit \
                 -u) and on memory (ulimit -v)"
            ));
            ringfall_host::outlet::settle();
            ringfall_host::exit::Exit::Failed.into()
        }
    }
}
