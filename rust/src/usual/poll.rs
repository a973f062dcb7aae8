//! The usual `poll()` or iteration: enters, collects, waits and leaves, for a thread in one step.

mod tasks;

pub use crate::usual::poll::tasks::TaskCall;

use std::time::Duration;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::import_exception;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyType};

use crate::records::Feed;
use crate::runtime::{NANOS_PER_MS, ThisProcess, run};
use crate::slots::{bare, slots};
use crate::standing::Notifier;
use crate::usual::collection::{Collected, Returned, Source, UsualCase};

import_exception!(kafka.errors, KafkaError);

/// As in events/completable.py.
const NO_DEADLINE_MS: i64 = 1 << 62;
/// Longer than any wait, as `ENDLESS_MS` in reading.py.
const LONGEST_MS: f64 = (1u64 << 40) as f64;

slots!(Commits { auto_commit_ms });
slots!(Core { closed, reader });
slots!(Holding { release });
slots!(Owner { _lock });
slots!(Iterated { state, handed, base, feed, version, _cached });
slots!(Measured { polled_ms, idle_ms, due_ms, note_poll, note_records });
slots!(Poller { _answered, _quiet_changes, _looking });
slots!(Polls { attention, event_needed, handler_ms, polled_ms });

/// What the calls of one consumer look at.
#[pyclass(frozen, module = "tandem_kafka._native")]
pub struct UsualReading {
    case: Py<UsualCase>,
    reading: Py<PyAny>,
    commits_slots: Commits,
    core_slots: Core,
    holding_slots: Holding,
    /// None for tasks.
    owner_slots: Option<Owner>,
    tasks: Option<tasks::Tasks>,
    iterated_slots: Iterated,
    measured_slots: Measured,
    poller_slots: Poller,
    polls_slots: Polls,
    collector: Py<PyAny>,
    core: Py<PyAny>,
    changes: Py<PyAny>,
    commits: Py<PyAny>,
    measured: Py<PyAny>,
    poller: Py<PyAny>,
    polls: Py<PyAny>,
    process: ThisProcess,
    pid: Py<PyAny>,
    owner: Py<PyAny>,
    /// What iteration has collected and not returned.
    runs: Py<PyAny>,
    current: Py<PyAny>,
    now_ns: Py<PyAny>,
    notifier: Option<Py<Notifier>>,
    /// `max_poll_records`, and the most records that iteration takes at once.
    limit: usize,
    run: usize,
    /// `consumer_timeout_ms`; None for iteration without an end.
    idle_ms: Option<f64>,
    limit_bytes: i64,
    interval_ms: i64,
    /// Whether interceptors look at records before they are returned.
    intercepts: bool,
    /// Makes a `Feed` that deserializes; None if nothing is left to the loop.
    make_feed: Option<Py<PyAny>>,
}

/// What a call asks for.
#[derive(Clone, Copy)]
struct Asked {
    until_ms: i64,
    limit: usize,
    /// Whether a loop asks, which deserializes each record when its turn comes.
    loops: bool,
}

/// How a look has ended.
enum Outcome<'py> {
    Collected,
    /// Python must go on.
    Begun,
    /// There is nothing, until records are added to those counted here, or attention is requested.
    Nothing {
        added: u64,
        attention: Bound<'py, PyAny>,
    },
}

/// The time.
struct Now {
    ms: i64,
    exact_ms: f64,
}

impl Now {
    /// The first whole millisecond after a duration, as `Clock.after_ms`.
    fn after_ms(&self, duration_ms: f64) -> i64 {
        (self.exact_ms + duration_ms).ceil() as i64
    }
}

/// A call that is inside.
struct Call<'a, 'py> {
    now: Now,
    source: Source<'a, 'py>,
    held: Held<'a, 'py>,
}

/// The lock of the reader; released when it is dropped, unless Python goes on.
struct Held<'a, 'py> {
    of: &'a UsualReading,
    lock: Option<Bound<'py, PyAny>>,
}

impl<'py> Call<'_, 'py> {
    /// Leaves the call to Python: returns the lock as a `Holding`, and when the timeout ends.
    fn hand_over(mut self, deadline_ms: i64) -> PyResult<(Bound<'py, PyAny>, i64)> {
        let (of, py) = (self.held.of, self.source.collector.py());
        let holding = bare(of.holding_slots.kind.bind(py))?;
        if let Some(lock) = &self.held.lock {
            of.holding_slots.release.set(&holding, lock.getattr(intern!(py, "release"))?)?;
        }
        self.source.publish()?; // nothing was collected
        of.core_slots.reader.set(of.core.bind(py), py.None())?;
        self.held.lock = None;
        Ok((holding, deadline_ms))
    }
}

impl Drop for Held<'_, '_> {
    fn drop(&mut self) {
        let Some(lock) = &self.lock else { return };
        let py = lock.py();
        // Neither fails; an error of the call is told.
        let _ = self.of.core_slots.reader.set(self.of.core.bind(py), py.None());
        let _ = lock.call_method0(intern!(py, "release"));
    }
}

#[pymethods]
impl UsualReading {
    /// Args:
    ///     case: The classes.
    ///     reading: What does all other cases.
    ///     core: The connection to the network thread.
    ///     poller: What polls in Python.
    ///     collector: Takes the records from the buffer.
    ///     commits: Knows when the next automatic commit is due.
    ///     runs: What iteration has collected and not returned.
    ///     process: Knows the id of this process.
    ///     `now_ns`: The clock of the core in nanoseconds.
    ///     iterated: `IteratedRecords`.
    ///     run: The most records that iteration takes at once.
    ///     `idle_ms`: `consumer_timeout_ms`; None for iteration without an end.
    ///     holding: `Holding`.
    ///     intercepts: Whether interceptors look at records before they are returned.
    ///     `make_feed`: Makes a `Feed` that deserializes; None if nothing is left to the loop.
    #[new]
    #[allow(clippy::too_many_arguments)] // the objects of one consumer
    fn new(
        case: Py<UsualCase>,
        reading: Py<PyAny>,
        core: &Bound<'_, PyAny>,
        poller: &Bound<'_, PyAny>,
        collector: Py<PyAny>,
        commits: Py<PyAny>,
        runs: Py<PyAny>,
        process: &Bound<'_, PyAny>,
        now_ns: Py<PyAny>,
        iterated: &Bound<'_, PyType>,
        run: usize,
        idle_ms: Option<f64>,
        holding: &Bound<'_, PyType>,
        intercepts: bool,
        make_feed: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let of = |object: &Bound<'_, PyAny>, names: &str| -> PyResult<Py<PyAny>> {
            let found =
                names.split('.').try_fold(object.clone(), |found, name| found.getattr(name));
            found.map(Bound::unbind)
        };
        let py = core.py();
        let measured = of(poller, "measured")?;
        let polls = of(core, "engine.polls")?;
        let owner = of(core, "_owner")?;
        let tasks = tasks::Tasks::of(&core.getattr("callers")?, owner.bind(py))?;
        let owner_kind = owner.bind(py).get_type();
        let owner_slots = tasks.is_none().then(|| Owner::of(&owner_kind)).transpose()?;
        Ok(UsualReading {
            case,
            reading,
            commits_slots: Commits::of(&commits.bind(py).get_type())?,
            core_slots: Core::of(&core.get_type())?,
            holding_slots: Holding::of(holding)?,
            owner_slots,
            tasks,
            iterated_slots: Iterated::of(iterated)?,
            measured_slots: Measured::of(&measured.bind(py).get_type())?,
            poller_slots: Poller::of(&poller.get_type())?,
            polls_slots: Polls::of(&polls.bind(py).get_type())?,
            collector,
            core: core.clone().unbind(),
            changes: of(core, "engine.subscription.changes")?,
            commits,
            measured,
            poller: poller.clone().unbind(),
            polls,
            process: ThisProcess::of(process)?,
            pid: of(process, "pid")?,
            owner,
            runs,
            current: of(core, "callers.current")?,
            now_ns,
            notifier: of(core, "driver.blocks_on")?.extract(py)?,
            run,
            idle_ms,
            limit: of(core, "config.max_poll_records")?.extract(py)?,
            limit_bytes: of(core, "engine.buffer.limit_bytes")?.extract(py)?,
            interval_ms: of(poller, "interval_ms")?.extract(py)?,
            intercepts,
            make_feed,
        })
    }

    // The cycle is broken by the Python objects in it.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let objects = [
            &self.reading,
            &self.collector,
            &self.core,
            &self.changes,
            &self.commits,
            &self.measured,
            &self.poller,
            &self.polls,
            self.process.object(),
            &self.pid,
            &self.owner,
            &self.runs,
            &self.current,
            &self.now_ns,
        ];
        if let Some(tasks) = &self.tasks {
            tasks.traverse(&visit)?;
        }
        objects.into_iter().chain(&self.make_feed).try_for_each(|each| visit.call(each))
    }

    /// Returns the records and their publication, as `Reading.poll` does.
    fn poll<'py>(
        &self,
        py: Python<'py>,
        timeout_ms: Bound<'py, PyAny>,
        max_records: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut begun = None;
        if let Some((timeout, limit)) = self.limits(&timeout_ms, &max_records)
            && self.runs.bind(py).len()? == 0
            && let Some(call) = self.enter(py)?
        {
            let until_ms = call.now.after_ms(timeout);
            let asked = Asked { until_ms, limit, loops: false };
            let read = self.read(&call.source, call.now.ms, asked);
            if let Some(made) = read.map_err(|error| self.noted(py, error))? {
                drop(call);
                return Ok((made.batch, made.publication).into_pyobject(py)?.into_any());
            }
            begun = Some(call.hand_over(until_ms)?);
        }
        let method = intern!(py, "poll");
        run(&self.reading.bind(py).call_method1(method, (timeout_ms, max_records, begun))?)
    }

    /// Gives a loop the feed with the next record, as `Reading.find_feed` does.
    fn find_feed<'py>(
        &self,
        py: Python<'py>,
        follow: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut begun = None;
        if let Some(call) = self.enter(py)?
            && call.source.is_assigned()?
            && self.drop_returned(py)?
        {
            let until_ms = match self.idle_ms {
                Some(idle_ms) => call.now.after_ms(idle_ms),
                None => NO_DEADLINE_MS,
            };
            let asked = Asked { until_ms, limit: self.run, loops: true };
            let found = self.next_feed(&call, asked, &follow);
            if let Some(found) = found.map_err(|error| self.noted(py, error))? {
                return Ok(found.into_pyobject(py)?.to_owned().into_any());
            }
            begun = Some(call.hand_over(until_ms)?);
        }
        let method = intern!(py, "find_feed");
        run(&self.reading.bind(py).call_method1(method, (follow, begun))?)
    }

    /// Begins a `poll()` of the current task. None if Python must, or if the task must be suspended
    /// first: records are at hand, or there is no time to wait.
    fn begin_poll<'py>(
        slf: &Bound<'py, Self>,
        timeout_ms: Bound<'py, PyAny>,
        max_records: Bound<'py, PyAny>,
        suspended: bool,
    ) -> PyResult<Option<Bound<'py, TaskCall>>> {
        let this = slf.get();
        match this.limits(&timeout_ms, &max_records) {
            Some((timeout, limit)) if this.runs.bind(slf.py()).len()? == 0 => {
                let asked = Asked { until_ms: 0, limit, loops: false };
                TaskCall::begin(slf, Some(timeout), asked, None, suspended)
            }
            _ => Ok(None),
        }
    }

    /// The same for `find_feed`.
    fn begin_feed<'py>(
        slf: &Bound<'py, Self>,
        follow: Bound<'py, PyAny>,
        suspended: bool,
    ) -> PyResult<Option<Bound<'py, TaskCall>>> {
        let this = slf.get();
        let asked = Asked { until_ms: 0, limit: this.run, loops: true };
        TaskCall::begin(slf, this.idle_ms, asked, Some(follow), suspended)
    }

    /// Drops what iteration has returned; returns false if it has not returned everything.
    #[pyo3(name = "drop_returned")]
    fn drop_returned_for(&self, py: Python<'_>) -> PyResult<bool> {
        self.drop_returned(py)
    }
}

impl UsualReading {
    /// The arguments if they are usual; Python rejects others, or converts them.
    fn limits(
        &self,
        timeout_ms: &Bound<'_, PyAny>,
        max_records: &Bound<'_, PyAny>,
    ) -> Option<(f64, usize)> {
        let is_number = timeout_ms.is_exact_instance_of::<PyInt>()
            || timeout_ms.is_exact_instance_of::<PyFloat>();
        let timeout = timeout_ms.extract::<f64>().ok().filter(|_| is_number)?;
        let limit = if max_records.is_none() {
            self.limit
        } else {
            let exact = max_records.is_exact_instance_of::<PyInt>();
            max_records.extract().ok().filter(|limit| exact && *limit > 0)?
        };
        (0.0..=LONGEST_MS).contains(&timeout).then_some((timeout, limit))
    }

    /// Whether nothing but records needs attention, and no other call is inside.
    ///
    /// Invariant: nothing here lets another thread run. What changes later is told by `attention`
    /// or `changes`, or needs the lock.
    fn is_usual(&self, source: &Source<'_, '_>, now_ms: i64) -> PyResult<bool> {
        let py = source.collector.py();
        let (core, polls) = (self.core.bind(py), self.polls.bind(py));
        let changes = source.changes()?;
        Ok(self.is_quiet(py)?
            && !self.is_commit_due(py, now_ms)?
            && source.is_usual()?
            && source.is_published()?
            && self.is_settled(&changes)?
            && !self.polls_slots.event_needed.is_true(polls)?
            && self.core_slots.reader.is_none(core)?
            && !self.core_slots.closed.is_true(core)?
            && !self.poller_slots._looking.is_true(self.poller.bind(py))?
            && self.process.is(self.pid.bind(py))?)
    }

    /// Whether Python must begin an automatic commit.
    fn is_commit_due(&self, py: Python<'_>, now_ms: i64) -> PyResult<bool> {
        let due_ms: f64 =
            self.commits_slots.auto_commit_ms.get(self.commits.bind(py))?.extract()?;
        Ok(now_ms as f64 >= due_ms)
    }

    /// Whether this is the count of changes at which no event is needed.
    fn is_settled(&self, count: &Bound<'_, PyAny>) -> PyResult<bool> {
        let poller = self.poller.bind(count.py());
        self.poller_slots._quiet_changes.is_number(poller, count)
    }

    /// Whether there is nothing to look at besides records.
    fn is_quiet(&self, py: Python<'_>) -> PyResult<bool> {
        let attention = self.polls_slots.attention.get(self.polls.bind(py))?;
        self.poller_slots._answered.is(self.poller.bind(py), &attention)
    }

    /// Begins a usual call, with the lock of the reader; None if Python must, or must wait for it.
    fn enter<'py>(&self, py: Python<'py>) -> PyResult<Option<Call<'_, 'py>>> {
        let now = self.now(py)?;
        let Some(source) = self.case.get().source(self.collector.bind(py))? else {
            return Ok(None);
        };
        if !self.is_usual(&source, now.ms)? {
            return Ok(None);
        }
        let Some(owner_slots) = &self.owner_slots else {
            return Ok(None);
        };
        let reader = self.current.bind(py).call0()?;
        let lock = owner_slots._lock.get(self.owner.bind(py))?;
        if !lock.call_method1(intern!(py, "acquire"), (false,))?.is_truthy()? {
            return Ok(None);
        }
        let held = Held { of: self, lock: Some(lock) };
        self.core_slots.reader.set(self.core.bind(py), reader)?;
        Ok(Some(Call { now, source, held }))
    }

    /// Drops what iteration has returned; returns false if it has not returned everything.
    fn drop_returned(&self, py: Python<'_>) -> PyResult<bool> {
        let (slots, case) = (&self.iterated_slots, self.case.get());
        let runs = self.runs.bind(py);
        while runs.len()? > 0 {
            let run = runs.get_item(0)?;
            let handed = slots.handed.get(&run)?;
            let feed = slots.feed.get(&run)?.cast_into::<Feed>()?;
            if !feed.get().is_returned(py) || !case.is_returned(&handed)? {
                return Ok(false);
            }
            feed.get().stop();
            let state = slots.state.get(&run)?;
            if case.partition.consumed.get(&state)?.is(&run) {
                case.partition.consumed.set(&state, handed)?;
            }
            runs.call_method0(intern!(py, "popleft"))?;
        }
        Ok(true)
    }

    /// Waits for the next record, and gives its feed to a loop. Returns None if Python must go on.
    fn next_feed<'py>(
        &self,
        call: &Call<'_, 'py>,
        asked: Asked,
        follow: &Bound<'py, PyAny>,
    ) -> PyResult<Option<bool>> {
        let py = follow.py();
        let mut now_ms = call.now.ms;
        loop {
            let Some(made) = self.read(&call.source, now_ms, asked)? else { return Ok(None) };
            if self.give(&made, follow)? {
                return Ok(Some(true));
            }
            now_ms = self.now(py)?.ms;
            if now_ms >= asked.until_ms {
                return Ok(Some(false));
            }
        }
    }

    /// Gives what was collected to a loop; returns whether it was anything.
    fn give<'py>(&self, made: &Collected<'py>, follow: &Bound<'py, PyAny>) -> PyResult<bool> {
        let (py, case) = (follow.py(), self.case.get());
        let mut first = None;
        for Returned { state, records, .. } in &made.returned {
            let feed = match &self.make_feed {
                Some(make) => make.bind(py).call1((records,))?.cast_into::<Feed>()?,
                None => Bound::new(py, Feed::of(records, None)?)?,
            };
            self.add_run(state, &feed)?;
            first = first.or(Some(feed));
        }
        // Runs have their own positions. This store moves the partitions without records.
        case.publication.done.set(&made.publication, true)?;
        if let Some(feed) = &first {
            // Invariant: the count before the collection. After a change since then, the loop looks.
            follow.call1((feed, &self.changes, &made.seen))?;
        }
        Ok(first.is_some())
    }

    /// Lets a feed say how far the records of a partition were returned, as `Iteration.add` does.
    fn add_run(&self, state: &Bound<'_, PyAny>, feed: &Bound<'_, Feed>) -> PyResult<()> {
        let (slots, case, py) = (&self.iterated_slots, self.case.get(), state.py());
        let handed = case.partition.consumed.get(state)?;
        let run = bare(slots.kind.bind(py))?;
        slots.state.set(&run, state)?;
        slots.base.set(&run, case.handed.base.get(&handed)?)?;
        slots._cached.set(&run, (0, case.handed.before.get(&handed)?))?;
        slots.handed.set(&run, handed)?;
        slots.feed.set(&run, feed)?;
        slots.version.set(&run, -1)?;
        case.partition.consumed.set(state, &run)?;
        self.runs.bind(py).call_method1(intern!(py, "append"), (run,))?;
        Ok(())
    }

    /// Waits for records and collects them; returns None if Python must go on.
    fn read<'py>(
        &self,
        source: &Source<'_, 'py>,
        mut now_ms: i64,
        asked: Asked,
    ) -> PyResult<Option<Collected<'py>>> {
        let py = source.collector.py();
        if !self.start(source, now_ms, asked)? {
            return Ok(None);
        }
        let mut made = source.made()?;
        loop {
            let (added, attention) = match self.look(source, &mut made, now_ms, asked)? {
                Outcome::Collected => return Ok(Some(made)),
                Outcome::Begun => return Ok(None),
                Outcome::Nothing { added, attention } => (added, attention),
            };
            let Some(notifier) = &self.notifier else {
                return Ok(None);
            };
            let wait_ms = (asked.until_ms - now_ms).min(self.interval_ms);
            notifier.get().wait_until(py, Duration::from_millis(wait_ms as u64), || {
                let now = self.polls_slots.attention.get(self.polls.bind(py))?;
                Ok(source.queue.get().shared.added() != added || !now.is(&attention))
            })?;
            let began_ms = now_ms;
            now_ms = self.now(py)?.ms;
            self.note_idle(py, now_ms - began_ms)?;
        }
    }

    /// Begins to read; returns false if Python must.
    fn start(&self, source: &Source<'_, '_>, now_ms: i64, asked: Asked) -> PyResult<bool> {
        let py = source.collector.py();
        self.measure(py, now_ms)?;
        if self.is_commit_due(py, now_ms)? {
            return Ok(false); // while nothing but positions is collected
        }
        let raw = asked.loops && self.make_feed.is_some();
        self.case.get().collector.raw.set(&source.collector, raw)?;
        source.begin()
    }

    /// Collects what is there.
    fn look<'py>(
        &self,
        source: &Source<'_, 'py>,
        made: &mut Collected<'py>,
        now_ms: i64,
        asked: Asked,
    ) -> PyResult<Outcome<'py>> {
        let py = source.collector.py();
        let attention = self.polls_slots.attention.get(self.polls.bind(py))?;
        let full = source.queue.get().shared.held() >= self.limit_bytes;
        let drops = || source.collector.call_method0(intern!(py, "to_drop"))?.is_truthy();
        if !self.is_quiet(py)? || (full && drops()?) {
            return Ok(Outcome::Begun);
        }
        let added = source.queue.get().shared.added();
        let over = now_ms >= asked.until_ms;
        if over || !source.is_empty()? {
            if self.intercepts || !source.is_usual()? || !source.collect(made, asked.limit)? {
                return Ok(Outcome::Begun);
            }
            let now_ms = if source.deserializes()? { self.now(py)?.ms } else { now_ms };
            self.tell(source, now_ms)?;
            if over || !made.batch.is_empty() || !made.moved.is_empty() {
                self.note(py, made)?;
                return Ok(Outcome::Collected);
            }
        } else {
            source.wake_for_moved()?;
            self.tell(source, now_ms)?;
        }
        Ok(Outcome::Nothing { added, attention })
    }

    fn note_idle(&self, py: Python<'_>, waited_ms: i64) -> PyResult<()> {
        let (slot, measured) = (&self.measured_slots.idle_ms, self.measured.bind(py));
        slot.set(measured, slot.int(measured)? + waited_ms)
    }

    fn now(&self, py: Python<'_>) -> PyResult<Now> {
        let nanos: i64 = self.now_ns.bind(py).call0()?.extract()?;
        Ok(Now { ms: nanos / NANOS_PER_MS, exact_ms: nanos as f64 / NANOS_PER_MS as f64 })
    }

    /// Measures the time since the last call, as `Polling.begin` does.
    fn measure(&self, py: Python<'_>, now_ms: i64) -> PyResult<()> {
        let (slots, polls) = (&self.polls_slots, self.polls.bind(py));
        let polled_ms = slots.polled_ms.int(polls)?;
        slots.handler_ms.set(polls, if polled_ms == 0 { 0 } else { now_ms - polled_ms })?;
        slots.polled_ms.set(polls, now_ms)?;
        let (slots, measured) = (&self.measured_slots, self.measured.bind(py));
        let polled_ms = slots.polled_ms.int(measured)?;
        let since_ms = now_ms - polled_ms;
        if polled_ms != 0 && since_ms > 0 {
            let idle_ms = slots.idle_ms.get(measured)?;
            slots.note_poll.get(measured)?.call1(((since_ms, idle_ms),))?;
            if now_ms >= slots.due_ms.int(measured)? {
                measured.call_method1(intern!(py, "flush_due"), (now_ms,))?;
            }
        }
        slots.polled_ms.set(measured, now_ms)?;
        slots.idle_ms.set(measured, 0)
    }

    /// Tells the network thread that the application polls, if something waits for it.
    fn tell(&self, source: &Source<'_, '_>, now_ms: i64) -> PyResult<()> {
        let py = source.collector.py();
        let (polls, poller) = (self.polls.bind(py), self.poller.bind(py));
        self.polls_slots.polled_ms.set(polls, now_ms)?;
        if !self.is_settled(&source.changes()?)? || self.polls_slots.event_needed.is_true(polls)? {
            poller.call_method1(intern!(py, "tell"), (now_ms,))?;
        }
        Ok(())
    }

    /// Notes the error of a signal handler, as `Poller.poll` does.
    fn noted(&self, py: Python<'_>, error: PyErr) -> PyErr {
        if !error.is_instance_of::<KafkaError>(py) {
            return error;
        }
        let noting =
            self.poller.bind(py).call_method1(intern!(py, "note_error"), (error.value(py),));
        noting.err().unwrap_or(error)
    }

    /// Notes how much each partition returns.
    fn note(&self, py: Python<'_>, made: &Collected<'_>) -> PyResult<()> {
        for Returned { topic, count, lag, .. } in &made.returned {
            let note_records = self.measured_slots.note_records.get(self.measured.bind(py))?;
            note_records.call1(((topic, count, lag),))?;
        }
        Ok(())
    }
}
