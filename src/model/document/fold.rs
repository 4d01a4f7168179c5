//! Documents that become one, one after the other: memory holds what they have come to, and not
//! them.

use super::figure::Derived;
use super::merge::{Inputs, Merge};
use super::side_by_side::Together;
use super::{Document, EncodedHistograms, Histograms, Timeline};

/// Merges documents one after the other, so that memory holds one of them and the sum.
#[derive(Debug, Default)]
pub struct Fold {
    /// Sum of the documents so far, of that many seconds and requests.
    sum: Option<Document>,
    seconds: f64,
    completed: u64,
    histograms: Option<Histograms>,
    /// State for ranks, which measured at the same time.
    together: Option<Together>,
}

impl Fold {
    /// Starts a fold of runs that followed one another: their times add up too.
    pub fn one_after_the_other() -> Fold {
        Fold::default()
    }

    /// Starts a fold of ranks: rates are over their common window, from the first start to the last
    /// end, in s since 1970, and counts that every rank took of a whole shared device are counted
    /// once.
    pub fn side_by_side(window: Option<(f64, f64)>) -> Fold {
        Fold { together: Some(Together::new(window)), ..Fold::default() }
    }

    /// Adds a document and its histograms.
    pub fn add(&mut self, mut document: Document, histograms: &Histograms) {
        match &mut self.histograms {
            None => self.histograms = Some(histograms.clone()),
            Some(all) => all.add(histograms),
        }
        let seconds = document.seconds().unwrap_or(0.0);
        let completed = document.requests_completed.known().unwrap_or(0);
        document.ringfall.histograms = EncodedHistograms::default();
        if let Some(together) = &mut self.together {
            together.take(&mut document);
        }
        let mut inputs = Inputs { seconds: vec![seconds], completed: vec![completed] };
        let mut all = vec![&document];
        if let Some(sum) = &self.sum {
            inputs.seconds.insert(0, self.seconds);
            inputs.completed.insert(0, self.completed);
            all.insert(0, sum);
        }
        self.sum = Some(<Document as Merge>::merged(&all, &inputs));
        self.seconds += seconds;
        self.completed = self.completed.saturating_add(completed);
    }

    /// All as one, written by that command: what is worked out from the counters and histograms is
    /// worked out anew. What tells the documents apart is still to be said (`Ours::merged`).
    #[must_use]
    pub fn finish(self, command_line: &[String]) -> Document {
        let mut merged = self.sum.unwrap_or_default();
        let several_devices = self.together.is_some_and(|together| together.tell(&mut merged));
        merged.derive(&self.histograms.unwrap_or_default(), command_line);
        if several_devices {
            merged.ringfall.device.utilisation = Derived::default();
        }
        merged
    }
}

impl Document {
    /// Drops the parts that grow with the number of requests and the length of the run: samples,
    /// histograms and rows of time.
    #[must_use]
    pub fn outline(mut self) -> Document {
        for samples in [
            &mut self.end_to_end_latencies,
            &mut self.storage_latencies,
            &mut self.generation_latencies,
            &mut self.prefill_latencies,
            &mut self.decode_latencies,
        ] {
            *samples = Default::default();
        }
        self.throughput_timeline = Timeline::default();
        self.ringfall.timeline = Timeline::default();
        self.ringfall.histograms = EncodedHistograms::default();
        self.ringfall.device.series = Timeline::default();
        self
    }
}
