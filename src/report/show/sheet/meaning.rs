//! Meaning of each column: the description that the schema of results has for the key from which
//! the column is read, so that no second list could part from the first.

use ringfall_model::{Document, SCHEMA_PAGE};
use serde_json::Value;

use super::columns::{Row, WORKED, rows_of};
use crate::show::table::Cell;

/// All columns of the Summary and their meanings, in their order, the file's name first.
pub(super) fn meanings() -> Vec<(Row, String)> {
    let schema: Value = serde_json::from_str(SCHEMA_PAGE).unwrap_or_default();
    let first = Row { name: "Filename".to_owned(), key: String::new(), cell: Cell::Nothing };
    let first = (first, "Name of the file that holds the result.".to_owned());
    let others = rows_of(&Document::default()).into_iter().flatten().map(|row| {
        let worked = WORKED.iter().find(|(name, ..)| *name == row.name);
        let meaning = worked.map(|(_, meaning, _)| (*meaning).to_owned());
        let meaning = meaning.or_else(|| described(&schema, &row.key)).unwrap_or_default();
        (row, meaning)
    });
    std::iter::once(first).chain(others).collect()
}

/// Description that the schema has of a key.
fn described(schema: &Value, key: &str) -> Option<String> {
    let mut place = schema;
    for name in key.split('.') {
        place = resolved(schema, place)?.get("properties")?.get(name)?;
    }
    let text = place.get("description")?.as_str()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The object that a part of the schema stands for, be it named elsewhere or null at times.
fn resolved<'a>(schema: &'a Value, mut place: &'a Value) -> Option<&'a Value> {
    loop {
        if let Some(name) = place.get("$ref") {
            place = schema.pointer(name.as_str()?.strip_prefix('#')?)?;
        } else if let Some(ways) = place.get("anyOf") {
            let is_null = |way: &&Value| way.get("type").is_some_and(|kind| kind == "null");
            place = ways.as_array()?.iter().find(|way| !is_null(way))?;
        } else {
            return Some(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use ringfall_model::testing::judged;

    use super::*;

    #[test]
    fn every_column_has_a_meaning() {
        let all = meanings();
        assert!(all.len() > 150, "{}", all.len());
        for (row, meaning) in &all {
            assert!(meaning.ends_with(['.', ':']) && meaning.len() > 10, "{row:?}: {meaning:?}");
        }
        let of = |column: &str| all.iter().find(|(row, _)| row.name == column).unwrap();
        let (read, meaning) = of("Storage Tier Read Device P95 (ms)");
        assert_eq!(read.key, "summary.cache_stats.storage_read_device_p95_ms");
        assert!(meaning.starts_with("95th percentile of the device's part"), "{meaning}");
    }

    #[test]
    fn a_column_has_the_value_of_its_key() {
        let document = Document::of(&judged());
        let json = serde_json::to_value(&document).unwrap();
        let mut compared = 0;
        for row in rows_of(&document).concat() {
            let Cell::Number(is) = &row.cell else { continue };
            let key = &row.key;
            let pointer = format!("/{}", key.replace('.', "/"));
            let Some(should) = json.pointer(&pointer).and_then(Value::as_f64) else { continue };
            let should = if key.ends_with("_bytes") && row.name.contains("GiB") {
                should / (1u64 << 30) as f64
            } else {
                should
            };
            // Threads that nobody asked for are the shards.
            if row.name != "Precondition Threads" {
                assert!((is - should).abs() <= 1e-9 * should.abs(), "{}: {is} {should}", row.name);
                compared += 1;
            }
        }
        assert!(compared > 60, "{compared}");
    }
}
