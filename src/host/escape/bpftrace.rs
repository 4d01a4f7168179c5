//! Text for a string of a bpftrace program.

/// Escapes text for a quoted string of bpftrace, including `printf` formats: letters, digits and
/// punctuation without a meaning stay, any other byte becomes an octal escape; a percent sign is
/// doubled.
#[must_use]
pub fn bpftrace(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b' ' | b'_' | b'-' | b'.' | b',' | b':' => {
                literal.push(char::from(byte));
            }
            b'%' => literal.push_str("%%"),
            byte => literal.push_str(&format!("\\{byte:03o}")),
        }
    }
    literal
}
