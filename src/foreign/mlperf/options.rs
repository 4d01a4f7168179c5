//! The three options that the rules prescribe, and what of them a run has changed.

/// Parameters of an option, in the order in which the harness passes them, as flags of `run`.
pub const FLAGS: [&str; 7] = [
    "model",
    "num-users",
    "duration",
    "gpu-mem-gb",
    "cpu-mem-gb",
    "max-concurrent-allocs",
    "generation-mode",
];
/// Place of the model, the duration and the memory of the CPU tier among [`FLAGS`].
const MODEL: usize = 0;
const DURATION: usize = 2;
const CPU_MEMORY: usize = 4;

/// One option of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// 1, 2 or 3.
    pub number: u32,
    /// As the published table calls it.
    pub title: &'static str,
    /// The values of [`FLAGS`].
    pub values: [&'static str; 7],
}

impl Rule {
    /// Whether its CPU tier has that much memory, GiB.
    pub fn has_cpu_mem_gib(&self, gib: u32) -> bool {
        is_alike(self.values[CPU_MEMORY], &gib.to_string())
    }
}

/// Parameters that the rules prescribe for each option: `WORKLOAD_PARAMS` of the harness's
/// `mlpstorage_py/benchmarks/kvcache.py`.
pub const RULES: [Rule; 3] = [
    Rule {
        number: 1,
        title: "llama3.1-8b, storage only",
        values: ["llama3.1-8b", "200", "300", "0", "0", "16", "none"],
    },
    Rule {
        number: 2,
        title: "llama3.1-8b, storage and memory",
        values: ["llama3.1-8b", "100", "300", "0", "4", "16", "none"],
    },
    Rule {
        number: 3,
        title: "llama3.1-70b, storage only",
        values: ["llama3.1-70b-instruct", "70", "300", "0", "0", "4", "none"],
    },
];

/// The option of that number.
pub fn rule(number: u32) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.number == number)
}

/// An option as it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The rule that it follows or departs from.
    pub rule: &'static Rule,
    /// The values of [`FLAGS`].
    pub values: [String; 7],
}

impl Workload {
    /// The rule with other values where they are given.
    pub fn of(rule: &'static Rule, changed: &[Option<String>; 7]) -> Workload {
        let value = |place: usize| changed[place].clone().unwrap_or(rule.values[place].to_owned());
        Workload { rule, values: std::array::from_fn(value) }
    }

    /// Name of the model whose KV cache is simulated.
    pub fn model(&self) -> &str {
        &self.values[MODEL]
    }

    /// Its duration, s, if that is a number.
    pub fn duration_s(&self) -> Option<f64> {
        self.values[DURATION].parse().ok()
    }

    /// As arguments: `--model NAME …`.
    pub fn arguments(&self) -> impl Iterator<Item = String> {
        let pairs = FLAGS.iter().zip(&self.values);
        pairs.flat_map(|(flag, value)| [format!("--{flag}"), value.clone()])
    }

    /// Departures from the rules: `--duration 5 instead of 300`.
    pub fn departures(&self) -> Vec<String> {
        let both = FLAGS.iter().zip(self.values.iter().zip(self.rule.values));
        both.filter(|(_, (is, rule))| !is_alike(is, rule))
            .map(|(flag, (is, rule))| format!("--{flag} {is} instead of {rule}"))
            .collect()
    }
}

/// Whether two values are the same, also as numbers: `0.0` and `0`.
pub(crate) fn is_alike(one: &str, other: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    one == other || matches!((number(one), number(other)), (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_replaces_the_rule_and_is_named() {
        let as_ruled = Workload::of(&RULES[1], &Default::default());
        assert_eq!(as_ruled.departures(), Vec::<String>::new());
        let mut changed: [Option<String>; 7] = Default::default();
        changed[1] = Some("5".to_owned());
        changed[CPU_MEMORY] = Some("4.0".to_owned());
        let workload = Workload::of(&RULES[1], &changed);
        assert_eq!(workload.departures(), ["--num-users 5 instead of 100"]);
        let arguments: Vec<String> = workload.arguments().collect();
        assert_eq!(arguments[..4], ["--model", "llama3.1-8b", "--num-users", "5"]);
        assert_eq!(arguments.len(), 14);
    }
}
