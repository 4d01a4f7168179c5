//! Ingestion of documents beside the load: one after the other, chunk by chunk, each written when
//! the one before it is; the oldest document goes when there are too many.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::WorkloadConfig;
use crate::contract::Action;
use crate::key;
use crate::rag;

/// The documents that can be retrieved now, by number. One machine ingests, all shards read.
#[derive(Debug, Default)]
pub(crate) struct Library(AtomicU64);

impl Library {
    /// Those that are there.
    pub fn documents(&self) -> Range<u32> {
        let word = self.0.load(Ordering::Relaxed);
        (word >> 32) as u32..word as u32
    }

    fn set(&self, documents: Range<u32>) {
        let word = u64::from(documents.start) << 32 | u64::from(documents.end);
        self.0.store(word, Ordering::Relaxed);
    }
}

/// Result of a step of ingestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ingested {
    pub(crate) document: bool,
    /// One was let go for it.
    pub(crate) evicted: bool,
}

/// The machine: where it is in the documents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ingest {
    /// Whether a chunk is being written.
    is_writing: bool,
    document: u32,
    /// Tokens of the chunks of the document, and the one being written.
    chunks: Vec<u32>,
    chunk: usize,
}

impl Ingest {
    /// Whether it waits to be told to begin.
    pub(crate) fn is_due(&self, config: &WorkloadConfig) -> bool {
        !self.is_writing && self.document < config.rag_documents
    }

    /// Begins to write the next chunk; nothing when all documents are there.
    pub(crate) fn write_next(
        &mut self,
        config: &WorkloadConfig,
        seed: u64,
        actions: &mut Vec<Action>,
    ) {
        self.is_writing = self.document < config.rag_documents;
        if !self.is_writing {
            return;
        }
        if self.chunks.is_empty() {
            self.chunks = rag::chunks(config, seed, self.document);
        }
        let key = key::chunk(self.document, self.chunk as u32);
        actions.push(Action::Ingest { key, bytes: config.entry_bytes(self.chunks[self.chunk]) });
    }

    /// The chunk is written, or could not be: then the document lacks it, and a read of it misses.
    pub(crate) fn written(
        &mut self,
        config: &WorkloadConfig,
        seed: u64,
        library: &Library,
        actions: &mut Vec<Action>,
    ) -> Ingested {
        self.is_writing = false;
        self.chunk += 1;
        if self.chunk < self.chunks.len() {
            return Ingested::default();
        }
        self.document += 1;
        (self.chunks, self.chunk) = (Vec::new(), 0);
        let there = library.documents();
        let kept = config.rag.max_documents;
        let evicted = kept > 0 && self.document - there.start > kept;
        // First out of the library, so that nobody begins to read what goes.
        library.set(there.start + u32::from(evicted)..self.document);
        if evicted {
            let chunks = rag::chunks(config, seed, there.start).len() as u32;
            let forget = |chunk| Action::Forget { key: key::chunk(there.start, chunk) };
            actions.extend((0..chunks).map(forget));
        }
        Ingested { document: true, evicted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Key;

    #[test]
    fn documents_come_whole_and_the_oldest_go_with_all_their_chunks() {
        let mut config = WorkloadConfig { rag_documents: 5, ..WorkloadConfig::default() };
        config.rag.max_documents = 2;
        let (library, mut ingest, seed) = (Library::default(), Ingest::default(), 9);
        let mut there = std::collections::BTreeSet::new();
        let (mut documents, mut evictions) = (0, 0);
        let mut actions = Vec::new();
        assert!(ingest.is_due(&config));
        ingest.write_next(&config, seed, &mut actions);
        while let Some(action) = actions.pop() {
            match action {
                Action::Ingest { key, bytes } => {
                    assert!(bytes > 0 && bytes <= config.rag.chunk_bytes_max);
                    assert!(there.insert(key), "each chunk is written once");
                    assert!(!ingest.is_due(&config), "one chunk at a time");
                    let ended = ingest.written(&config, seed, &library, &mut actions);
                    documents += u32::from(ended.document);
                    evictions += u32::from(ended.evicted);
                    ingest.write_next(&config, seed, &mut actions);
                    // A document that can be retrieved is there whole.
                    let gone: Vec<Key> = actions
                        .iter()
                        .filter_map(|action| match action {
                            Action::Forget { key } => Some(*key),
                            _ => None,
                        })
                        .collect();
                    for document in library.documents() {
                        for chunk in 0..rag::chunks(&config, seed, document).len() as u32 {
                            let key = key::chunk(document, chunk);
                            assert!(there.contains(&key) && !gone.contains(&key));
                        }
                    }
                }
                Action::Forget { key } => assert!(there.remove(&key)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((documents, evictions, library.documents()), (5, 3, 3..5));
        let kept: usize = (3..5).map(|document| rag::chunks(&config, seed, document).len()).sum();
        assert_eq!(there.len(), kept, "what was let go is gone, nothing else is");
        assert!(!ingest.is_due(&config), "all is done");
    }
}
