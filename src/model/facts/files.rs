//! Counts of operations on the files of an engine's layout.

use serde::{Deserialize, Serialize};

use super::Adds;

/// Files in which a run's storage tier was kept, as an inference engine keeps them.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FileCounts {
    /// Name of the layout.
    pub layout: String,
    /// Options that differ from the engine's own, each as `key=value`.
    pub changed_options: Vec<String>,
    /// Whose limits held: `theirs`, the engine's threads, or `ours`, 64 objects in flight.
    pub limits: String,
    /// Size of a file, or a slot of one, that holds a whole chunk, without its header, bytes.
    pub file_bytes: u64,
    /// Bytes written to the files, with headers.
    pub written_bytes: u64,
    /// Bytes read from the files, with headers.
    pub read_bytes: u64,
    /// Operations of each kind that was done; of a simulated run, those that take time.
    pub operations: Vec<FileOperations>,
    /// Operations that failed, by kind and cause; empty in results that do not have them.
    #[serde(default)]
    pub failures: Vec<FileFailures>,
}

/// Operations of one kind on files.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FileOperations {
    /// Name of the system call, or the nearest: `stat`, `open`, `write`, `rename`, `unlink` … One
    /// `mkdir` is a whole path: a look whether its directory is there, and each one that is missing
    /// on the way to it made.
    pub name: String,
    /// Number of operations that succeeded.
    pub count: u64,
    /// Median of their latency, us; null in merged results.
    pub p50_us: Option<f64>,
    /// 99th percentile of their latency, us; null in merged results.
    pub p99_us: Option<f64>,
}

/// Operations on files that failed, all of one kind and for one cause.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "testing"), derive(schemars::JsonSchema))]
pub struct FileFailures {
    /// Name of the operation, as in `operations`.
    pub name: String,
    /// Cause of the failures in words.
    pub cause: String,
    /// Number of operations that failed.
    pub count: u64,
    /// File of the first of them.
    pub first_file: String,
}

impl FileCounts {
    /// Line with the counts.
    pub fn sentence(&self) -> String {
        let options = match self.changed_options.is_empty() {
            true => String::new(),
            false => format!(" with {}", self.changed_options.join(", ")),
        };
        let ms = |us: f64| format!(" (P99 {:.2} ms)", us / 1e3);
        let count = |one: &FileOperations| {
            format!("{} {}{}", one.count, one.name, one.p99_us.map_or(String::new(), ms))
        };
        let counts: Vec<String> = self.operations.iter().map(count).collect();
        let (layout, limits) = (&self.layout, &self.limits);
        format!("{layout}{options}, limits {limits}, warm-up included: {}", counts.join(", "))
    }
}

impl Adds for FileCounts {
    /// Sum of the counts of one layout, operation by operation.
    fn plus(mut self, other: &FileCounts) -> Option<FileCounts> {
        let kept = |counts: &FileCounts| {
            (counts.layout.clone(), counts.changed_options.clone(), counts.limits.clone())
        };
        if kept(&self) != kept(other) || self.file_bytes != other.file_bytes {
            return None;
        }
        for other in &other.operations {
            match self.operations.iter_mut().find(|one| one.name == other.name) {
                Some(one) => one.count += other.count,
                None => self.operations.push(other.clone()),
            }
        }
        for one in &mut self.operations {
            (one.p50_us, one.p99_us) = (None, None);
        }
        for other in &other.failures {
            let alike =
                |one: &&mut FileFailures| one.name == other.name && one.cause == other.cause;
            match self.failures.iter_mut().find(alike) {
                Some(one) => one.count += other.count,
                None => self.failures.push(other.clone()),
            }
        }
        self.written_bytes += other.written_bytes;
        self.read_bytes += other.read_bytes;
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_layout_add_up_operation_by_operation() {
        let of = |layout: &str, name: &str| FileCounts {
            layout: layout.to_owned(),
            read_bytes: 5,
            operations: vec![FileOperations {
                name: name.to_owned(),
                count: 3,
                p50_us: Some(1.0),
                p99_us: Some(2_000.0),
            }],
            failures: vec![FileFailures {
                name: "unlink".to_owned(),
                cause: name.to_owned(),
                count: 2,
                first_file: "a".to_owned(),
            }],
            ..FileCounts::default()
        };
        assert_eq!(of("vllm", "open").plus(&of("llmd", "open")), None);
        let two = of("vllm", "open").plus(&of("vllm", "open")).unwrap();
        let sum = two.plus(&of("vllm", "stat")).unwrap();
        let counts: Vec<_> = sum.operations.iter().map(|one| (one.count, one.p99_us)).collect();
        assert_eq!((counts, sum.read_bytes), (vec![(6, None), (3, None)], 15));
        let failed: Vec<_> = sum.failures.iter().map(|one| one.count).collect();
        assert_eq!(failed, [4, 2], "by their causes");
        let told = of("vllm", "open").sentence();
        assert!(
            told.starts_with("vllm, limits , warm-up included: 3 open (P99 2.00 ms)"),
            "{told}"
        );
    }
}
