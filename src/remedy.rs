//! Errors of the engine, whichever they are, in the program's words.

use std::error::Error;

use ringfall_core::error::{IoError, SetupError};
use ringfall_engine::load::LoadError;
use ringfall_host::remedy::{told_io, told_setup};
use ringfall_running::run::FleetError;
use ringfall_running::saturate::SaturateError;
use ringfall_running::store::StoreError;

/// An error and what it came from, in one line; the engine's errors in the program's words.
pub fn told_chain(error: &anyhow::Error) -> String {
    let links = error.chain().map(|link| {
        // Both wrap errors of the engine without a word of their own.
        match (link.downcast_ref::<FleetError>(), link.downcast_ref::<SaturateError>()) {
            (
                Some(
                    FleetError::Setup(error)
                    | FleetError::Store(StoreError::Setup(error) | StoreError::Left(error)),
                ),
                _,
            ) => told(error),
            (Some(FleetError::Load(error)), _) | (_, Some(SaturateError::Load(error))) => {
                told(error)
            }
            _ => told(link),
        }
    });
    links.collect::<Vec<_>>().join(": ")
}

/// The text of an error, whatever it is: in our words when it is the engine's.
pub fn told(error: &(dyn Error + 'static)) -> String {
    if let Some(error) = error.downcast_ref::<LoadError>() {
        return match error {
            LoadError::Setup(error) => told_setup(error),
            LoadError::Io(error) => told_io(error),
            LoadError::Gpu { what } => format!("{what}: see whether nvidia-smi works"),
        };
    }
    let io = error.downcast_ref::<IoError>().map(told_io);
    let setup = || error.downcast_ref::<SetupError>().map(told_setup);
    io.or_else(setup).unwrap_or_else(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_load_is_told_as_what_it_came_from() {
        let error = SetupError::new("no ring", "raise the limit");
        let text = told(&error);
        assert_eq!(text, "no ring: raise the limit");
        assert_eq!(told(&LoadError::Setup(error)), text);
        let other = std::io::Error::other("something else");
        assert_eq!(told(&other), "something else");
    }
}
