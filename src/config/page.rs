//! The page of all defaults, made of the settings' declarations: `config/default.yaml`.

use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm, fill};

use super::options::SETTINGS;
use super::table::keys_for_flags;

/// Longest line of the page.
const COLUMNS: usize = 100;
const HEAD: &str = "\
# All settings of ringfall with their defaults. A file like this one, or a part of it, is given
# with --config; flags on the command line take precedence over it. Each key up to \"models\" is
# also a flag of the same name: num_users is --num-users. `ringfall config` prints this page with
# the values in effect. \"auto\" is worked out when the run begins. GB means GiB, as in the
# reference benchmark. Sizes and times may have units: 512MiB, 1.5TiB, 90s, 5m, 1h.
";
/// Settings without a flag.
const WITHOUT_FLAG: &str = include_str!("without_flag.yaml");

/// The page of all defaults: every setting with its comment, its bounds and its default.
pub fn defaults_page() -> String {
    let mut page = HEAD.to_owned();
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            page.push_str(&format!(
                "\n# --- {section} {:-<1$}\n\n",
                "",
                COLUMNS - 7 - section.len()
            ));
        }
        comment(&mut page, "# ", &setting.description());
        for (name, meaning) in setting.choices() {
            comment(&mut page, "#   ", &keys_for_flags(&format!("{name}: {meaning}")));
        }
        page.push_str(&format!("{}: {}\n", setting.key, setting.default));
    }
    page.push_str(WITHOUT_FLAG);
    page
}

/// Prose in lines that begin with `head`.
fn comment(page: &mut String, head: &str, text: &str) {
    let options = Options::new(COLUMNS)
        .initial_indent(head)
        .subsequent_indent(head)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation)
        .word_separator(WordSeparator::AsciiSpace)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    page.push_str(&fill(text, options));
    page.push('\n');
}
