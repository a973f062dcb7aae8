//! The usual call of a task, which suspends where a thread would block.

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PySet;

use crate::slots::slots;
use crate::usual::poll::{Asked, NO_DEADLINE_MS, Outcome, UsualReading};

slots!(TaskLock { _holder, _entries });

/// The tasks of one event loop.
pub struct Tasks {
    lock_slots: TaskLock,
    current_task: Py<PyAny>,
    event_loop: Py<PyAny>,
}

impl Tasks {
    /// Those of `callers`; None if these are threads.
    pub fn of(callers: &Bound<'_, PyAny>, owner: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        if !callers.getattr("cancellable")?.is_truthy()? {
            return Ok(None);
        }
        Ok(Some(Tasks {
            lock_slots: TaskLock::of(&owner.get_type())?,
            current_task: callers.py().import("asyncio")?.getattr("current_task")?.unbind(),
            event_loop: callers.getattr("_loop")?.unbind(),
        }))
    }

    pub fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.current_task)?;
        visit.call(&self.event_loop)
    }

    /// The current task, if it belongs to the event loop.
    fn current<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let task = match self.current_task.bind(py).call0() {
            Err(error) if error.is_instance_of::<PyRuntimeError>(py) => return Ok(None),
            found => found?,
        };
        let is_here = !task.is_none()
            && task.call_method0(intern!(py, "get_loop"))?.is(self.event_loop.bind(py));
        Ok(is_here.then_some(task))
    }
}

/// What a task does until it need not wait any more. It holds the lock of the reader meanwhile.
#[pyclass(module = "tandem_kafka._native", weakref)]
pub struct TaskCall {
    of: Py<UsualReading>,
    task: Py<PyAny>,
    /// How often the task had been cancelled before.
    cancelled: i64,
    /// What gives a loop its feed; None for `poll()`.
    follow: Option<Py<PyAny>>,
    asked: Asked,
    /// When the wait began.
    began_ms: Option<i64>,
    /// Whether the task was suspended, and has received its cancellation if there was one.
    #[pyo3(get)]
    suspended: bool,
    /// What `Reading` would return; None if it must go on.
    result: Option<Py<PyAny>>,
}

impl TaskCall {
    /// Enters, and begins; None if Python must, or if the task must be suspended first.
    pub(super) fn begin<'py>(
        reading: &Bound<'py, UsualReading>,
        timeout_ms: Option<f64>,
        mut asked: Asked,
        follow: Option<Bound<'py, PyAny>>,
        suspended: bool,
    ) -> PyResult<Option<Bound<'py, Self>>> {
        let (py, of) = (reading.py(), reading.get());
        let Some(tasks) = &of.tasks else {
            return Ok(None);
        };
        let Some(source) = of.case.get().source(of.collector.bind(py))? else {
            return Ok(None);
        };
        // First what decides it while there are many records.
        if !suspended && (!source.queue.get().is_empty() || source.is_inside_chunk()?) {
            return Ok(None);
        }
        let Some(task) = tasks.current(py)? else {
            return Ok(None);
        };
        let cancelled = cancellations(&task)?; // before any signal handler may run
        let now = of.now(py)?;
        let owner = of.owner.bind(py);
        if !of.is_usual(&source, now.ms)?
            || !tasks.lock_slots._holder.is_none(owner)?
            || (follow.is_some() && !(source.is_assigned()? && of.drop_returned(py)?))
            || !source.drop_returned()?
        {
            return Ok(None);
        }
        asked.until_ms = match timeout_ms {
            Some(timeout_ms) => now.after_ms(timeout_ms),
            None => NO_DEADLINE_MS,
        };
        if !suspended && (!source.is_empty()? || asked.until_ms <= now.ms) {
            return Ok(None);
        }
        if !of.start(&source, now.ms, asked)? {
            return Ok(None);
        }
        let call = TaskCall {
            of: reading.clone().unbind(),
            cancelled,
            task: task.clone().unbind(),
            follow: follow.map(Bound::unbind),
            asked,
            began_ms: None,
            suspended,
            result: None,
        };
        let call = Bound::new(py, call)?;
        tasks.lock_slots._entries.get(owner)?.cast_into::<PySet>()?.add(&call)?;
        tasks.lock_slots._holder.set(owner, &task)?;
        of.core_slots.reader.set(of.core.bind(py), task)?;
        Ok(Some(call))
    }

    /// Drops the result if a signal handler has cancelled the task, which must receive this first.
    fn give_way(&mut self, py: Python<'_>) -> PyResult<()> {
        if cancellations(self.task.bind(py))? != self.cancelled {
            self.suspended = false;
            self.result = None;
        }
        Ok(())
    }

    /// Collects; returns how long to wait for the next record.
    fn read(&mut self, py: Python<'_>) -> PyResult<Option<i64>> {
        let of = self.of.get();
        let Some(source) = of.case.get().source(of.collector.bind(py))? else {
            return Ok(None);
        };
        loop {
            let now_ms = of.now(py)?.ms;
            if let Some(began_ms) = self.began_ms.take() {
                of.note_idle(py, now_ms - began_ms)?;
            }
            if !self.suspended && (!source.is_empty()? || now_ms >= self.asked.until_ms) {
                return Ok(Some(0)); // it was not so when the call began
            }
            let mut made = source.made()?;
            match of.look(&source, &mut made, now_ms, self.asked)? {
                Outcome::Collected => {}
                Outcome::Begun => return Ok(None),
                Outcome::Nothing { .. } => {
                    self.began_ms = Some(now_ms);
                    return Ok(Some((self.asked.until_ms - now_ms).min(of.interval_ms)));
                }
            }
            let Some(follow) = &self.follow else {
                let found = (made.batch, made.publication).into_pyobject(py)?;
                self.result = Some(found.into_any().unbind());
                return Ok(None);
            };
            let given = of.give(&made, follow.bind(py))?;
            let given = (given || of.now(py)?.ms >= self.asked.until_ms).then_some(given);
            if let Some(given) = given {
                self.result = Some(given.into_pyobject(py)?.to_owned().into_any().unbind());
                return Ok(None);
            }
            if !of.start(&source, of.now(py)?.ms, self.asked)? {
                return Ok(None);
            }
        }
    }
}

#[pymethods]
impl TaskCall {
    /// Goes on; returns how many ms to wait before the next step, and None at the end.
    ///
    /// Invariant: the next notification wakes the task. What comes from here on then does.
    fn step(&mut self, py: Python<'_>) -> PyResult<Option<i64>> {
        let left_ms = self.read(py).map_err(|error| self.of.get().noted(py, error))?;
        if left_ms.is_some() {
            self.suspended = true;
        } else {
            self.give_way(py)?;
        }
        Ok(left_ms)
    }

    /// What `Reading` would return; None if it must go on. Look again directly before the return.
    #[getter]
    fn result(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.result.is_some() {
            self.give_way(py)?;
        }
        Ok(self.result.as_ref().map(|result| result.clone_ref(py)))
    }

    /// Leaves the call to Python: returns a lock of its own, and when the call ends without a record.
    fn hand_over<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, i64)> {
        let of = self.of.get();
        if let Some(source) = of.case.get().source(of.collector.bind(py))? {
            source.publish()?; // nothing was collected
        }
        let held = of.owner.bind(py).call_method0(intern!(py, "acquire"))?;
        Ok((held, self.asked.until_ms))
    }

    /// Releases the lock.
    fn leave(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let of = slf.borrow().of.clone_ref(py);
        let of = of.get();
        let Some(tasks) = &of.tasks else {
            return Ok(());
        };
        of.core_slots.reader.set(of.core.bind(py), py.None())?;
        let owner = of.owner.bind(py);
        let entries = tasks.lock_slots._entries.get(owner)?.cast_into::<PySet>()?;
        entries.discard(slf)?;
        if entries.is_empty() {
            tasks.lock_slots._holder.set(owner, py.None())?;
        }
        Ok(())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.of)?;
        visit.call(&self.task)?;
        [&self.follow, &self.result].into_iter().flatten().try_for_each(|each| visit.call(each))
    }
}

fn cancellations(task: &Bound<'_, PyAny>) -> PyResult<i64> {
    task.call_method0(intern!(task.py(), "cancelling"))?.extract()
}
