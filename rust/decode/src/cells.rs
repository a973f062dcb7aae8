//! Bounds what a value takes in Arrow by its bytes.

use std::cell::Cell;

/// A null or an empty message has a value for each of its fields in Arrow: a value may bring about
/// so many, and more for each of its bytes.
const MAX_CELLS: usize = 1 << 20;
const CELLS_PER_BYTE: usize = 32;
/// A long value counts as several.
pub const BYTES_PER_CELL: usize = 8;

/// How many values of columns are left for a value.
pub struct Cells(Cell<usize>);

impl Cells {
    pub fn of(bytes: &[u8]) -> Self {
        Cells(Cell::new(MAX_CELLS + CELLS_PER_BYTE * bytes.len()))
    }

    pub fn take(&self, count: usize) -> Result<(), &'static str> {
        let left = self.0.get().checked_sub(count);
        self.0.set(left.ok_or("the value has too many objects that are null or almost empty")?);
        Ok(())
    }
}
