//! JSON read as a stream: the wanted figures by their path, of arrays of numbers only how many
//! there are and their extremes, and nothing else is kept. A result of a long run has tens of
//! megabytes of raw latencies.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use ringfall_host::open_plain;

/// Largest file that is read: ten times the largest that is known (a rank of 7,000 requests has
/// less than 1 MB; raw arrays of a day's run have some 40 MB).
pub(super) const FILE_BYTES_MAX: u64 = 512 << 20;
/// Figures of one file: a rank's has some 150, a run's metadata some thousand.
const SCALARS_MAX: usize = 50_000;
/// Bytes of a text that are kept; a recorded command has one or two thousand.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of a path that is kept: names are repeated in the paths of all that is below them.
const PATH_BYTES_MAX: usize = 1024;

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Number(f64),
    Bool(bool),
    Text(String),
    Null,
}

/// Sizes beyond which no figure of a result lies: quotients and products of what lies between stay
/// finite.
const SIZES: std::ops::RangeInclusive<f64> = 1e-60..=1e60;

/// A number as a figure: 0 when it is next to nothing, and never beyond what can be computed with.
fn figure(number: f64) -> f64 {
    if number.abs() < *SIZES.start() {
        return 0.0;
    }
    number.clamp(-SIZES.end(), *SIZES.end())
}

/// Count and extremes of an array's numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Numbers {
    pub(super) count: u64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// Values of a file, by path: names and places in arrays with dots between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Flat {
    scalars: BTreeMap<String, Scalar>,
    numbers: BTreeMap<String, Numbers>,
    /// Objects and arrays on the way, wanted or not.
    names: BTreeMap<String, Shape>,
}

/// Kind of container at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    Array,
}

impl Flat {
    pub(super) fn scalar(&self, path: &str) -> Option<&Scalar> {
        self.scalars.get(path)
    }

    pub(super) fn number(&self, path: &str) -> Option<f64> {
        match self.scalars.get(path) {
            Some(Scalar::Number(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn text(&self, path: &str) -> Option<&str> {
        match self.scalars.get(path) {
            Some(Scalar::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(super) fn flag(&self, path: &str) -> Option<bool> {
        match self.scalars.get(path) {
            Some(Scalar::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Count and extremes of the numbers in an array; `None` if it holds no number.
    pub(super) fn numbers(&self, path: &str) -> Option<Numbers> {
        self.numbers.get(path).copied()
    }

    pub(super) fn shape(&self, path: &str) -> Option<Shape> {
        self.names.get(path).copied()
    }

    /// The figures whose path begins with `prefix`, in the order of their paths.
    pub(super) fn below<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Scalar)> {
        let all = self.scalars.range(prefix.to_owned()..);
        all.take_while(move |(path, _)| path.starts_with(prefix))
            .map(|(path, scalar)| (path.as_str(), scalar))
    }

    /// The path of every figure with its value, to be changed by tests.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.scalars.len()
    }
}

/// Reads the wanted paths (each with all that is below it) of the file.
///
/// # Errors
/// A sentence: it can't be read, is too large, is no JSON, or no object.
pub(super) fn read(path: &Path, wanted: &[&str]) -> Result<Flat, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a plain file".to_owned());
    }
    if metadata.len() == 0 {
        return Err("the file is empty: the run that wrote it did not finish".to_owned());
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(format!(
            "it has {} MiB, and at most {} MiB of a file are read; leave out its arrays of raw \
             latencies",
            metadata.len() >> 20,
            FILE_BYTES_MAX >> 20
        ));
    }
    let file = open_plain(path).map_err(|error| error.to_string())?;
    // What it had when it was looked at: a file that grows meanwhile ends there.
    let bounded = std::io::Read::take(file, FILE_BYTES_MAX);
    parse(BufReader::with_capacity(1 << 16, bounded), wanted)
}

/// As [`read`], of text.
///
/// # Errors
/// As [`read`].
pub(super) fn parse(source: impl std::io::Read, wanted: &[&str]) -> Result<Flat, String> {
    let mut flat = Flat::default();
    let mut path = String::new();
    let mut from = serde_json::Deserializer::from_reader(source);
    let node = Node { flat: &mut flat, path: &mut path, wanted, place: None };
    let read = node.deserialize(&mut from).and_then(|()| from.end());
    read.map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => {
            format!("the JSON ends too early ({error}): the file was cut off")
        }
        serde_json::error::Category::Io => error.to_string(),
        _ => format!("this is not readable JSON ({error})"),
    })?;
    match flat.shape("") {
        Some(Shape::Object) => Ok(flat),
        _ => Err("this is JSON, but not an object".to_owned()),
    }
}

/// Whether something at `path`, or below it, is wanted.
fn is_on_the_way(path: &str, wanted: &[&str]) -> bool {
    let leads = |from: &str, to: &str| {
        from.is_empty() || to == from || to.strip_prefix(from).is_some_and(|r| r.starts_with('.'))
    };
    wanted.iter().any(|wanted| leads(path, wanted) || leads(wanted, path))
}

/// One value, read into `flat`.
struct Node<'a> {
    flat: &'a mut Flat,
    path: &'a mut String,
    wanted: &'a [&'a str],
    /// Its place, if it is an element of the array at `path`.
    place: Option<u64>,
}

impl Node<'_> {
    /// Its path is written out only for what is kept: most elements are numbers, which are not.
    fn enter(&mut self) -> usize {
        let length = self.path.len();
        if let Some(place) = self.place.take() {
            push(self.path, &place.to_string());
        }
        length
    }

    fn keep<E: Error>(mut self, scalar: Scalar) -> Result<(), E> {
        let length = self.enter();
        self.flat.scalars.insert(self.path.clone(), scalar);
        self.path.truncate(length);
        if self.flat.scalars.len() > SCALARS_MAX {
            return Err(E::custom(format!(
                "it holds more than {SCALARS_MAX} figures, and a result has some hundred"
            )));
        }
        Ok(())
    }

    fn number<E: Error>(self, number: f64) -> Result<(), E> {
        let number = figure(number);
        if self.place.is_none() {
            return self.keep(Scalar::Number(number));
        }
        let none = Numbers { count: 0, least: f64::INFINITY, most: f64::NEG_INFINITY };
        match self.flat.numbers.get_mut(self.path.as_str()) {
            Some(numbers) => add(numbers, number),
            None => add(self.flat.numbers.entry(self.path.clone()).or_insert(none), number),
        }
        Ok(())
    }

    fn shape<E: Error>(&mut self, shape: Shape) -> Result<(), E> {
        self.flat.names.insert(self.path.clone(), shape);
        if self.flat.names.len() > SCALARS_MAX {
            return Err(E::custom(format!(
                "it holds more than {SCALARS_MAX} objects and arrays, and a result has some ten"
            )));
        }
        Ok(())
    }
}

fn add(numbers: &mut Numbers, number: f64) {
    numbers.count += 1;
    numbers.least = numbers.least.min(number);
    numbers.most = numbers.most.max(number);
}

fn push(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<(), E> {
        self.keep(Scalar::Bool(flag))
    }

    // Counts above 2^53 lose their last digits; no count of a benchmark is so large.
    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.number(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.number(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.number(number)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.keep(Scalar::Null)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.keep(Scalar::Text(text[..end].to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let outer = self.enter();
        self.shape(Shape::Object)?;
        let length = self.path.len();
        while let Some(name) = map.next_key::<String>()? {
            push(self.path, &name);
            if self.path.len() <= PATH_BYTES_MAX && is_on_the_way(self.path, self.wanted) {
                map.next_value_seed(Node {
                    flat: self.flat,
                    path: self.path,
                    wanted: self.wanted,
                    place: None,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            self.path.truncate(length);
        }
        self.path.truncate(outer);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let outer = self.enter();
        self.shape(Shape::Array)?;
        let mut place = 0;
        loop {
            let node =
                Node { flat: self.flat, path: self.path, wanted: self.wanted, place: Some(place) };
            if seq.next_element_seed(node)?.is_none() {
                break;
            }
            place += 1;
        }
        self.path.truncate(outer);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(text: &str, wanted: &[&str]) -> Result<Flat, String> {
        parse(text.as_bytes(), wanted)
    }

    #[test]
    fn figures_are_kept_by_their_path_and_arrays_by_their_extremes() {
        let text = r#"{"a":{"b":1,"c":[{"d":"x"},{"d":true}],"e":null},
                      "raw":[3,1.5,2,"n"],"ab":{"b":5},"z":[[9]]}"#;
        let flat = flat(text, &["a", "raw", "none"]).unwrap();
        assert_eq!(flat.number("a.b"), Some(1.0));
        assert_eq!((flat.text("a.c.0.d"), flat.flag("a.c.1.d")), (Some("x"), Some(true)));
        assert_eq!(flat.scalar("a.e"), Some(&Scalar::Null));
        assert_eq!(flat.numbers("raw"), Some(Numbers { count: 3, least: 1.5, most: 3.0 }));
        assert_eq!(flat.shape("a.c"), Some(Shape::Array));
        // What is not wanted is not kept, also where a name begins alike.
        assert_eq!((flat.number("ab.b"), flat.shape("z")), (None, None));
        assert_eq!(flat.below("a.c.").count(), 2);
    }

    #[test]
    fn a_wanted_path_is_reached_through_objects_that_are_not() {
        let flat = flat(r#"{"a":{"b":{"c":1},"x":2}}"#, &["a.b.c"]).unwrap();
        assert_eq!((flat.number("a.b.c"), flat.len()), (Some(1.0), 1));
    }

    #[test]
    fn what_is_no_object_is_told_apart() {
        for (text, words) in [
            ("[1]", "not an object"),
            ("3", "not an object"),
            ("{\"a\":", "cut off"),
            ("{\"a\":NaN}", "not readable JSON"),
            ("{} x", "not readable JSON"),
            (&format!("{}1{}", "[".repeat(500), "]".repeat(500)), "recursion"),
        ] {
            let error = flat(text, &["a"]).unwrap_err();
            assert!(error.contains(words), "{text:.20}: {error}");
        }
        let long = format!("{{\"a\":{{\"{}\":{{\"b\":1}}}}}}", "x".repeat(2000));
        assert_eq!(flat(&long, &["a"]).unwrap().len(), 0);
        let many: Vec<String> = (0..60_000).map(|n| format!("\"k{n}\":\"x\"")).collect();
        let error = flat(&format!("{{\"a\":{{{}}}}}", many.join(",")), &["a"]).unwrap_err();
        assert!(error.contains("50000"), "{error}");
    }
}
