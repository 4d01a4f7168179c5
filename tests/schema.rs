//! Statements of the published schema on the reference benchmark's keys: for each, its definition
//! is the reference's, or the difference is given.

use boon::{Compiler, Schemas};
use ringfall_config::{ConfigFile, SETTINGS, defaults_page};
use serde_json::{Value, json};

/// The reference's keys, with alternatives in braces. Not among them: the histograms of
/// `device_latency_tracing`.
const KEYS: &str = "
    requests_completed total_tokens_generated total_storage_io_latency total_generation_latency
    end_to_end_latencies storage_latencies generation_latencies prefill_latencies decode_latencies
    throughput_timeline throughput_timeline.timestamp throughput_timeline.throughput_tokens_per_sec
    validation.{passed,avg_error_pct} validation.comparison.cache_hit_rate.{benchmark,trace}
    validation.comparison.cache_hit_rate.{error_pct,within_5pct}
    validation.trace_stats.{total_requests,cache_hit_rate,read_write_ratio,context_tokens_mean}
    validation.trace_stats.generation_tokens_mean
    multi_turn_cache_hits multi_turn_cache_misses seed device_latency_tracing fio_workload
    summary.total_requests summary.total_tokens summary.elapsed_time
    summary.avg_throughput_tokens_per_sec summary.total_storage_io_time
    summary.storage_throughput_tokens_per_sec summary.requests_per_second
    summary.{end_to_end,storage_io,generation}_latency_ms.{mean,p50,p95,p99,p999,p9999}
    summary.cache_stats.cache_{hit_rate,hits,misses}
    summary.cache_stats.{gpu,cpu,storage}_entries summary.cache_stats.{gpu,cpu}_memory_used_gb
    summary.cache_stats.offloads_{cpu,storage}
    summary.cache_stats.storage_health
    summary.cache_stats.storage_health.{overall_status,criteria,passed_count,total_count}
    summary.cache_stats.storage_health.criteria.{name,target,actual,unit,passed}
    summary.cache_stats.{prefill_writes,decode_reads}
    summary.cache_stats.{prefill_bytes_written,decode_bytes_read}_gb
    summary.cache_stats.tier_{gpu,cpu,storage}_kv_bytes_{written,read}_gb
    summary.cache_stats.tier_{gpu,cpu,storage}_{read,write}_bandwidth_gbps
    summary.cache_stats.{system_prompt,common_phrase,user_cache,multi_turn}_hits
    summary.cache_stats.total_{read,write}_{bytes,gb}
    summary.cache_stats.read_write_ratio summary.cache_stats.{read,write}_iops
    summary.cache_stats.storage_tokens_processed
    summary.cache_stats.{gpu,cpu,storage}_{read,write}_{p50,p95,p99,p999,p9999}_ms
    summary.cache_stats.storage_{read,write}_{device,host}_{p50,p95,p99,p999,p9999}_ms
    summary.qos_metrics.{interactive,responsive,batch}.{no_data,total_requests}
    summary.qos_metrics.{interactive,responsive,batch}.latency_ms.{mean,p50,p95,p99,max}
    summary.qos_metrics.{interactive,responsive,batch}.sla.{target_p95_ms,actual_p95_ms}
    summary.qos_metrics.{interactive,responsive,batch}.sla.{compliance,met}
    summary.prefix_cache_stats.{prefix_hits,prefix_misses,system_prompt_reuse}
    summary.prefix_cache_stats.{common_phrase_reuse,bytes_saved}
    summary.autoscaling_stats summary.autoscaling_stats.{timestamp,mode,action,users}
    summary.autoscaling_stats.{saturation_level,read_latency_p95_ms,write_latency_p95_ms}
    summary.autoscaling_stats.{throughput_tokens_per_sec,peak_throughput_tokens_per_sec}
    summary.autoscaling_summary.{initial_users,final_users,total_scale_events}
    summary.autoscaling_summary.{peak_user_count,peak_throughput_tokens_per_sec}
    summary.multi_turn_stats.{cache_hits,cache_misses,hit_rate}
";

const SAME: &str = "Same definition as ";
const DIFFERS: &str = "Differs from the reference";

/// Each key of a pattern with alternatives in braces.
fn expanded(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (alternatives, after) = rest.split_once('}').expect("a brace is closed");
    let each = alternatives.split(',').map(|one| format!("{before}{one}{after}"));
    each.flat_map(|pattern| expanded(&pattern)).collect()
}

fn keys() -> Vec<String> {
    KEYS.split_whitespace().flat_map(expanded).collect()
}

/// The property of that name in a schema, behind what it refers to and in each of its alternatives.
fn property<'a>(schema: &'a Value, name: &str, all: &'a Value) -> Option<&'a Value> {
    if let Some(place) = schema["$ref"].as_str() {
        return property(all.pointer(place.strip_prefix('#')?)?, name, all);
    }
    if let Some(found) = schema["properties"].get(name) {
        return Some(found);
    }
    let alternatives = schema["anyOf"].as_array().into_iter().flatten();
    let mut parts = alternatives.chain(schema.get("items"));
    parts.find_map(|part| property(part, name, all))
}

/// The nearest description from the key upwards that says whether the definition is the
/// reference's.
fn statement(schema: &Value, key: &str) -> Result<String, String> {
    let mut at = schema;
    let mut nearest = None;
    for name in key.split('.') {
        let found = property(at, name, schema);
        at = found.ok_or_else(|| format!("{key}: the schema has no {name}"))?;
        let text = at["description"].as_str().unwrap_or_default().replace('\n', " ");
        if text.contains(SAME) || text.contains(DIFFERS) {
            nearest = Some(text);
        }
    }
    let text = nearest.ok_or_else(|| format!("{key}: nothing is said of the reference"))?;
    match text.contains(SAME) && text.contains(DIFFERS) {
        true => Err(format!("{key} is the same and differs: {text}")),
        false => Ok(text),
    }
}

#[test]
fn each_key_of_the_reference_is_said_to_be_the_same_or_how_it_differs() {
    let schema: Value =
        serde_json::from_str(include_str!("../config/results.schema.json")).unwrap();
    let keys = keys();
    assert!(keys.len() > 190, "{} keys", keys.len());
    let said: Vec<(&String, Result<String, String>)> =
        keys.iter().map(|key| (key, statement(&schema, key))).collect();
    let mut wrong: Vec<String> =
        said.iter().filter_map(|(_, text)| text.as_ref().err().cloned()).collect();
    // "as `other` does" is true only if that one differs, and says how.
    let differs = |name: &str| {
        let ends = |key: &str| format!(".{key}.").contains(&format!(".{name}."));
        let mut others = said.iter().filter(|(key, _)| ends(key));
        others.any(|(_, text)| text.as_ref().is_ok_and(|text| text.contains(DIFFERS)))
    };
    for (key, text) in &said {
        let Ok(text) = text else { continue };
        let Some((_, how)) = text.split_once(DIFFERS) else { continue };
        let other = how.strip_prefix(" as `").and_then(|rest| rest.split_once('`'));
        match other {
            Some((other, _)) if !differs(other.trim_start_matches("summary.")) => {
                wrong.push(format!("{key} differs as {other} does, which does not"));
            }
            None if how.split_whitespace().count() < 3 => {
                wrong.push(format!("{key} does not say how it differs: {text}"));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_key_without_a_statement_or_with_two_is_found() {
    let schema = serde_json::json!({ "properties": {
        "a": { "description": "Number of reads of something." },
        "b": { "$ref": "#/$defs/B", "description": "Differs from the reference in units." },
        "c": { "description": "Same definition as its. Differs from the reference." }
    }, "$defs": { "B": { "anyOf": [ { "type": "null" }, { "properties": { "d": {} } } ] } } });
    let said = |key: &str| statement(&schema, key);
    assert!(said("a").unwrap_err().contains("nothing is said"));
    assert!(said("b.d").unwrap().contains("in units"));
    assert!(said("b.e").unwrap_err().contains("has no e"));
    assert!(said("c").unwrap_err().contains("is the same and differs"));
    assert_eq!(expanded("x{1,2}y{3,4}"), ["x1y3", "x1y4", "x2y3", "x2y4"]);
}

/// The part of the schema that describes the settings of a run.
fn of_settings() -> Value {
    let schema: Value =
        serde_json::from_str(include_str!("../config/results.schema.json")).unwrap();
    schema.pointer("/$defs/ConfigReport/properties/settings").unwrap().clone()
}

/// Validates a value against a schema; the error says what is wrong with it.
fn held_against(schema: &Value, value: &Value) -> Result<(), String> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource("settings.json", schema.clone()).unwrap();
    let compiled = compiler.compile("settings.json", &mut schemas).unwrap();
    schemas.validate(value, compiled).map_err(|error| error.to_string())
}

#[test]
fn every_setting_has_a_type_bounds_or_names_a_default_and_a_description() {
    let schema = of_settings();
    for setting in SETTINGS {
        let key = setting.key;
        let own = &schema["properties"][key];
        assert!(own["type"].as_array().is_some_and(|names| names.len() > 1), "{key}: {own}");
        assert!(own["description"].as_str().is_some_and(|text| text.ends_with('.')), "{key}");
        assert_eq!(held_against(own, &own["default"]), Ok(()), "{key}");
        let names: Vec<&str> =
            own["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let choices = setting.choices();
        assert_eq!(names, choices.iter().map(|(name, _)| name).collect::<Vec<_>>(), "{key}");
        let is_number = names_of_types(own).any(|name| ["integer", "number"].contains(&name));
        assert_eq!(own["minimum"].is_number() && own["maximum"].is_number(), is_number, "{key}");
    }
}

fn names_of_types(schema: &Value) -> impl Iterator<Item = &str> {
    schema["type"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[test]
fn the_default_configuration_is_of_the_schema_and_values_out_of_bounds_are_not() {
    let schema = of_settings();
    let defaults = ConfigFile::parse("defaults".to_owned(), defaults_page()).unwrap().options;
    let defaults = serde_json::to_value(&defaults).unwrap();
    assert_eq!(held_against(&schema, &defaults), Ok(()));
    for (key, wrong) in [
        ("num_users", json!(0)),
        ("num_users", json!("many")),
        ("verify", json!("some")),
        ("cpu_mem_gb", json!("lots")),
        ("cpu_mem_gb", json!(-1)),
        ("pin", json!("yes")),
        ("target_saturation", json!(1.5)),
        ("io_size", json!("large")),
        ("queue_depth", json!(0)),
    ] {
        let mut settings = defaults.clone();
        settings[key] = wrong.clone();
        assert!(held_against(&schema, &settings).is_err(), "{key}: {wrong}");
        settings[key] = Value::Null;
        assert_eq!(held_against(&schema, &settings), Ok(()), "{key}");
    }
}
