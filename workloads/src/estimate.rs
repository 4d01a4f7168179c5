//! Estimates for a configuration before anything of it is made: entries written before measuring,
//! memory for lists, requests that arrive in a time. All sums saturate.

use crate::config::{Arrival, PhaseMode, WorkloadConfig, quarter_to};
use crate::rag;
use crate::workload::PopulationItem;

/// A list that grows as it is filled has room for up to twice what is in it.
const LIST_GROWTH: u64 = 2;

/// Entries and bytes written before measuring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PopulationEstimate {
    /// Number of entries that are written.
    pub entries: u64,
    /// Sum of the sizes of these entries, bytes.
    pub bytes: u64,
    /// Bytes of documents among these.
    pub documents_bytes: u64,
    /// Memory of the list that names them, bytes, over all shards.
    pub list_bytes: u64,
}

impl WorkloadConfig {
    /// Estimates the population that is written before measuring: exact for the entries of a
    /// decode-only run, the mean over all draws for documents.
    ///
    /// # Panics
    /// When the config was not validated.
    pub fn population_estimate(&self) -> PopulationEstimate {
        let of_users = match self.phases {
            PhaseMode::DecodeOnly => u64::from(self.decode_only_entries_per_user),
            PhaseMode::Both | PhaseMode::PrefillOnly => 0,
        };
        let entries = of_users * u64::from(self.num_users);
        let bytes = entries.saturating_mul(self.entry_bytes(self.decode_only_entry_tokens));
        let (chunks, documents_bytes) = self.documents_estimate();
        let entries = entries.saturating_add(chunks);
        let item_bytes = LIST_GROWTH * size_of::<PopulationItem>() as u64;
        PopulationEstimate {
            entries,
            bytes: bytes.saturating_add(documents_bytes),
            documents_bytes,
            list_bytes: entries.saturating_mul(item_bytes),
        }
    }

    /// Chunks of the documents that are ingested before measuring, and their bytes.
    fn documents_estimate(&self) -> (u64, u64) {
        if self.ingests_beside() {
            return (0, 0);
        }
        let documents = rag::documents(self).len() as u64;
        let [low, high] = self.rag_document_tokens().map(u64::from);
        let tokens = (low + high) / 2;
        let chunks = tokens.div_ceil(u64::from(self.rag_chunk_tokens()));
        // Below 2^32 by its range; a document's bytes may be anything.
        let document_bytes = self.entry_bytes(tokens as u32);
        (documents.saturating_mul(chunks), documents.saturating_mul(document_bytes))
    }

    /// Smallest and largest entry of a drawn user's turn, bytes, system prompts left aside.
    ///
    /// # Panics
    /// When the config was not validated.
    pub fn turn_bytes(&self) -> [u64; 2] {
        if self.phases == PhaseMode::DecodeOnly {
            return [self.entry_bytes(self.decode_only_entry_tokens); 2];
        }
        let lows = self.personas.iter().map(|persona| quarter_to(persona.context_tokens[0]));
        let highs = self.personas.iter().map(|persona| persona.context_tokens[1]);
        let low = lows.map(|range| *range.start()).min().unwrap_or(1);
        [low, highs.max().unwrap_or(1)].map(|tokens| self.entry_bytes(tokens))
    }

    /// Mean entry of a drawn user's turn, over all users, bytes, system prompts left aside.
    ///
    /// # Panics
    /// When the config was not validated.
    pub fn turn_bytes_mean(&self) -> u64 {
        if self.phases == PhaseMode::DecodeOnly {
            return self.entry_bytes(self.decode_only_entry_tokens);
        }
        // A user's limit is drawn evenly from its persona's range, and each turn evenly from a
        // quarter of the limit to all of it.
        let limits = self.personas.iter().map(|persona| {
            let [low, high] = persona.context_tokens.map(f64::from);
            f64::midpoint(low, high)
        });
        let limit = limits.sum::<f64>() / self.personas.len() as f64;
        self.entry_bytes((limit * f64::midpoint(0.25, 1.0)) as u32)
    }

    /// Shortest time that a drawn user's request waits for generated tokens, ns.
    pub fn generation_ns_min(&self) -> u64 {
        let lows = self.personas.iter().map(|persona| persona.generation_tokens[0]);
        // Each answer is drawn evenly from a quarter of the user's limit to all of it.
        u64::from(lows.min().unwrap_or(0) / 4) * self.token_ns()
    }

    /// Memory of the system prompts' lengths, bytes: every one of `shards` keeps them.
    pub fn prompts_bytes(&self, shards: u32) -> u64 {
        u64::from(self.system_prompts) * size_of::<u32>() as u64 * u64::from(shards)
    }

    /// Requests of drawn users that arrive in `seconds`, by the means of what is drawn; `None`
    /// where they depend on how long answers take.
    pub fn arrivals_estimate(&self, seconds: u64) -> Option<f64> {
        let seconds = seconds as f64;
        match self.arrival {
            Arrival::Poisson => Some(self.request_rate_per_s * seconds),
            Arrival::Open => {
                let mean = |[low, high]: [f64; 2]| (low + high) / 2.0;
                let thinking: f64 =
                    self.personas.iter().map(|persona| mean(persona.think_time_s)).sum();
                let think_s = thinking / self.personas.len() as f64 * mean(self.think_jitter);
                (think_s > 0.0).then(|| f64::from(self.num_users) * seconds / think_s)
            }
            Arrival::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::contract::{Action, Event, Nanos, Outcome, StepTimes};
    use crate::{Source, Workload};

    #[test]
    fn turns_are_as_large_as_drawn() {
        let mut config = WorkloadConfig {
            num_users: 300,
            multi_turn: false,
            prefix_caching: false,
            arrival: Arrival::Closed,
            ..WorkloadConfig::default()
        };
        // Who thinks for longer asks less often; the mean is that over the users.
        config.personas.iter_mut().for_each(|persona| persona.think_time_s = [0.1, 0.5]);
        let [low, high] = config.turn_bytes();
        let told_mean = config.turn_bytes_mean() as f64;
        let mut workload = Workload::new(Arc::new(config), Source::Synthetic, 7, 0, 1).unwrap();
        workload.start(Nanos::ZERO);
        let (mut seen, mut actions) = (Vec::new(), Vec::new());
        while seen.len() < 20_000 {
            let now = workload.next_wake().unwrap();
            workload.on_event(now, Event::Tick, &mut actions);
            while workload.queue_head().is_some() {
                workload.on_event(now, Event::SlotGranted, &mut actions);
            }
            for action in std::mem::take(&mut actions) {
                if let Action::Write { request, bytes, .. } = action {
                    seen.push(bytes);
                    // Ends the request, so that its user asks again.
                    let (outcome, times) = (Outcome::Refused, StepTimes::default());
                    let refused = Event::StepDone { request, outcome, times };
                    workload.on_event(now, refused, &mut Vec::new());
                }
            }
        }
        let (least, most) = (*seen.iter().min().unwrap(), *seen.iter().max().unwrap());
        assert!(low <= least && least < low * 2, "{low} {least}");
        assert!(high >= most && most > high / 2, "{high} {most}");
        let mean = seen.iter().sum::<u64>() as f64 / seen.len() as f64;
        assert!((mean / told_mean - 1.0).abs() < 0.1, "{mean} {told_mean}");
    }

    fn written(config: &WorkloadConfig) -> (u64, u64) {
        let config = Arc::new(config.clone());
        let workloads = (0..3).map(|shard| {
            Workload::new(Arc::clone(&config), Source::Synthetic, 5, shard, 3).unwrap()
        });
        workloads.fold((0, 0), |(entries, bytes), workload| {
            let items: Vec<PopulationItem> = workload.population().collect();
            let sum: u64 = items.iter().map(|item| item.bytes).sum();
            (entries + items.len() as u64, bytes + sum)
        })
    }

    #[test]
    fn a_decode_only_population_is_told_exactly_and_documents_within_a_tenth() {
        let mut config = WorkloadConfig { phases: PhaseMode::DecodeOnly, ..Default::default() };
        let told = config.population_estimate();
        assert_eq!((told.entries, told.bytes), written(&config));
        assert!(told.list_bytes >= told.entries * size_of::<PopulationItem>() as u64);
        config.phases = PhaseMode::Both;
        assert_eq!(config.population_estimate(), PopulationEstimate::default());
        config.rag_documents = 1_000;
        let (told, (entries, bytes)) = (config.population_estimate(), written(&config));
        for (told, is) in [(told.entries, entries), (told.bytes, bytes)] {
            assert!(told.abs_diff(is) < is / 10, "{told} for {is}");
        }
        config.rag_ingestion = crate::config::RagIngestion::Beside;
        assert_eq!(config.population_estimate().entries, written(&config).0);
        assert_eq!(written(&config).0, 0, "nothing is written before");
        config.phases = PhaseMode::DecodeOnly;
        assert_eq!(config.population_estimate().documents_bytes, told.documents_bytes);
        assert!(written(&config).1 > bytes, "documents and the users' entries");
        config.phases = PhaseMode::Both;
        config.rag_ingestion = crate::config::RagIngestion::Before;
        config.rag.max_documents = 10;
        assert!(config.population_estimate().entries < told.entries / 50);
    }

    #[test]
    fn the_largest_counts_stop_at_the_largest_number() {
        let config = WorkloadConfig {
            phases: PhaseMode::DecodeOnly,
            num_users: u32::MAX,
            decode_only_entries_per_user: u32::MAX,
            system_prompts: u32::MAX,
            ..Default::default()
        };
        assert_eq!(config.population_estimate().list_bytes, u64::MAX);
        assert_eq!(config.prompts_bytes(2), u64::from(u32::MAX) * 8);
    }

    #[test]
    fn arrivals_follow_from_thinking_or_from_the_rate() {
        let mut config = WorkloadConfig::default();
        // Means of 0.3, 0.6 and 0.9 s.
        let arrivals = config.arrivals_estimate(60).unwrap();
        assert!((arrivals - 100.0 * 60.0 / 0.6).abs() < 1e-6, "{arrivals}");
        config.arrival = Arrival::Closed;
        assert_eq!(config.arrivals_estimate(60), None);
        (config.arrival, config.request_rate_per_s) = (Arrival::Poisson, 2.5);
        assert_eq!(config.arrivals_estimate(60), Some(150.0));
    }
}
