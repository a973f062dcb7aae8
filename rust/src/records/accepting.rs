//! `record.accept()` of a share group, which programs call for each record.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

use crate::runtime::{NANOS_PER_MS, ThisProcess};
use crate::slots::slots;

slots!(Run { _accepted, done, fed, forgotten, partition, renewed, sure_until_ms });
slots!(Partition { lost, owner });
slots!(Owner { _noticed, _pid, now_ns });

/// `AcknowledgeType.ACCEPT`, and the token of the offset 0; see `state/locks.py`.
const ACCEPT: i64 = 1;
const FIRST_TOKEN: i64 = 1_000;
const NEXT_OFFSET: i64 = 8;

/// The index of the offset in a record.
const OFFSET: ffi::Py_ssize_t = 3;

/// What is used of the locks.
struct Locks {
    run: Run,
    partition: Partition,
    owner: Owner,
    process: ThisProcess,
    not_fed: Py<PyAny>,
}

static LOCKS: PyOnceLock<Locks> = PyOnceLock::new();

/// A base of `ShareRecord`, whose objects are tuples.
#[pyclass(frozen, subclass, module = "tandem_kafka._native")]
pub struct Accepting;

impl Locks {
    /// Does what `LockedRecords.acknowledge` would, in the usual case: the lock is sure, and the
    /// network thread knows that it must look. Otherwise it changes nothing, and returns false.
    fn accept(&self, run: &Bound<'_, PyAny>, offset: &Bound<'_, PyAny>) -> PyResult<bool> {
        let py = run.py();
        let partition = self.run.partition.get(run)?;
        let owner = self.partition.owner.get(&partition)?;
        // Invariant: first, as the clock of a simulation runs Python code.
        let now_ns: i64 = self.owner.now_ns.get(&owner)?.call0()?.extract()?;
        let number: i64 = offset.extract()?;
        let done = self.run.done.get(run)?;
        let (Ok(done), Ok(renewed)) =
            (done.cast_exact::<PyDict>(), self.run.renewed.get(run)?.cast_into_exact::<PyDict>())
        else {
            return Ok(false);
        };
        let usual = now_ns / NANOS_PER_MS < self.run.sure_until_ms.int(run)?
            && renewed.is_empty()
            && !self.partition.lost.is_true(&partition)?
            && !self.run.forgotten.is_true(run)?
            && self.run.fed.is(run, self.not_fed.bind(py))?
            && number >= self.run._accepted.int(run)?
            && self.owner._noticed.is_true(&owner)?
            && self.process.is(&self.owner._pid.get(&owner)?)?
            && done.get_item(offset)?.is_none();
        if usual {
            done.set_item(offset, (number + FIRST_TOKEN) * NEXT_OFFSET + ACCEPT)?;
        }
        Ok(usual)
    }
}

#[pymethods]
impl Accepting {
    /// Acknowledge that the record has been handled; nobody gets it again.
    ///
    /// Raises:
    ///     `RecordLockLostError`: The lock has ended, so the record is delivered again.
    ///     `IllegalStateError`: The record has been acknowledged before.
    fn accept(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        // SAFETY: the record is alive. The calls return a new and a borrowed reference, or null with
        // an exception, for example if this is no record.
        let (run, offset) = unsafe {
            let (record, name) = (slf.as_ptr(), intern!(py, "_origin").as_ptr());
            let run = Bound::from_owned_ptr_or_err(py, ffi::PyObject_GenericGetAttr(record, name))?;
            (run, Bound::from_borrowed_ptr_or_err(py, ffi::PyTuple_GetItem(record, OFFSET))?)
        };
        if let Some(locks) = LOCKS.get(py)
            && locks.accept(&run, &offset)?
        {
            return Ok(());
        }
        let owner = run.getattr(intern!(py, "partition"))?.getattr(intern!(py, "owner"))?;
        owner.call_method1(intern!(py, "acknowledge"), (run, offset, ACCEPT)).map(|_| ())
    }

    /// Learn the classes `LockedRun`, `LockedPartition` and `LockedRecords`, what knows the id of
    /// this process, and what is `fed` of a run that no feed accepts.
    #[staticmethod]
    fn _learn(
        run: &Bound<'_, PyType>,
        partition: &Bound<'_, PyType>,
        owner: &Bound<'_, PyType>,
        process: &Bound<'_, PyAny>,
        not_fed: Py<PyAny>,
    ) -> PyResult<()> {
        let locks = Locks {
            run: Run::of(run)?,
            partition: Partition::of(partition)?,
            owner: Owner::of(owner)?,
            process: ThisProcess::of(process)?,
            not_fed,
        };
        let _ = LOCKS.set(run.py(), locks); // once
        Ok(())
    }
}
