//! Which characters a reader can't see, and how they are made visible.

/// Whether a character is a control, or changes how the text around it is shown without being shown
/// itself: bidirectional overrides, zero-width characters, line separators, tags, noncharacters.
/// The joiners U+200C and U+200D stay, which scripts and emoji need.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' |
            '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' |
            '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// The text with every hidden character other than those kept as `\u{..}`.
pub(super) fn visible(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) && !is_kept(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}
