//! Counters of a shard's workload since its start; merging is addition. Hits and misses are the
//! driver's to count: it knows the measurement window.

/// Counters of one shard's workload since its start, or of several shards added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkloadStats {
    /// Decode steps that found their entry evicted.
    pub decode_misses: u64,
    /// Entries written again because of that.
    pub decode_rewrites: u64,
    /// Requests issued by users.
    pub arrived: u64,
    /// Requests dropped because the run stopped, or their users were sent home.
    pub dropped: u64,
    /// Requests whose entry no tier could ever hold.
    pub refused_requests: u64,
    /// Conversations forgotten because too many were live.
    pub conversations_forgotten: u64,
    /// Blocks of a trace that were read because all before them were there too.
    pub block_hits: u64,
    /// Blocks of a trace that had to be written.
    pub block_misses: u64,
    /// Documents ingested beside the load.
    pub documents_ingested: u64,
    /// Documents let go because too many were there.
    pub documents_evicted: u64,
    /// Chunks that could not be ingested.
    pub chunks_failed: u64,
    /// Retrievals left out because no document was there yet.
    pub retrievals_without_document: u64,
    /// Longest the queue has been on one shard.
    pub queue_depth_max: u64,
    /// Requests waiting to be served when the run stopped.
    pub queued_at_end: u64,
    /// Time that the oldest of them had been waiting, ns.
    pub queue_age_at_end_ns: u64,
    /// Largest lag of a wake-up behind its time, ns.
    pub timer_lag_max_ns: u64,
    /// Number of users for whom one stands in the count of what had arrived and not ended when the
    /// run stopped; 0 or 1 where each was counted.
    pub users_a_sample: u64,
}

impl WorkloadStats {
    /// Adds the counters of another shard; maxima stay maxima.
    pub fn merge(&mut self, other: &WorkloadStats) {
        let WorkloadStats {
            decode_misses,
            decode_rewrites,
            arrived,
            dropped,
            refused_requests,
            conversations_forgotten,
            block_hits,
            block_misses,
            documents_ingested,
            documents_evicted,
            chunks_failed,
            retrievals_without_document,
            queue_depth_max,
            queued_at_end,
            queue_age_at_end_ns,
            timer_lag_max_ns,
            users_a_sample,
        } = other;
        self.decode_misses += decode_misses;
        self.decode_rewrites += decode_rewrites;
        self.arrived += arrived;
        self.dropped += dropped;
        self.refused_requests += refused_requests;
        self.conversations_forgotten += conversations_forgotten;
        self.block_hits += block_hits;
        self.block_misses += block_misses;
        self.documents_ingested += documents_ingested;
        self.documents_evicted += documents_evicted;
        self.chunks_failed += chunks_failed;
        self.retrievals_without_document += retrievals_without_document;
        self.queue_depth_max = self.queue_depth_max.max(*queue_depth_max);
        self.queued_at_end += queued_at_end;
        self.queue_age_at_end_ns = self.queue_age_at_end_ns.max(*queue_age_at_end_ns);
        self.timer_lag_max_ns = self.timer_lag_max_ns.max(*timer_lag_max_ns);
        self.users_a_sample = self.users_a_sample.max(*users_a_sample);
    }
}
