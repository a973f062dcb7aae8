//! How to decode.

/// How to decode what a fetch brings; see `ReaderOptions` in records/decoder.py.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Leave out records of aborted transactions.
    pub read_committed: bool,
    /// Verify the CRC of every batch.
    pub check_crcs: bool,
    /// Bound on one batch after decompression.
    pub max_decompressed_batch_bytes: usize,
    /// Bound on the headers of one record.
    pub max_record_headers: usize,
}
