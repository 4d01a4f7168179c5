//! Size of a checkpoint, and the part of it that each rank writes.
//!
//! *Bytes a parameter.* In mixed precision with Adam a parameter has 2 bytes of weights and, as
//! optimizer state, 4 of a master copy, 4 of momentum and 4 of variance: 14 in all (Rajbhandari et
//! al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020, section 3.1,
//! without the gradients, which are not saved). For 8 billion parameters that is 104 GiB, for 70
//! billion 913 GiB, for 405 billion 5.2 TiB.
//!
//! These are the sizes of MLPerf Storage's checkpoints within 1 %: 105, 912 and 5,290 GiB for the
//! models of 8, 70 and 405 billion parameters (`Rules.md` of mlcommons/storage, section 4.3, table
//! 2, which calls them GB and says that they are GiB).
//!
//! *Sharding.* Tensor and pipeline parallelism divide the parameters among `tensor × pipeline`
//! ranks; the groups of ranks that are left are data-parallel copies of each other. Of copies one
//! writes, unless ZeRO divides what they hold: stages 1 and 2 the optimizer state, stage 3 the
//! weights as well.

use clap::ValueEnum;
use ringfall_core::units::round_up_to_block;

/// A model by its name, and how many parameters it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Model {
    /// As it is given on the command line.
    pub name: &'static str,
    /// Number of parameters, computed from the model's dimensions or as published.
    pub parameters: u64,
}

/// A decoder of the Llama kind, by the values in its `config.json`: the parameters of its
/// embeddings (in and out), attention, feed-forward layers and norms.
const fn llama(vocabulary: u64, layers: u64, hidden: u64, feed_forward: u64, kv: u64) -> u64 {
    let attention = 2 * hidden * hidden + 2 * hidden * kv;
    let layer = attention + 3 * hidden * feed_forward + 2 * hidden;
    2 * vocabulary * hidden + layers * layer + hidden
}

/// The models that have a name.
pub const MODELS: &[Model] = &[
    Model { name: "llama2-7b", parameters: llama(32_000, 32, 4096, 11_008, 4096) },
    Model { name: "llama3.1-8b", parameters: llama(128_256, 32, 4096, 14_336, 1024) },
    Model { name: "llama3.1-70b", parameters: llama(128_256, 80, 8192, 28_672, 1024) },
    Model { name: "llama3.1-405b", parameters: llama(128_256, 126, 16_384, 53_248, 1024) },
    Model { name: "mistral-7b", parameters: llama(32_000, 32, 4096, 14_336, 1024) },
    // "DeepSeek-V3 Technical Report" (2024): 671 billion in all, 37 billion of them active.
    Model { name: "deepseek-v3", parameters: 671_000_000_000 },
];

/// Format of the weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Precision {
    /// 2 bytes per parameter, and a master copy of 4 in the optimizer's state
    Bf16,
    /// As bf16
    Fp16,
    /// 4 bytes per parameter
    Fp32,
}

/// Optimizer state that is saved besides the weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Optimizer {
    /// Momentum, variance, and the master copy of 16-bit weights
    Adam,
    /// Nothing
    None,
}

/// A training job: the size of its model, and how its ranks share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// Parameters of the model.
    pub parameters: u64,
    /// Format of the weights.
    pub precision: Precision,
    /// Optimizer state that is saved.
    pub optimizer: Optimizer,
    /// Ranks in all, ≥ 1.
    pub ranks: u32,
    /// Ranks among which tensor and pipeline parallelism divide the model; divides `ranks`.
    pub model_parallel: u32,
    /// Stage of ZeRO, 0 to 3.
    pub zero: u8,
}

impl Job {
    /// Bytes of weights and of optimizer state for each parameter.
    pub const fn bytes_per_parameter(&self) -> (u64, u64) {
        match (self.precision, self.optimizer) {
            (Precision::Bf16 | Precision::Fp16, Optimizer::None) => (2, 0),
            (Precision::Bf16 | Precision::Fp16, Optimizer::Adam) => (2, 12),
            // The optimizer updates them in place.
            (Precision::Fp32, Optimizer::None) => (4, 0),
            (Precision::Fp32, Optimizer::Adam) => (4, 8),
        }
    }

    /// Bytes that each rank writes, a multiple of 4 KiB; 0 for a copy that writes nothing.
    pub fn shard_bytes(&self) -> Vec<u64> {
        let (weights, state) = self.bytes_per_parameter();
        let copies = self.ranks / self.model_parallel;
        let share = |parameters: u64, among: u32, index: u32| {
            parameters / u64::from(among)
                + u64::from(u64::from(index) < parameters % u64::from(among))
        };
        let rank_bytes = |rank: u32| {
            let (copy, part) = (rank / self.model_parallel, rank % self.model_parallel);
            let own = share(self.parameters, self.model_parallel, part);
            let divided = share(own, copies, copy);
            let whole = if copy == 0 { own } else { 0 };
            let weights_of = if self.zero >= 3 { divided } else { whole };
            let state_of = if self.zero >= 1 { divided } else { whole };
            round_up_to_block(weights_of * weights + state_of * state)
        };
        (0..self.ranks).map(rank_bytes).collect()
    }
}

/// A total divided evenly among ranks, in whole blocks.
pub fn even_shards(bytes: u64, ranks: u32) -> Vec<u64> {
    let blocks = ringfall_core::units::blocks_for(bytes);
    let (share, rest) = (blocks / u64::from(ranks), blocks % u64::from(ranks));
    let of = |rank: u64| (share + u64::from(rank < rest)) * ringfall_core::units::BLOCK_BYTES;
    (0..u64::from(ranks)).map(of).collect()
}

#[cfg(test)]
mod tests {
    use ringfall_core::units::gib;

    use super::*;

    fn job(parameters: u64) -> Job {
        Job {
            parameters,
            precision: Precision::Bf16,
            optimizer: Optimizer::Adam,
            ranks: 1,
            model_parallel: 1,
            zero: 0,
        }
    }

    fn parameters(name: &str) -> u64 {
        MODELS.iter().find(|model| model.name == name).unwrap().parameters
    }

    #[test]
    fn checkpoints_are_as_large_as_mlperf_storage_says() {
        for (name, gib) in [("llama3.1-8b", 105), ("llama3.1-70b", 912), ("llama3.1-405b", 5_290)] {
            let model = MODELS.iter().find(|model| model.name == name).unwrap();
            let (ours, theirs) = (model.parameters * 14, gib * ringfall_core::units::GIB);
            assert!(ours.abs_diff(theirs) * 100 <= theirs, "{name}: {ours} and {theirs}");
        }
    }

    #[test]
    fn models_have_the_parameters_that_their_publishers_state() {
        assert_eq!(parameters("llama2-7b"), 6_738_415_616);
        assert_eq!(parameters("llama3.1-8b"), 8_030_261_248);
        assert_eq!(parameters("llama3.1-70b"), 70_553_706_496);
        assert_eq!(parameters("llama3.1-405b"), 405_853_388_800);
        assert_eq!(parameters("mistral-7b"), 7_241_732_096);
    }

    #[test]
    fn sizes_are_fourteen_bytes_a_parameter_of_the_published_models() {
        for (billions, expected) in [(8, 104.3), (70, 912.7), (405, 5280.6)] {
            let found = gib(job(billions * 1_000_000_000).shard_bytes()[0]);
            assert!((found - expected).abs() < 0.1, "{billions}: {found}");
        }
    }

    #[test]
    fn every_sharding_holds_each_parameter_once() {
        for zero in 0..=3 {
            for (ranks, model_parallel) in [(1, 1), (8, 1), (8, 2), (8, 8), (12, 3)] {
                let job = Job { ranks, model_parallel, zero, ..job(1_000_003) };
                let shards = job.shard_bytes();
                let total: u64 = shards.iter().sum();
                let exact = 14 * 1_000_003;
                // Each shard is rounded up to a block.
                assert!(total >= exact && total < exact + u64::from(ranks) * 4096, "{job:?}");
                let writers = shards.iter().filter(|bytes| **bytes > 0).count() as u32;
                let expected = if zero == 0 { model_parallel } else { ranks };
                assert_eq!(writers, expected, "{job:?}");
            }
        }
    }

    #[test]
    fn zero_divides_the_optimizer_state_and_then_the_weights() {
        let mega = 1 << 20;
        let shards = |zero| Job { ranks: 4, zero, ..job(4 * mega) }.shard_bytes();
        assert_eq!(shards(0), [56 * mega, 0, 0, 0]);
        assert_eq!(shards(1), [20 * mega, 12 * mega, 12 * mega, 12 * mega]);
        assert_eq!(shards(3), [14 * mega; 4]);
        let weights_only = Job { optimizer: Optimizer::None, ..job(mega) };
        assert_eq!(weights_only.shard_bytes(), [2 * mega]);
    }

    #[test]
    fn an_even_division_loses_nothing() {
        assert_eq!(even_shards(4096 * 10, 4), [4096 * 3, 4096 * 3, 4096 * 2, 4096 * 2]);
        assert_eq!(even_shards(1, 1), [4096]);
    }
}
