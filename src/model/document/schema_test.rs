//! The schema of the document, made from its types and held against the page that the program
//! prints. To write that page anew:
//! `RINGFALL_WRITE_SCHEMA=1 cargo test --workspace --lib schema_test`

use super::schema::schema;
use crate::SCHEMA_PAGE;

#[test]
fn the_schema_that_is_printed_is_that_of_the_types() {
    let page = format!("{:#}\n", schema());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/results.schema.json");
    if std::env::var_os("RINGFALL_WRITE_SCHEMA").is_some() {
        std::fs::write(path, page).unwrap();
        return;
    }
    assert!(
        SCHEMA_PAGE == page,
        "config/results.schema.json is old: write it anew with \
         `RINGFALL_WRITE_SCHEMA=1 cargo test --workspace --lib schema_test`"
    );
}
