//! Results of ranks as one: they measured at the same time, so that counts add up and times do not.

use std::collections::BTreeMap;

use super::figure::{Derived, Sum};
use super::list::Timeline;
use super::merge::Merge;
use super::summary::ThroughputSecond;
use super::timeline::{SecondReport, SecondTier, SecondTierDirection};
use super::{Document, Histograms, inputs_of};

/// The machine that a rank ran on and the device below its data, as the results name them.
pub type Place = (String, String);

impl Document {
    /// Documents of ranks as one, written by that command: the window reaches from the first start
    /// to the last end, rates are over that time, and what each rank saw whole of a device that
    /// several of them used is taken once. `histograms` are those of all of them together.
    #[must_use]
    pub fn side_by_side(
        documents: &[&Document],
        histograms: &Histograms,
        command_line: &[String],
    ) -> Document {
        let inputs = inputs_of(documents);
        let mut merged = <Document as Merge>::merged(documents, &inputs);
        let window = common_window(documents);
        let span_s = window.map(|(start, end)| end - start);
        merged.summary.elapsed_time = Sum::maybe(span_s);
        let longest = |pick: fn(&Document) -> Sum<f64>| {
            Sum::maybe(documents.iter().filter_map(|d| pick(d).known()).reduce(f64::max))
        };
        let ours = &mut merged.ringfall;
        ours.window.seconds = Sum::maybe(span_s);
        ours.window.warmup_seconds = longest(|d| d.ringfall.window.warmup_seconds);
        ours.window.drain_seconds = longest(|d| d.ringfall.window.drain_seconds);
        ours.timeline = timeline(documents, window.map_or(0.0, |(start, _)| start));
        merged.throughput_timeline = throughput(&merged.ringfall.timeline);
        let seen_once = once_a_place(documents);
        let device = &mut merged.ringfall.device;
        let kernels: Vec<_> = seen_once.iter().map(|d| &d.ringfall.device.kernel).collect();
        device.kernel = Merge::merged(&kernels, &inputs);
        // Moments of several devices are not those of one.
        device.series = match &seen_once[..] {
            [only] => only.ringfall.device.series.clone(),
            _ => Timeline::default(),
        };
        merged.derive(histograms, command_line);
        if seen_once.len() > 1 {
            merged.ringfall.device.utilisation = Derived::default();
        }
        merged
    }

    /// Where this rank ran; none where the kernel did not count for it.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        let rank = self.ringfall.rank.as_ref()?;
        let device = self.ringfall.device.kernel.as_ref()?.device.as_ref()?;
        Some((rank.host.clone(), device.clone()))
    }

    /// Start and end of the window, s since 1970; none where nothing was measured.
    #[must_use]
    pub fn span(&self) -> Option<(f64, f64)> {
        let start = self.ringfall.window.start_unix_s.known()?;
        let seconds = self.seconds().filter(|&seconds| seconds > 0.0)?;
        Some((start, start + seconds))
    }
}

/// From the first start to the last end, s since 1970.
fn common_window(documents: &[&Document]) -> Option<(f64, f64)> {
    let spans = documents.iter().filter_map(|document| document.span());
    spans.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
}

/// Of the documents whose ranks saw the same device of the same machine the one that saw most; one
/// without counters stays, so that what is not known is not made up.
fn once_a_place<'a>(documents: &[&'a Document]) -> Vec<&'a Document> {
    let bytes = |document: &Document| {
        let kernel = document.ringfall.device.kernel.as_ref();
        kernel.map_or(0, |kernel| {
            let (read, written) = (kernel.read_bytes.known(), kernel.write_bytes.known());
            read.unwrap_or(0).saturating_add(written.unwrap_or(0))
        })
    };
    let mut chosen: BTreeMap<Place, &Document> = BTreeMap::new();
    let mut unknown = Vec::new();
    for &document in documents {
        match document.place() {
            None => unknown.push(document),
            Some(place) => {
                let there = chosen.entry(place).or_insert(document);
                if bytes(document) > bytes(there) {
                    *there = document;
                }
            }
        }
    }
    chosen.into_values().chain(unknown).collect()
}

/// The seconds of all of them by the wall clock. What can't be added up, such as the percentiles of
/// a second, is null.
fn timeline(documents: &[&Document], start_s: f64) -> Timeline<SecondReport> {
    let mut seconds: BTreeMap<u64, SecondReport> = BTreeMap::new();
    for document in documents {
        let Some((began_s, _)) = document.span() else { continue };
        for row in document.ringfall.timeline.iter() {
            // The second in which most of the row lies.
            let middle_s = began_s - start_s + row.end_s - row.seconds / 2.0;
            let index = middle_s.max(0.0) as u64;
            match seconds.get_mut(&index) {
                Some(sum) => sum.add(row),
                None => drop(seconds.insert(index, row.without_shares())),
            }
        }
    }
    let ended = |(index, row): (u64, SecondReport)| SecondReport {
        end_s: index as f64 + row.seconds,
        ..row
    };
    seconds.into_iter().map(ended).collect()
}

fn throughput(timeline: &Timeline<SecondReport>) -> Timeline<ThroughputSecond> {
    let mut tokens = 0_u64;
    let rows = timeline.iter().map(|second| {
        tokens = tokens.saturating_add(second.generated_tokens);
        ThroughputSecond {
            timestamp: second.end_s,
            throughput_tokens_per_sec: tokens as f64 / second.end_s.max(1e-6),
        }
    });
    rows.collect()
}

impl SecondReport {
    /// Without what can't be added up.
    fn without_shares(&self) -> SecondReport {
        let mut row = SecondReport { hit_rate: None, ..self.clone() };
        row.each_direction(|direction| {
            direction.latency_p50_us = None;
            direction.latency_p95_us = None;
            direction.latency_p99_us = None;
        });
        row
    }

    fn each_direction(&mut self, change: impl Fn(&mut SecondTierDirection)) {
        let tiers = &mut self.tiers;
        for tier in [&mut tiers.gpu, &mut tiers.cpu, &mut tiers.storage] {
            change(&mut tier.read);
            change(&mut tier.write);
        }
    }

    /// The same second of another rank.
    fn add(&mut self, other: &SecondReport) {
        self.seconds = self.seconds.max(other.seconds);
        let tiers = &mut self.tiers;
        for (sum, one) in [
            (&mut tiers.gpu, &other.tiers.gpu),
            (&mut tiers.cpu, &other.tiers.cpu),
            (&mut tiers.storage, &other.tiers.storage),
        ] {
            sum.add(one);
        }
        add_buckets(&mut self.io_read_buckets, &other.io_read_buckets);
        add_buckets(&mut self.io_write_buckets, &other.io_write_buckets);
        self.queue_depth = self.queue_depth.saturating_add(other.queue_depth);
        self.users = self.users.saturating_add(other.users);
        self.requests_completed = self.requests_completed.saturating_add(other.requests_completed);
        self.generated_tokens = self.generated_tokens.saturating_add(other.generated_tokens);
        self.errors = self.errors.saturating_add(other.errors);
    }
}

impl SecondTier {
    fn add(&mut self, other: &SecondTier) {
        for (sum, one) in [(&mut self.read, &other.read), (&mut self.write, &other.write)] {
            sum.bytes = sum.bytes.saturating_add(one.bytes);
            sum.operations = sum.operations.saturating_add(one.operations);
        }
        self.held_bytes = self.held_bytes.saturating_add(other.held_bytes);
    }
}

fn add_buckets(sum: &mut Vec<(u32, u32)>, other: &[(u32, u32)]) {
    let mut counts: BTreeMap<u32, u32> = sum.iter().copied().collect();
    for &(bucket, count) in other {
        let there = counts.entry(bucket).or_default();
        *there = there.saturating_add(count);
    }
    *sum = counts.into_iter().collect();
}
