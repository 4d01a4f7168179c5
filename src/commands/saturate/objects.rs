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
    let place = typed.map(|typed| Place::parse(&typed)).transpose().map_err(InputError::new)?;
    let is_named = args.target.is_some();
    let what = match (&place, is_named) {
        (Some(Place::Objects(url)), false) => format!(
            "--cache-dir names a drive: measure an object store with `ringfall saturate {url}`"
        ),
        (Some(Place::Objects(_)), true) => match args.first_of_drives() {
            Some(flag) => format!(
                "{flag} is for drives: leave it out; --object-sizes and --object-in-flight say \
                 what is measured of an object store"
            ),
            None => return Ok(place),
        },
        (None | Some(Place::Path(_)), _) => match args.first_of_objects() {
            Some(flag) => format!(
                "{flag} is for object stores: name one, such as s3://BUCKET/PREFIX, or leave it out"
            ),
            None if is_named && args.cache_dir.is_some() => {
                "name the place once: as an argument or with --cache-dir".to_owned()
            }
            None => return Ok(place.filter(|_| is_named)),
        },
    };
    Err(InputError::new(what))
}
