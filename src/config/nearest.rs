//! The known name nearest to a mistyped one.

use std::cmp::Reverse;

use strsim::osa_distance;

/// Distance at which a name is no longer a likely slip of the other, as a share of its length.
const DISTANCE_SHARE_MAX: usize = 3;

/// The candidate with the smallest edit distance to `typed`, in which two letters that changed
/// places count as one edit, when that is small enough to be a slip: at most a third of the longer
/// name, or when one is the start or a word of the other. Of two equally near, the one that begins
/// alike for longer.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = normal(typed);
    let mut best: Option<((usize, Reverse<usize>), &'a str)> = None;
    for name in known {
        let candidate = normal(name);
        let longer = typed.chars().count().max(candidate.chars().count());
        let edits = osa_distance(&typed, &candidate);
        let alike = typed.bytes().zip(candidate.bytes()).take_while(|(a, b)| a == b).count();
        let near = (edits, Reverse(alike));
        let starts = typed.len() >= 4
            && (candidate.starts_with(&typed) || candidate.split('_').any(|part| part == typed));
        let likely = edits * DISTANCE_SHARE_MAX <= longer || starts;
        if likely && best.is_none_or(|(nearest, _)| near < nearest) {
            best = Some((near, name));
        }
    }
    best.map(|(_, name)| name)
}

fn normal(name: &str) -> String {
    name.trim_start_matches('-').to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["num_users", "duration", "cpu_mem_gb", "seed"];
        assert_eq!(nearest("num_user", known), Some("num_users"));
        assert_eq!(nearest("--Num-Usres", known), Some("num_users"));
        assert_eq!(nearest("users", known), Some("num_users"));
        assert_eq!(nearest("cpu_mem", known), Some("cpu_mem_gb"));
        assert_eq!(nearest("sede", known), Some("seed"), "two letters have changed places");
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("", known), None);
    }
}
