//! Parser of bpftrace's output. One JSON object a line; lines of other kinds are skipped.

use std::collections::BTreeMap;

use serde_json::Value;

use ringfall_model::facts::{BlockDirection, BlockTraceFigures, Bucket, HeatCell, SizeCell};

/// Reads the whole output of a trace.
///
/// # Errors
/// It has no counts, or counts that can't be.
pub fn parse(text: &str) -> Result<BlockTraceFigures, String> {
    let mut figures = BlockTraceFigures::default();
    let mut heat: BTreeMap<u32, HeatCell> = BTreeMap::new();
    let mut took_ns = [0u64; 2];
    let mut any = false;
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let value: Value = serde_json::from_str(line)
            .map_err(|error| format!("bpftrace printed a line that is not JSON: {error}"))?;
        match value["type"].as_str() {
            Some("lost_events") => {
                let events = value["data"]["events"].as_u64().unwrap_or(1);
                figures.lost_events = figures.lost_events.saturating_add(events);
            }
            Some("map" | "hist") => {}
            _ => continue,
        }
        let Some(maps) = value["data"].as_object() else { continue };
        for (name, rows) in maps {
            let Some(rows) = rows.as_object() else { continue };
            for (key, row) in rows {
                any = true;
                let (write, rest) = direction(name, key)?;
                let of = if write { &mut figures.write } else { &mut figures.read };
                let odd = || odd(name, key);
                let number = || row.as_u64().ok_or_else(odd);
                match name.as_str() {
                    "@latency" => of.issue_to_complete_us = buckets(row).ok_or_else(odd)?,
                    "@queued" => of.insert_to_issue_us = buckets(row).ok_or_else(odd)?,
                    "@took" => took_ns[usize::from(write)] = number()?,
                    "@size" => add_size(of, rest.ok_or_else(odd)?, number()?),
                    "@heat" => {
                        let part = rest.and_then(|part| u32::try_from(part).ok());
                        let part = part.ok_or_else(odd)?;
                        let cell =
                            heat.entry(part).or_insert(HeatCell { part, ..HeatCell::default() });
                        let seen = if write { &mut cell.writes } else { &mut cell.reads };
                        *seen = seen.saturating_add(number()?);
                    }
                    _ => {}
                }
            }
        }
    }
    if !any {
        return Err("bpftrace counted nothing on this device".to_owned());
    }
    figures.heat = heat.into_values().collect();
    for (direction, took_ns) in [&mut figures.read, &mut figures.write].into_iter().zip(took_ns) {
        direction.sizes.sort_by_key(|size| size.bytes);
        let counts = direction.issue_to_complete_us.iter().map(|bucket| bucket.count);
        let completed = counts.fold(0, u64::saturating_add);
        direction.latency_mean_us =
            (completed > 0).then(|| took_ns as f64 / 1e3 / completed as f64);
    }
    Ok(figures)
}

fn odd(name: &str, key: &str) -> String {
    format!("bpftrace printed something odd for {name}[{key}]")
}

/// Whether a key (`1` or `1,4096`) is of writes, and its second part.
fn direction(name: &str, key: &str) -> Result<(bool, Option<u64>), String> {
    let (first, rest) = key.split_once(',').map_or((key, None), |(a, b)| (a, Some(b)));
    let rest = rest.map(|rest| rest.trim().parse::<u64>().map_err(|_| odd(name, key)));
    match first {
        "0" => Ok((false, rest.transpose()?)),
        "1" => Ok((true, rest.transpose()?)),
        _ => Err(odd(name, key)),
    }
}

fn buckets(rows: &Value) -> Option<Vec<Bucket>> {
    let bucket = |row: &Value| {
        let low = row["min"].as_u64().unwrap_or(0);
        // The last has no upper bound.
        let high = row["max"].as_u64().unwrap_or(u64::MAX).max(low);
        Some(Bucket { low, high, count: row["count"].as_u64()? })
    };
    rows.as_array()?.iter().map(bucket).collect()
}

fn add_size(direction: &mut BlockDirection, bytes: u64, count: u64) {
    direction.requests = direction.requests.saturating_add(count);
    direction.bytes = direction.bytes.saturating_add(bytes.saturating_mul(count));
    direction.sizes.push(SizeCell { bytes, count });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As bpftrace 0.17 printed it, shortened.
    const PRINTED: &str = concat!(
        r#"{"type": "printf", "data": "ringfall-ready\n"}


{"type": "map", "data": {"@heat": {"0,31": 2, "1,94": 3, "0,69": 10, "1,69": 11}}}
{"type": "hist", "data": {"@latency": {"1": [{"min": 64, "max": 127, "count": 4}, "#,
        r#"{"min": 128, "max": 255, "count": 10}], "0": [{"max": 0, "count": 12}]}}}
{"type": "hist", "data": {"@queued": {"1": [{"min": 0, "max": 0, "count": 14}]}}}
{"type": "map", "data": {"@size": {"0,4096": 10, "0,131072": 2, "1,1310720": 14}}}
{"type": "map", "data": {"@took": {"0": 1200000, "1": 2800000}}}
"#
    );

    #[test]
    fn real_output_is_read() {
        let figures = parse(PRINTED).unwrap();
        assert_eq!((figures.read.requests, figures.read.bytes), (12, 10 * 4096 + 2 * 131_072));
        assert_eq!((figures.write.requests, figures.write.bytes), (14, 14 * 1_310_720));
        assert_eq!(figures.write.latency_mean_us, Some(200.0));
        assert_eq!(figures.read.latency_mean_us, Some(100.0));
        assert_eq!(figures.write.insert_to_issue_us[0].count, 14);
        assert_eq!(figures.heat.len(), 3);
        assert_eq!(figures.heat[1], HeatCell { part: 69, reads: 10, writes: 11 });
        assert_eq!(figures.lost_events, 0);
        let lossy =
            format!("{PRINTED}{{\"type\": \"lost_events\", \"data\": {{\"events\": 7}}}}\n");
        assert_eq!(parse(&lossy).unwrap().lost_events, 7);
    }

    #[test]
    fn noise_is_an_error_and_never_a_panic() {
        for end in 0..PRINTED.len() {
            if PRINTED.is_char_boundary(end) {
                let _either = parse(&PRINTED[..end]);
            }
        }
        for text in [
            "",
            "Attaching 4 probes...",
            "{",
            "{\"type\": \"map\", \"data\": {\"@size\": {\"2,4096\": 1}}}",
            "{\"type\": \"map\", \"data\": {\"@size\": {\"0\": 1}}}",
            "{\"type\": \"map\", \"data\": {\"@size\": {\"0,4096\": -1}}}",
            "{\"type\": \"hist\", \"data\": {\"@latency\": {\"0\": 5}}}",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
