//! Ratios published for a configuration in which two systems are compared.

use ringfall_config::{PRESETS, Preset};
use serde::Serialize;

use super::configuration::Configuration;
use super::metrics::Metric;

/// A published ratio beside one's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct Published {
    /// Name of the preset that both sides ran.
    pub preset: &'static str,
    /// Key of the metric, as in `Metric::key`.
    pub metric: &'static str,
    /// The faster of the two published systems over the slower.
    pub published: f64,
    /// The same of the two that are compared, the larger over the smaller; null when one has
    /// nothing of it.
    pub here: Option<f64>,
}

/// The preset whose settings these are; their length is left out of account.
pub fn preset_of(configuration: &Configuration) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| Configuration::from_preset(preset) == *configuration)
}

/// Published ratios of that configuration, beside the ratios that `ratio_of` gives for a metric.
pub fn published(
    configuration: &Configuration,
    ratio_of: impl Fn(&str) -> Option<f64>,
) -> Vec<Published> {
    let Some(preset) = preset_of(configuration) else { return Vec::new() };
    let one = |&(key, published): &(&'static str, f64)| {
        let metric = Metric::by_key(key)?.key;
        let here = ratio_of(metric).filter(|ratio| *ratio > 0.0 && ratio.is_finite());
        let here = here.map(|ratio| if ratio < 1.0 { 1.0 / ratio } else { ratio });
        Some(Published { preset: preset.name, metric, published, here })
    };
    preset.published.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_metric_is_one_of_ours_and_every_preset_is_found_by_its_settings() {
        for preset in &PRESETS {
            let named = format!("{}_trial1.json", preset.name.replacen("-stress", "_stress", 1));
            let named =
                named.replacen("-throughput", "_tput", 1).replacen("-storage", "_storage", 1);
            let configuration = Configuration::from_name(&named).unwrap();
            assert_eq!(preset_of(&configuration).unwrap().name, preset.name);
            let found = published(&configuration, |_| Some(0.5));
            assert_eq!(found.len(), preset.published.len(), "{}", preset.name);
            assert!(found.iter().all(|row| row.here == Some(2.0) && row.published > 1.0));
            let other = Configuration { users: 1, ..configuration };
            assert!(published(&other, |_| Some(1.0)).is_empty());
        }
    }
}
