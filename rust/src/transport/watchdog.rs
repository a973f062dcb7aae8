//! The thread that checks whether Python has returned in time for its heartbeat.
//!
//! The first registered heartbeat starts it. It sleeps until one is due, and never calls Python.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::engine::Engine;

/// Time until the next check if Python is inside `poll`.
const RECHECK: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Plan {
    due: Option<Instant>,
    running: bool,
}

impl Plan {
    /// Sets the time of the next check, unless a heartbeat became due while the last one was sent.
    fn check_at(&mut self, next: Option<Instant>) {
        self.due = self.due.or(next);
    }
}

/// The state that the network thread and the watchdog share. Invariant: a thread that holds the
/// engine never waits for the GIL, so the engine is free whenever Python cannot run.
pub struct Shared {
    pub engine: Mutex<Option<Engine>>,
    plan: Mutex<Plan>,
    changed: Condvar,
    stopped: AtomicBool,
    started: Instant,
    touched_ms: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(engine: Engine) -> Self {
        Shared {
            engine: Mutex::new(Some(engine)),
            plan: Mutex::default(),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            started: Instant::now(),
            touched_ms: AtomicU64::new(0),
        }
    }

    /// Records that Python is active now.
    pub fn touch(&self) {
        let elapsed = self.started.elapsed().as_millis();
        self.touched_ms.store(u64::try_from(elapsed).unwrap_or(u64::MAX), SeqCst);
    }

    fn touched(&self) -> Instant {
        self.started + Duration::from_millis(self.touched_ms.load(SeqCst))
    }

    /// Schedules a check for a heartbeat at `due`; starts the thread if necessary.
    pub fn watch(self: &Arc<Self>, due: Instant) {
        let mut plan = locked(&self.plan);
        // The thread wakes at the earlier time, and then sees later due times.
        let sooner = plan.due.is_none_or(|planned| due < planned);
        plan.due = Some(due);
        if !plan.running {
            let shared = Arc::clone(self);
            let name = "tandem-kafka-keepalive".to_owned();
            // Without the thread, only the keepalive is missing.
            plan.running = thread::Builder::new().name(name).spawn(move || shared.run()).is_ok();
        } else if sooner {
            self.changed.notify_all();
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.stopped.store(true, SeqCst);
        // The lock ensures that the thread is not between its check and its sleep. In a forked child,
        // the thread that holds the lock may not exist, and then no thread needs to wake.
        for _ in 0..1000 {
            if self.plan.try_lock().is_ok() {
                break;
            }
            thread::yield_now();
        }
        self.changed.notify_all();
    }

    fn run(&self) {
        while self.sleep() {
            let now = Instant::now();
            let next = match self.engine.try_lock() {
                Ok(mut engine) => self.beat(&mut engine, now),
                Err(TryLockError::Poisoned(poisoned)) => self.beat(&mut poisoned.into_inner(), now),
                Err(TryLockError::WouldBlock) => Some(now + RECHECK), // Python is polling
            };
            locked(&self.plan).check_at(next);
        }
    }

    fn beat(&self, engine: &mut Option<Engine>, now: Instant) -> Option<Instant> {
        engine.as_mut()?.beat(now, self.touched())
    }

    /// Sleeps until something is due; false when it is time to end.
    fn sleep(&self) -> bool {
        let mut plan = locked(&self.plan);
        loop {
            if self.stopped.load(SeqCst) {
                return false;
            }
            let now = Instant::now();
            plan = match plan.due {
                None => self.changed.wait(plan).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now => {
                    let outcome = self.changed.wait_timeout(plan, due - now);
                    outcome.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    plan.due = None;
                    return true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_became_due_concurrently_is_kept() {
        let (due, next) = (Instant::now(), Instant::now() + RECHECK);
        let mut plan = Plan { due: Some(due), running: true };
        for nothing_or_later in [None, Some(next)] {
            plan.check_at(nothing_or_later);
            assert_eq!(plan.due, Some(due));
        }
        plan.due = None;
        plan.check_at(Some(next));
        assert_eq!(plan.due, Some(next));
    }
}
