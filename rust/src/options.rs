//! Options for decoding.

/// Options for decoding fetched records; see `ReaderOptions` in records/decoder.py.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Skip records of aborted transactions.
    pub read_committed: bool,
    /// Verify the CRC of every batch.
    pub check_crcs: bool,
    /// Maximum bytes of one batch after decompression.
    pub max_decompressed_batch_bytes: usize,
    /// Maximum number of headers of one record.
    pub max_record_headers: usize,
}
