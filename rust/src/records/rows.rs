//! Rows of one partition, of one batch or several.

use std::sync::Arc;

use crate::batches::{Columns, MAX_KEPT_RATIO, Owner};

/// Rows of one batch.
#[derive(Clone)]
pub struct Piece {
    pub columns: Arc<Columns>,
    pub start: usize,
    pub stop: usize,
}

impl Piece {
    fn len(&self) -> usize {
        self.stop - self.start
    }

    /// The memory that these rows need.
    fn needed_bytes(&self) -> usize {
        self.columns.needed_bytes(self.start, self.stop)
    }

    /// Copies the rows if their batch is much larger.
    fn compacted(self) -> Self {
        if self.needed_bytes() * MAX_KEPT_RATIO >= self.columns.kept_bytes() {
            return self;
        }
        let columns = Arc::new(self.columns.copied(self.start, self.stop));
        Piece { columns, start: 0, stop: self.len() }
    }
}

/// Maximum bytes to copy, so that a few records do not keep large batches alive.
const COPIED_BYTES: usize = 32 * 1024;

/// Rows of one partition, in the order of their offsets.
#[derive(Clone)]
pub struct Rows {
    pub owner: Arc<Owner>,
    pub pieces: Vec<Piece>,
    length: usize,
}

impl Rows {
    pub fn empty(owner: Arc<Owner>) -> Self {
        Rows { owner, pieces: Vec::new(), length: 0 }
    }

    /// Appends rows, which are not empty.
    pub fn push(&mut self, piece: Piece) {
        self.length += piece.len();
        self.pieces.push(piece);
    }

    /// Releases batches that are much larger than all of these rows, by copying their rows.
    pub fn compacted(mut self) -> Self {
        if self.pieces.iter().map(Piece::needed_bytes).sum::<usize>() <= COPIED_BYTES {
            self.pieces = self.pieces.into_iter().map(Piece::compacted).collect();
        }
        self
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The piece that contains a row, and the row's number in its batch.
    pub fn find(&self, mut index: usize) -> Option<(usize, usize)> {
        for (number, piece) in self.pieces.iter().enumerate() {
            if index < piece.len() {
                return Some((number, piece.start + index));
            }
            index -= piece.len();
        }
        None
    }

    /// The rows from `start` up to `stop`.
    pub fn part(&self, mut start: usize, mut stop: usize) -> Rows {
        let mut part = Rows::empty(Arc::clone(&self.owner));
        for piece in &self.pieces {
            let (from, to) = (start.min(piece.len()), stop.min(piece.len()));
            if from < to {
                let columns = Arc::clone(&piece.columns);
                part.push(Piece { columns, start: piece.start + from, stop: piece.start + to });
            }
            start -= from;
            stop -= to;
        }
        part
    }

    /// The number of rows before an offset.
    pub fn before(&self, offset: i64) -> usize {
        let mut count = 0;
        for piece in &self.pieces {
            let rows = &piece.columns.rows[piece.start..piece.stop];
            let delta = offset - piece.columns.base_offset;
            let found = rows.partition_point(|row| i64::from(row.offset_delta) < delta);
            count += found;
            if found < rows.len() {
                break;
            }
        }
        count
    }

    /// Offset and leader epoch of a row.
    pub fn place_of(&self, index: usize) -> Option<(i64, i32)> {
        let (piece, row) = self.find(index)?;
        let columns = &self.pieces[piece].columns;
        Some((columns.offset(row), columns.leader_epoch))
    }
}

/// A cursor over rows.
#[derive(Default)]
pub struct Cursor {
    piece: usize,
    /// The number of rows of the current piece that were passed.
    passed: usize,
}

impl Cursor {
    /// Returns the next row without advancing.
    pub fn peek<'a>(&mut self, rows: &'a Rows) -> Option<(&'a Arc<Columns>, usize)> {
        loop {
            let piece = rows.pieces.get(self.piece)?;
            if self.passed < piece.len() {
                return Some((&piece.columns, piece.start + self.passed));
            }
            // More rows than these were passed if records of the next piece existed already.
            *self = Cursor { piece: self.piece + 1, passed: self.passed - piece.len() };
        }
    }

    pub fn advance(&mut self) {
        self.passed += 1;
    }
}
