//! Terminal text of a run's outcome: the metrics to go by, where the time went, and the
//! requirements of the profile on storage.

use ringfall_config::PUBLISHED_SYSTEMS;
use ringfall_model::configuration::Configuration;
use ringfall_model::document::RunLimit;
use ringfall_model::metrics::Metric;
use ringfall_model::published::preset_of;
use ringfall_model::trust::headlines;

use super::table::digits;
use super::terminal::{LABEL, Summary};

impl Summary<'_> {
    /// Writes the sums over all requests.
    pub(super) fn served(&mut self) {
        let served = &self.document.ringfall.served;
        let mean = |tokens: Option<f64>| tokens.map_or("-".to_owned(), |mean| format!("{mean:.0}"));
        if let Some(tokens @ 1..) = self.document.summary.total_tokens.known() {
            let context = mean(served.context_tokens_mean.known());
            let made = mean(served.generated_tokens_mean.known());
            self.line(&format!(
                "               {tokens} tokens in all; mean request: {context} of context, {made} \
                 generated"
            ));
        }
    }

    /// Writes where the time of the requests went.
    pub(super) fn time(&mut self) {
        let Some(rows) = self.document.ringfall.served.time.rows() else { return };
        let share = |(name, share): (&str, f64)| format!("{name} {:.0} %", share * 100.0);
        // What a request never met says nothing; the storage is what the run is about.
        let is_told = |row: &(&str, f64)| row.0 == "storage" || row.1 >= 0.005;
        let shares: Vec<String> = rows.into_iter().filter(is_told).map(share).collect();
        self.labelled("time went to", &shares.join(", "));
    }

    /// Writes the resource that limited the run, and what shows it.
    pub(super) fn limit(&mut self) {
        let limit = RunLimit::of(self.document);
        let flag =
            limit.flag_to_try.as_ref().map_or(String::new(), |flag| format!(" [try {flag}]"));
        self.labelled("verdict", &format!("{}: {}{flag}", limit.kind.name(), limit.told));
    }

    /// Writes the primary metrics, which to go by in this configuration, and why; then the ratios
    /// published of two drives in this configuration, if there are any.
    pub(super) fn metrics(&mut self) {
        let headlines = headlines(self.document);
        for headline in &headlines {
            let (name, unit) = name_and_unit(headline.metric.title);
            let value = digits(headline.value, 4);
            match &headline.advice {
                Some(advice) => {
                    let sentence = format!("{name} {value} {unit}: {}", advice.why);
                    self.labelled(advice.trust.name(), &sentence);
                }
                None => self.labelled("metric", &format!("{name} {value} {unit}")),
            }
        }
        let configuration = Configuration::from_result(self.document);
        let configuration = configuration.filter(|_| !headlines.is_empty());
        let Some(preset) = configuration.as_ref().and_then(preset_of) else { return };
        for (key, ratio) in preset.published {
            let (name, _) = name_and_unit(Metric::title_of(key));
            let sentence = format!(
                "{name} of {PUBLISHED_SYSTEMS} differed {ratio:.2}× ({}); `ringfall compare` sets \
                 two results beside that",
                preset.name
            );
            self.labelled("published", &sentence);
        }
    }

    /// Writes the reference benchmark's verdict, and every criterion with what was measured. It
    /// does not say whether users are served.
    pub(super) fn health(&mut self) {
        let health = self.document.summary.cache_stats.storage_health.as_ref();
        let Some(health) = health else { return };
        let status = match &*health.overall_status {
            "NO DATA" => format!("NO DATA: {}", health.why_no_data()),
            status => format!(
                "{} by the reference's criteria, passed {} of {}",
                if status == "FAIL" { self.warn(status) } else { status.to_owned() },
                health.passed_count,
                health.total_count
            ),
        };
        self.line(&format!("  health       {status}"));
        let judged = health.criteria.iter().map(|criterion| match criterion.passed {
            true => ("met:", criterion),
            false => ("not met:", criterion),
        });
        let too_few = health.too_few.iter().map(|criterion| ("too few to judge:", criterion));
        for (word, criterion) in judged.chain(too_few) {
            let before = format!("{:LABEL$}{word:<8} ", "");
            self.wrapped(&before, before.len(), &criterion.told());
        }
    }
}

/// Name of a metric in its title, and its unit.
fn name_and_unit(title: &str) -> (&str, &str) {
    title.rsplit_once(", ").unwrap_or((title, ""))
}
