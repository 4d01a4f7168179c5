//! Sentences broken between words to fit a width, safe for a terminal.

use textwrap::{Options, WrapAlgorithm, wrap};

use ringfall_host::escape;

/// Width that fits every terminal.
pub(super) const WIDTH: usize = 80;

/// The lines of a text of any length, where the first has `first` columns before it and those after
/// it have `rest`. Nothing in the text is obeyed by a terminal; a word wider than the width stays
/// whole.
pub(super) fn lines(text: &str, (first, rest): (usize, usize), width: usize) -> Vec<String> {
    let words: Vec<String> = text.split_whitespace().map(escape::terminal).collect();
    let (before, below) = (" ".repeat(first), " ".repeat(rest));
    let options = Options::new(width)
        .initial_indent(&before)
        .subsequent_indent(&below)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let text = words.join(" ");
    wrap(&text, options).iter().map(|line| line.trim_start().to_owned()).collect()
}

/// Appends a text after its head; the lines after the first begin below its beginning.
pub fn prose(page: &mut String, head: &str, text: &str, width: usize) {
    let indent = head.chars().count();
    let lines = lines(text, (indent, indent), width);
    let mut before = head.to_owned();
    for line in lines.iter().map(String::as_str).chain(lines.is_empty().then_some("")) {
        page.push_str(format!("{before}{line}").trim_end());
        page.push('\n');
        before = " ".repeat(indent);
    }
}

/// The same, of a width that fits every terminal.
pub(super) fn wrapped(page: &mut String, head: &str, text: &str) {
    prose(page, head, text, WIDTH);
}

/// Appends a command, whose lines but the last end with a backslash, so that they can be pasted.
/// One with quotes, within which that would be part of a word, stays on one line.
pub(super) fn command(page: &mut String, head: &str, line: &str) {
    let width = if line.contains('\'') { usize::MAX } else { WIDTH - 2 };
    let mut lines = String::new();
    prose(&mut lines, head, line, width);
    page.push_str(&lines.trim_end().replace('\n', " \\\n"));
    page.push('\n');
}

/// The end of a path, which tells it from the others.
pub(super) fn short_path(path: &str) -> String {
    /// Columns that it has.
    const WIDTH: usize = 18;
    match path.chars().count() {
        0..=WIDTH => path.to_owned(),
        count => {
            let end: String = path.chars().skip(count - (WIDTH - 1)).collect();
            format!("…{end}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_broken_below_its_beginning_and_obeyed_by_nobody() {
        let mut page = String::new();
        prose(&mut page, "note  ", &"word ".repeat(30), 96);
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.chars().count() <= 96), "{page}");
        assert!(lines[0].ends_with("word") && lines[1].starts_with("      word"));
        page.clear();
        prose(&mut page, "- ", "", 20);
        prose(&mut page, "- ", "a\u{1b}[2Jb  c\nd", 20);
        prose(&mut page, "- ", "a-word-that-is-wider-than-all-of-it and more", 20);
        let expected = "-\n- a\\u{1b}[2Jb c d\n- a-word-that-is-wider-than-all-of-it\n  and more\n";
        assert_eq!(page, expected);
    }

    #[test]
    fn a_command_of_several_lines_can_be_pasted() {
        let mut page = String::new();
        let line = format!("ringfall run{}", " --flag=value".repeat(8));
        command(&mut page, "  check  ", &line);
        let lines: Vec<&str> = page.lines().collect();
        assert!(lines.len() == 2 && lines[0].ends_with("value \\"), "{page}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{page}");
        let pasted = page.replace("\\\n", " ");
        let pasted: Vec<&str> = pasted.split_whitespace().skip(1).collect();
        assert_eq!(pasted.join(" "), line);
        page.clear();
        command(&mut page, "", &line.replace(" run", " run '/mnt/a b'"));
        assert_eq!(page.lines().count(), 1, "{page}");
    }
}
