//! Retrieval: which documents there are, how they are cut, which chunks a request reads.
//! Nothing is kept: everything follows from the seed and the document's number.

use std::ops::Range;

use rand::RngExt;

use crate::config::{RagDistribution, WorkloadConfig};
use crate::rng::{StreamPurpose, stream};

pub(crate) fn document_tokens(config: &WorkloadConfig, seed: u64, document: u32) -> u32 {
    let [low, high] = config.rag_document_tokens();
    stream(seed, StreamPurpose::Document, u64::from(document)).random_range(low..=high)
}

/// The documents that are there when the run begins, when they are ingested before: the newest
/// `max_documents`. Nothing is written that the limit has evicted by then.
pub(crate) fn documents(config: &WorkloadConfig) -> Range<u32> {
    let evicted = match config.rag.max_documents {
        0 => 0,
        kept => config.rag_documents.saturating_sub(kept),
    };
    evicted..config.rag_documents
}

pub(crate) fn chunks(config: &WorkloadConfig, seed: u64, document: u32) -> Vec<u32> {
    let (all, full) = (document_tokens(config, seed, document), config.rag_chunk_tokens());
    let mut chunks = vec![full; (all / full) as usize];
    if !all.is_multiple_of(full) {
        chunks.push(all % full);
    }
    chunks
}

/// Picks what retrieval number `retrieval` reads of these `documents`, at least one: a document,
/// and its chunks in the order read.
pub(crate) fn retrieve(
    config: &WorkloadConfig,
    seed: u64,
    retrieval: u64,
    documents: Range<u32>,
) -> (u32, Vec<u32>) {
    let mut rng = stream(seed, StreamPurpose::Retrieval, retrieval);
    let document = rng.random_range(documents);
    let count = document_tokens(config, seed, document).div_ceil(config.rag_chunk_tokens());
    let weight = |chunk: u32| match config.rag.distribution {
        RagDistribution::Zipf => 1.0 / f64::from(chunk + 1),
        RagDistribution::Uniform => 1.0,
    };
    let mut left: Vec<u32> = (0..count).collect();
    let mut total: f64 = left.iter().map(|&chunk| weight(chunk)).sum();
    let picks = (0..config.rag.top_k.min(count)).map(|_| {
        let mut rest = rng.random::<f64>() * total;
        // Rounding may leave a little behind the last one: then it is the last one.
        let place = left.iter().position(|&chunk| {
            rest -= weight(chunk);
            rest < 0.0
        });
        let chunk = left.remove(place.unwrap_or(left.len() - 1));
        total -= weight(chunk);
        chunk
    });
    let picks = picks.collect();
    (document, picks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::built_in;

    fn config(documents: u32) -> WorkloadConfig {
        WorkloadConfig { rag_documents: documents, ..WorkloadConfig::default() }
    }

    #[test]
    fn documents_have_the_length_that_the_model_asks_for_and_chunks_that_fit() {
        let small = config(10);
        let large =
            WorkloadConfig { model: built_in("llama3.1-70b-instruct").unwrap(), ..small.clone() };
        for document in 0..1_000 {
            assert!((4_000..=12_000).contains(&document_tokens(&small, 3, document)));
            assert!((1_024..=4_096).contains(&document_tokens(&large, 3, document)));
            let cut = chunks(&small, 3, document);
            assert_eq!(cut.iter().sum::<u32>(), document_tokens(&small, 3, document));
            assert!(cut.iter().all(|&tokens| (1..=512).contains(&tokens)));
        }
        // 512 tokens of llama2-7b are 256 MiB; of a model with twice that, half the tokens fit.
        let fat = WorkloadConfig { model: built_in("llama2-7b").unwrap(), ..small.clone() };
        assert_eq!(fat.rag_chunk_tokens(), 512);
        let mut fatter = fat.clone();
        fatter.model.num_layers *= 2;
        assert_eq!(fatter.rag_chunk_tokens(), 256);
    }

    #[test]
    fn the_oldest_documents_go() {
        let mut config = config(10);
        assert_eq!(documents(&config), 0..10);
        config.rag.max_documents = 3;
        assert_eq!(documents(&config), 7..10);
        config.rag.max_documents = 30;
        assert_eq!(documents(&config), 0..10);
        config.rag.max_documents = 3;
        assert!((0..500).all(|n| retrieve(&config, 1, n, documents(&config)).0 >= 7));
    }

    #[test]
    fn chunks_are_distinct_and_first_picks_follow_the_distribution() {
        for distribution in [RagDistribution::Zipf, RagDistribution::Uniform] {
            let mut config = config(1);
            config.rag.distribution = distribution;
            config.rag.document_tokens = [512 * 8, 512 * 8];
            let n = 40_000;
            let mut first = [0u32; 8];
            for retrieval in 0..n {
                let (document, picks) = retrieve(&config, 5, retrieval, 0..1);
                assert_eq!((document, picks.len()), (0, 5));
                let mut sorted = picks.clone();
                sorted.sort_unstable();
                sorted.dedup();
                assert_eq!(sorted.len(), 5, "without replacement");
                first[picks[0] as usize] += 1;
            }
            let harmonic: f64 = (1..=8).map(|rank| 1.0 / f64::from(rank)).sum();
            for (chunk, &seen) in first.iter().enumerate() {
                let share = match distribution {
                    RagDistribution::Zipf => 1.0 / (chunk as f64 + 1.0) / harmonic,
                    RagDistribution::Uniform => 1.0 / 8.0,
                };
                // Binomial, five sigma.
                let sigma = (n as f64 * share * (1.0 - share)).sqrt();
                let expected = n as f64 * share;
                assert!((f64::from(seen) - expected).abs() < 5.0 * sigma, "{chunk}: {seen}");
            }
        }
    }

    #[test]
    fn a_short_document_is_read_whole() {
        let mut config = config(1);
        config.rag.document_tokens = [600, 600];
        let (_, mut picks) = retrieve(&config, 5, 0, 0..1);
        picks.sort_unstable();
        assert_eq!(picks, [0, 1]);
    }
}
