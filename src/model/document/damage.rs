//! Where a result is damaged: the key at which reading it ended.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The place at which reading `value` as a `T` ended with the message `wrong`: its keys with full
/// stops between them, rows by their numbers (`ringfall.requests.all.p95`). Empty for the whole.
pub(super) fn place<T: DeserializeOwned>(value: &Value, wrong: &str) -> String {
    let lacking = wrong.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let is_it =
        |value: Value| T::deserialize(&value).is_err_and(|error| error.to_string() == wrong);
    below(value, lacking, &is_it)
}

/// The same for a part, of which `is_it` tells whether reading the whole with another in its place
/// ends with the same message; `lacking` is the key that it says is missing.
///
/// Values are read in their order up to the first that is wrong: so of all beginnings of an object
/// or a list, the shortest with which reading ends so ends with that one. Takes a reading for each
/// halving of what stands side by side.
fn below(value: &Value, lacking: Option<&str>, is_it: &dyn Fn(Value) -> bool) -> String {
    // Where something is missing, one more makes a difference.
    let with_more = match (value, lacking) {
        (Value::Object(map), Some(key)) if !map.contains_key(key) => {
            let mut map = map.clone();
            map.insert(key.to_owned(), Value::Null);
            Some(Value::Object(map))
        }
        (Value::Array(list), _) => {
            Some(list.iter().cloned().chain([Value::Null]).collect::<Value>())
        }
        _ => None,
    };
    if with_more.is_some_and(|with_more| !is_it(with_more)) {
        return String::new();
    }
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, part)| (key.clone(), part)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(at, part)| (at.to_string(), part)).collect()
        }
        _ => return String::new(),
    };
    let beginning = |length: usize, last: Option<Value>| {
        let before = parts[..length].iter().map(|(key, part)| (key.clone(), (*part).clone()));
        let last = last.map(|last| (parts[length].0.clone(), last));
        let all = before.chain(last);
        match value {
            Value::Object(_) => Value::Object(Map::from_iter(all)),
            _ => Value::Array(all.map(|(_, part)| part).collect()),
        }
    };
    // The longest beginning of which it is not so, and the shortest of which it is.
    let (mut without, mut with) = (0, parts.len());
    // With nothing in it, too: the value itself is wrong.
    if is_it(beginning(0, None)) || !is_it(beginning(with, None)) {
        return String::new();
    }
    while with - without > 1 {
        let middle = without.midpoint(with);
        match is_it(beginning(middle, None)) {
            true => with = middle,
            false => without = middle,
        }
    }
    let (key, part) = &parts[without];
    let rest = below(part, lacking, &|part| is_it(beginning(without, Some(part))));
    if rest.is_empty() { key.clone() } else { format!("{key}.{rest}") }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    /// Type to read, with every kind of part that may be damaged.
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Sample {
        a: Option<u64>,
        rows: Vec<Row>,
        three: Option<[f64; 3]>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Row {
        name: String,
        count: u64,
    }

    fn place_in(sample: &Value) -> String {
        let wrong = Sample::deserialize(sample).err().expect("it is damaged").to_string();
        place::<Sample>(sample, &wrong)
    }

    #[test]
    fn the_first_wrong_part_is_named() {
        let good = json!({ "name": "x", "count": 1 });
        for (sample, want) in [
            (json!({ "a": "x", "rows": [] }), "a"),
            (json!({ "a": { "b": 1 }, "rows": [] }), "a"),
            (json!({ "a": 1, "rows": { "b": 1 } }), "rows"),
            (json!({ "a": 1, "rows": [good, good, { "name": "x", "count": -1 }] }), "rows.2.count"),
            (json!({ "a": 1, "rows": [good, { "name": 5, "count": 2 }, 7] }), "rows.1.name"),
            (json!({ "a": 1, "rows": [good, 7, good] }), "rows.1"),
            // What is missing has no place: its message says its name.
            (json!({ "a": 1, "rows": [good, { "name": "x" }] }), "rows.1"),
            (json!({ "a": 1, "rows": [good, { "count": 1 }], "count": 3 }), "rows.1"),
            (json!({ "a": 1 }), ""),
            (json!({ "rows": [], "three": [1, "x", 3] }), "three.1"),
            (json!({ "rows": [], "three": [1, 2] }), "three"),
            (json!({ "rows": [], "three": [1, 2, 3, 4] }), "three"),
            (json!([]), ""),
            (json!(3), ""),
        ] {
            assert_eq!(place_in(&sample), want, "{sample}");
        }
    }
}
