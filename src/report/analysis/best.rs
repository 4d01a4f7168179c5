//! The configuration that tells two systems furthest apart, by model and CPU memory.

use std::collections::BTreeMap;

use ringfall_model::configuration::Configuration;
use ringfall_model::metrics::Metric;
use ringfall_model::trust::{Situation, Trust, advise};
use serde::Serialize;

use super::pairs::Pair;

/// The largest ratio of a metric among the configurations of a model in which that metric is one to
/// go by.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Best {
    /// Configuration in which that ratio was seen.
    pub configuration: Configuration,
    /// Key of the metric.
    pub metric: &'static str,
    /// The first system's value over the second's, trials averaged first.
    pub ratio: f64,
    /// Number of configurations among which it is the largest.
    pub of: usize,
}

/// A row for each model, CPU memory and metric to go by there. Configurations in which requests
/// wait for generated tokens are left out, as the published invocations leave them out: there the
/// drive is one of several things that are measured. So are those that nothing names.
pub fn best(pairs: &[Pair]) -> Vec<Best> {
    let mut rows: BTreeMap<(String, u64, usize), Best> = BTreeMap::new();
    for pair in pairs {
        let Some(configuration) = &pair.configuration else { continue };
        let situation = Situation::of_configuration(configuration);
        if situation.generation_waits == Some(true) {
            continue;
        }
        let advice = advise(&[situation]);
        for (place, advice) in advice.iter().enumerate() {
            let metric = Metric::by_key(advice.metric).filter(|metric| metric.headline);
            let Some(ratio) = metric.and_then(|metric| pair.ratio(metric)) else { continue };
            if advice.trust != Trust::Primary {
                continue;
            }
            let key = (configuration.model.clone(), configuration.cpu_memory_mib, place);
            let fresh = || Best {
                configuration: configuration.clone(),
                metric: advice.metric,
                ratio,
                of: 0,
            };
            let row = rows.entry(key).or_insert_with(fresh);
            row.of += 1;
            if ratio > row.ratio {
                *row = Best { of: row.of, ..fresh() };
            }
        }
    }
    rows.into_values().collect()
}
