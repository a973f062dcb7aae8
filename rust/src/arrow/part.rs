//! What is exported.

use crate::records::Piece;

/// The records of one partition, independent of Python objects.
pub struct Part {
    pub topic: String,
    pub partition: i32,
    pub pieces: Vec<Piece>,
}

impl Part {
    /// All records of all parts in order, each as its batch and its row in the batch.
    pub fn rows(parts: &[Part]) -> impl Iterator<Item = (&Piece, usize)> {
        let pieces = parts.iter().flat_map(|part| &part.pieces);
        pieces.flat_map(|piece| (piece.start..piece.stop).map(move |row| (piece, row)))
    }

    pub fn count(&self) -> usize {
        self.pieces.iter().map(|piece| piece.stop - piece.start).sum()
    }
}
