//! A word of a command that a person copies into a shell.

/// The text as one word: as it is where nothing in it means anything to a shell, else in single
/// quotes. What a terminal would obey is for [`super::terminal`] to change afterwards.
#[must_use]
pub fn shell(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@%".contains(c);
    // A word that begins with a dash would be read as a flag of the command before it; quotes do
    // not help against that, and no path that is absolute begins so.
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_see_more_than_a_word() {
        assert_eq!(shell("/mnt/nvme0/kv-1"), "/mnt/nvme0/kv-1");
        assert_eq!(shell("/mnt/a b"), "'/mnt/a b'");
        assert_eq!(shell("/mnt/$(reboot)`x`;y"), "'/mnt/$(reboot)`x`;y'");
        assert_eq!(shell("it's"), "'it'\\''s'");
        assert_eq!(shell(""), "''");
        assert_eq!(shell("a\nb"), "'a\nb'");
        assert_eq!(shell("~root"), "'~root'");
    }
}
