//! `ringfall schema`: the JSON Schemas of all that the program writes for others to read. Each page
//! is made from the types that are written, by the test below; the program prints the page.

use ringfall_model::SCHEMA_PAGE;

use crate::cli::SchemaName;

/// The schema of that name, as JSON Schema 2020-12.
pub const fn page(name: SchemaName) -> &'static str {
    match name {
        SchemaName::Results => SCHEMA_PAGE,
        SchemaName::Limits => include_str!("../../config/schemas/limits.schema.json"),
        SchemaName::ObjectLimits => include_str!("../../config/schemas/object-limits.schema.json"),
        SchemaName::Checkpoint => include_str!("../../config/schemas/checkpoint.schema.json"),
        SchemaName::Quick => include_str!("../../config/schemas/quick.schema.json"),
        SchemaName::Suite => include_str!("../../config/schemas/suite.schema.json"),
        SchemaName::WhatIf => include_str!("../../config/schemas/what-if.schema.json"),
        SchemaName::Comparison => include_str!("../../config/schemas/comparison.schema.json"),
        SchemaName::Audit => include_str!("../../config/schemas/audit.schema.json"),
        SchemaName::Discovery => include_str!("../../config/schemas/discovery.schema.json"),
        SchemaName::Trace => include_str!("../../config/schemas/trace.schema.json"),
        SchemaName::TracePlan => include_str!("../../config/schemas/trace-plan.schema.json"),
        SchemaName::Layouts => include_str!("../../config/schemas/layouts.schema.json"),
        SchemaName::LayoutReplay => include_str!("../../config/schemas/layout-replay.schema.json"),
        SchemaName::Analysis => include_str!("../../config/schemas/analysis.schema.json"),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use ringfall_foreign::audit::Audit;
    use ringfall_model::facts::Roofline;
    use ringfall_report::analysis::compare::Comparison;
    use ringfall_report::quick::QuickReport;
    use ringfall_report::show::{LayoutsReport, ReplayReport, TracePlan, TraceReport, WhatIf};
    use ringfall_report::suite::{Discovery, SuiteTable};
    use ringfall_running::saturate::ObjectLimits;
    use schemars::{Schema, schema_for};

    use super::*;
    use crate::commands::analyze::AnalysisReport;
    use crate::commands::checkpoint::result::CheckpointResult;

    /// Schema of the types behind a name; none of the results, which have a test of their own.
    fn schema(name: SchemaName) -> Option<Schema> {
        match name {
            SchemaName::Results => None,
            SchemaName::Limits => Some(schema_for!(Roofline)),
            SchemaName::ObjectLimits => Some(schema_for!(ObjectLimits)),
            SchemaName::Checkpoint => Some(schema_for!(CheckpointResult)),
            SchemaName::Quick => Some(schema_for!(QuickReport)),
            SchemaName::Suite => Some(schema_for!(SuiteTable)),
            SchemaName::WhatIf => Some(schema_for!(WhatIf)),
            SchemaName::Comparison => Some(schema_for!(Comparison)),
            SchemaName::Audit => Some(schema_for!(Audit)),
            SchemaName::Discovery => Some(schema_for!(Discovery)),
            SchemaName::Trace => Some(schema_for!(TraceReport)),
            SchemaName::TracePlan => Some(schema_for!(TracePlan)),
            SchemaName::Layouts => Some(schema_for!(LayoutsReport)),
            SchemaName::LayoutReplay => Some(schema_for!(ReplayReport)),
            SchemaName::Analysis => Some(schema_for!(AnalysisReport)),
        }
    }

    #[test]
    fn the_schemas_that_are_printed_are_those_of_the_types() {
        for &name in SchemaName::value_variants() {
            let Some(schema) = schema(name) else { continue };
            let typed = name.to_possible_value().expect("none is skipped").get_name().to_owned();
            let path = format!("config/schemas/{typed}.schema.json");
            let text = format!("{:#}\n", serde_json::Value::from(schema));
            if std::env::var_os("RINGFALL_WRITE_SCHEMA").is_some() {
                let root = concat!(env!("CARGO_MANIFEST_DIR"), "/");
                std::fs::write(format!("{root}{path}"), text).unwrap();
                continue;
            }
            assert!(
                page(name) == text,
                "{path} is old: write it anew with `RINGFALL_WRITE_SCHEMA=1 cargo test \
                 --workspace --lib schema`"
            );
        }
    }
}
