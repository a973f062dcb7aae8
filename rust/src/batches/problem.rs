//! What can be wrong with a batch.

/// Why a batch cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It breaks its format.
    Corrupt(String),
    /// Its compression is unknown.
    Codec(String),
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Problem::Corrupt(text)
    }
}
