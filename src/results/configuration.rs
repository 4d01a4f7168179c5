//! What a run was asked to do, as far as runs of two systems are matched by it.

use std::fmt;

use serde::Serialize;

use crate::results::Document;

/// MiB of a GiB.
const MIB_PER_GIB: f64 = 1024.0;
/// Bytes of a MiB.
const MIB: u64 = 1 << 20;
/// Largest CPU tier that a file name is believed, GiB (`--cpu-mem-gb`'s bound).
const CPU_MEMORY_GIB_MAX: f64 = 131_072.0;

/// The settings by which published results are told apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Configuration {
    /// CPU tier, MiB: an integer, so that configurations can be keys.
    pub cpu_memory_mib: u64,
    /// Model whose KV cache is simulated.
    pub model: String,
    /// Simulated users.
    pub users: u64,
    /// Prefill writes at once, 0: unbounded (`qd` in file names, though no queue depth).
    pub max_concurrent_allocs: u64,
    /// Waiting for generated tokens: none, fast or realistic.
    pub generation_mode: String,
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cpu{}GB qd{} gen{} users{}",
            self.model,
            self.cpu_memory_gib(),
            self.max_concurrent_allocs,
            self.generation_mode,
            self.users
        )
    }
}

impl Configuration {
    /// CPU tier, GiB.
    #[must_use]
    pub fn cpu_memory_gib(&self) -> f64 {
        self.cpu_memory_mib as f64 / MIB_PER_GIB
    }

    /// Reads a result's name, `…_MODEL_cpuNGB_qdN_genMODE_usersN.json`, where something that tells
    /// trials apart may follow the users (`_trial3`). `None` when the name is no such one.
    #[must_use]
    pub fn from_file_name(name: &str) -> Option<Configuration> {
        let name = name.rsplit(['/', '\\']).next()?;
        let name = name.strip_suffix(".json").unwrap_or(name);
        let (before, settings) = name.rsplit_once("_cpu")?;
        let model = before.rsplit('_').next().filter(|model| !model.is_empty())?;
        let (cpu, settings) = settings.split_once("GB_qd")?;
        let (allocs, settings) = settings.split_once("_gen")?;
        let (mode, settings) = settings.split_once("_users")?;
        let digits = settings.bytes().take_while(u8::is_ascii_digit).count();
        let (users, trial) = settings.split_at(digits);
        let gib: f64 = cpu.parse().ok()?;
        let known = (0.0..=CPU_MEMORY_GIB_MAX).contains(&gib)
            && !mode.is_empty()
            && (trial.is_empty() || trial.starts_with(['_', '-', '.']));
        known.then_some(())?;
        Some(Configuration {
            // Bounded above; a share of a MiB is no difference.
            cpu_memory_mib: (gib * MIB_PER_GIB).round() as u64,
            model: model.to_owned(),
            users: users.parse().ok()?,
            max_concurrent_allocs: allocs.parse().ok()?,
            generation_mode: mode.to_owned(),
        })
    }

    /// Reads the configuration that a result of ringfall holds. `None` when it holds none.
    #[must_use]
    pub fn from_result(document: &Document) -> Option<Configuration> {
        let config = document.ringfall.config.as_ref()?;
        Some(Configuration {
            cpu_memory_mib: config.cpu_memory_bytes?.div_ceil(MIB),
            model: config.model.clone()?,
            users: config.num_users?.into(),
            max_concurrent_allocs: config.max_concurrent_allocs.unwrap_or(0).into(),
            generation_mode: config.generation_mode.clone()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::nothing;

    #[test]
    fn published_names_are_read_with_and_without_trials() {
        let name = "results/mlperf_v3_storage_llama3.1-70b-instruct_cpu4GB_qd16_gennone_users200";
        let want = Configuration {
            cpu_memory_mib: 4096,
            model: "llama3.1-70b-instruct".into(),
            users: 200,
            max_concurrent_allocs: 16,
            generation_mode: "none".into(),
        };
        for end in [".json", "_trial2.json", "-3.json", ""] {
            let read = Configuration::from_file_name(&format!("{name}{end}"));
            assert_eq!(read.as_ref(), Some(&want), "{end}");
        }
        let half = Configuration::from_file_name("x_tiny-1b_cpu0.5GB_qd0_genfast_users1.json");
        assert_eq!(half.map(|c| c.cpu_memory_mib), Some(512));
    }

    #[test]
    fn other_names_are_not_guessed_at() {
        for name in [
            "",
            "result.json",
            "_cpu0GB_qd0_gennone_users5.json",
            "m_cpuNaNGB_qd0_gennone_users5.json",
            "m_cpu-1GB_qd0_gennone_users5.json",
            "m_cpu0GB_qd_gennone_users5.json",
            "m_cpu0GB_qd0_gen_users5.json",
            "m_cpu0GB_qd0_gennone_users.json",
            "m_cpu0GB_qd0_gennone_users5x.json",
            "m_cpu0GB_qd0_gennone_users99999999999999999999999.json",
        ] {
            assert_eq!(Configuration::from_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn a_result_of_ringfall_says_it_itself() {
        let mut result = nothing();
        result.plan.model = "tiny-1b".to_owned();
        (result.plan.users, result.plan.cpu_memory_bytes) = (6, 4 << 30);
        result.plan.max_concurrent_allocs = None;
        let mode = result.plan.generation_mode.name();
        let read = Configuration::from_result(&Document::of(&result)).unwrap();
        let name = format!("a_tiny-1b_cpu4GB_qd0_gen{mode}_users6.json");
        assert_eq!(Some(read), Configuration::from_file_name(&name));
        assert_eq!(Configuration::from_result(&Document::default()), None);
    }
}
