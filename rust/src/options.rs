//! How to decode.

/// How to decode what a fetch brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Leave out records of aborted transactions.
    pub read_committed: bool,
    /// Verify the CRC of every batch.
    pub check_crcs: bool,
    /// Bound on one batch after decompression.
    pub max_batch_bytes: usize,
}
