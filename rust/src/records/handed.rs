//! Notices which records the user keeps, and uses the objects of the others again.

use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::batches::Columns;
use crate::records::record::Record;

/// The last two records that a sequence or an iterator handed out.
///
/// A loop holds the last one in its variable while it asks for the next one. If nobody holds the
/// one before that, its object becomes the next record. Otherwise it is in a list, say, and has to
/// settle: it must not keep its batch.
#[derive(Default)]
pub struct Handed {
    last: Option<Py<Record>>,
    before: Option<Py<Record>>,
}

impl Handed {
    /// Returns a record, to be handed out.
    pub fn hand_out<'py>(
        &mut self,
        py: Python<'py>,
        columns: &Arc<Columns>,
        row: usize,
    ) -> PyResult<Bound<'py, Record>> {
        let oldest = std::mem::replace(&mut self.before, self.last.take());
        let record = match oldest.map(|oldest| oldest.into_bound(py)) {
            Some(oldest) if references(&oldest) == 1 => {
                oldest.get().become_row(py, columns, row);
                oldest
            }
            oldest => {
                if let Some(oldest) = oldest {
                    oldest.get().settle(py);
                }
                Bound::new(py, Record::new(Arc::clone(columns), row))?
            }
        };
        self.last = Some(record.clone().unbind());
        Ok(record)
    }

    /// No further record goes out.
    pub fn finish(&mut self, py: Python<'_>) {
        for record in [self.before.take(), self.last.take()].into_iter().flatten() {
            let record = record.into_bound(py);
            if references(&record) > 1 {
                record.get().settle(py);
            }
        }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        if self.last.is_some() {
            // SAFETY: it is a part of Python objects, which are dropped under the GIL.
            self.finish(unsafe { Python::assume_attached() });
        }
    }
}

/// How many hold the record, this one included.
fn references(record: &Bound<'_, Record>) -> u32 {
    // SAFETY: the object is alive, and the GIL is held.
    let count = unsafe { ffi::Py_REFCNT(record.as_ptr()) };
    count as u32 // since Python 3.14 the upper half has flags
}
