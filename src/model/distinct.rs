//! Lists without repetitions.

/// Items that differ from all before them, in their order.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    distinct_by(items, T::eq)
}

/// Items that are not the same as one before them, in their order.
pub fn distinct_by<T>(
    items: impl IntoIterator<Item = T>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for item in items {
        if !all.iter().any(|known| is_same(known, &item)) {
            all.push(item);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_same_items_stays_in_its_place() {
        assert_eq!(distinct([3, 1, 3, 2, 1]), [3, 1, 2]);
        let of_one_length = |one: &&str, other: &&str| one.len() == other.len();
        assert_eq!(distinct_by(["bb", "a", "cc", "d"], of_one_length), ["bb", "a"]);
    }
}
