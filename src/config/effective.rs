//! Printing a configuration: the page of the defaults, with the values in effect.

use ringfall_host::escape::{yaml, yaml_key};
use serde_json::Value;

use super::{Origin, Plan, defaults_page};

/// Maps whose keys are the user's own: written whole, not line by line.
const FREE_MAPS: [&str; 2] = ["models", "workload.personas"];

/// The commented configuration of a plan, valid as `--config`. What is worked out at each start
/// stays `auto`, with the present value beside it.
pub fn render(plan: &Plan) -> String {
    let typed = serde_json::to_value(&plan.typed).unwrap_or_default();
    let resolved = serde_json::to_value(&plan.effective).unwrap_or_default();
    let mut page = String::new();
    if plan.demo {
        page.push_str(
            "# Settings of the small demonstration that `ringfall run` makes where no flag asks\n\
             # for a workload or a size, as with --output alone; otherwise the defaults apply.\n\n",
        );
    }
    let mut path: Vec<(usize, &str)> = Vec::new();
    let mut skip_deeper_than = None;
    let defaults = defaults_page();
    for line in defaults.lines() {
        let indent = line.len() - line.trim_start().len();
        if skip_deeper_than.is_some_and(|limit| indent > limit) {
            continue;
        }
        skip_deeper_than = None;
        let key = match line.trim_start().split_once(':') {
            Some((key, _)) if !key.starts_with('#') => key,
            _ => {
                page.push_str(line);
                page.push('\n');
                continue;
            }
        };
        path.retain(|(depth, _)| *depth < indent);
        path.push((indent, key));
        let names: Vec<&str> = path.iter().map(|(_, name)| *name).collect();
        let pointer = format!("/{}", names.join("/"));
        let value = typed.pointer(&pointer).unwrap_or(&Value::Null);
        if FREE_MAPS.contains(&names.join(".").as_str()) {
            free_map(&mut page, indent, key, value);
            skip_deeper_than = Some(indent);
        } else if value.is_object() {
            page.push_str(line);
            page.push('\n');
        } else {
            let note = note(plan, names[0], value, resolved.pointer(&pointer));
            page.push_str(&format!("{:indent$}{key}: {}{note}\n", "", scalar(value)));
        }
    }
    page
}

fn note(plan: &Plan, key: &str, typed: &Value, resolved: Option<&Value>) -> String {
    match (plan.origins.get(key), resolved) {
        (_, Some(now)) if *now != *typed => format!("  # now {}", scalar(now)),
        (Some(Origin::Default) | None, _) => String::new(),
        (Some(origin), _) => format!("  # {}", origin.text()),
    }
}

fn free_map(page: &mut String, indent: usize, key: &str, value: &Value) {
    let entries = value.as_object().filter(|map| !map.is_empty());
    let Some(entries) = entries else {
        page.push_str(&format!("{:indent$}{key}: {{}}\n", ""));
        return;
    };
    page.push_str(&format!("{:indent$}{key}:\n", ""));
    for (name, entry) in entries {
        let name = yaml_key(name, indent + 2);
        page.push_str(&format!("{:indent$}  {name} {}\n", "", scalar(entry)));
    }
}

/// A value in YAML, on one line.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => yaml(text),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let field =
                |(key, value): (&String, &Value)| format!("{}: {}", yaml(key), scalar(value));
            let fields = map.iter().filter(|(_, value)| !value.is_null()).map(field);
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
