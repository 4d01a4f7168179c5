//! The known name nearest to a mistyped one.

use std::cmp::Reverse;

/// Distance at which a name is no longer a likely slip of the other, as a share of its length.
const DISTANCE_SHARE_MAX: usize = 3;

/// The candidate with the smallest edit distance to `typed`, when that is small enough to be a
/// slip: at most a third of the longer name, or when one is the start or a word of the other. Of
/// two equally near, the one that begins alike for longer.
#[must_use]
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = normal(typed);
    let mut best: Option<((usize, Reverse<usize>), &'a str)> = None;
    for name in known {
        let candidate = normal(name);
        let longer = typed.chars().count().max(candidate.chars().count());
        let edits = distance(&typed, &candidate);
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

/// Levenshtein's distance: insertions, deletions, substitutions. O(length × length).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_levenshteins() {
        for (a, b, want) in
            [("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("same", "same", 0)]
        {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let known = ["num_users", "duration", "cpu_mem_gb", "seed"];
        assert_eq!(nearest("num_user", known), Some("num_users"));
        assert_eq!(nearest("--Num-Usres", known), Some("num_users"));
        assert_eq!(nearest("users", known), Some("num_users"));
        assert_eq!(nearest("cpu_mem", known), Some("cpu_mem_gb"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("", known), None);
    }
}
