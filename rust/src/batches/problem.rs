//! The defects of a batch.

use crate::batches::header::BatchHeader;

/// Why a batch cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It violates its format.
    Corrupt(String),
    /// Its compression is unknown.
    Codec(String),
    /// It decompresses to more than the limit.
    TooLarge,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Problem::Corrupt(text)
    }
}

impl Problem {
    /// Describes a batch that is too large, with its offsets; other problems stay unchanged.
    pub fn about(self, header: &BatchHeader, max_bytes: usize) -> Self {
        match self {
            Problem::TooLarge => Problem::Corrupt(format!(
                "the batch with offsets {} to {} decompresses to more than the {max_bytes} bytes \
                 of max_decompressed_batch_bytes",
                header.base_offset, header.last_offset
            )),
            other => other,
        }
    }
}
