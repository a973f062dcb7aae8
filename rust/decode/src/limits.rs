//! What messages and names may grow to.

/// A message quotes content of any length.
const MESSAGE_CHARS: usize = 300;

/// A long name of a field counts as several: each column has it again.
pub const CHARS_PER_NAME: usize = 256;

/// The bytes that full names may have in a schema of so many: each repeats the names around it.
pub fn names_limit(bytes: usize) -> usize {
    10 * bytes + (1 << 16)
}

/// The place of a part of a value, cut off where a message ends.
pub fn below(place: &str, part: &str) -> String {
    cut(format!("{place}{part}"))
}

pub fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MESSAGE_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}
