//! `ringfall saturate s3://...`: the limits of an object store, as a table and a file.

use ringfall_config::InputError;
use ringfall_config::object_store::Place;

use crate::cli::SaturateArgs;

/// Object store to measure; none if the target is a drive, by `--cache-dir` or by default.
pub(super) fn target(args: &SaturateArgs) -> Result<Option<Place>, InputError> {
    let typed = args.target.clone().or_else(|| {
        let places = args.cache_dir.as_ref()?;
        places.0.iter().map(|path| path.display().to_string()).find(|path| path.contains("://"))
    });
    let place = match typed {
        None => None,
        Some(typed) => Some(Place::parse(&typed).map_err(InputError::new)?),
    };
    match (&place, args.target.is_some()) {
        (Some(Place::Objects(url)), false) => Err(InputError::new(format!(
            "--cache-dir names a drive: measure an object store with `ringfall saturate {url}`"
        ))),
        (None | Some(Place::Path(_)), is_named) => match args.first_of_objects() {
            Some(flag) => Err(InputError::new(format!(
                "{flag} is for object stores: name one, such as s3://BUCKET/PREFIX, or leave it out"
            ))),
            None if is_named && args.cache_dir.is_some() => {
                Err(InputError::new("name the place once: as an argument or with --cache-dir"))
            }
            None if is_named => Ok(place),
            None => Ok(None),
        },
        (Some(Place::Objects(_)), true) => match args.first_of_drives() {
            Some(flag) => Err(InputError::new(format!(
                "{flag} is for drives: leave it out; --object-sizes and --object-in-flight say \
                 what is measured of an object store"
            ))),
            None => Ok(place),
        },
    }
}

/// Without object stores there is nothing to measure.
///
/// # Errors
/// This program was built without them.
#[cfg(not(feature = "objects"))]
pub(super) fn run(
    _args: &SaturateArgs,
    _url: &ringfall_config::object_store::ObjectUrl,
) -> anyhow::Result<ringfall_host::exit::Exit> {
    Err(InputError::new(ringfall_config::object_store::LEFT_OUT).into())
}
