"""Which record is handled next: order within a lane, batches, and retries that block no other lane.

A lane is a key, a partition, or any value of the user's key function. At most one task of a lane is
with a worker, so the records of a lane are handled in order. Tasks without a lane have no order.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Any, Final

from tandem_kafka.workers.assignment import Task, WorkedPartition

_ABSENT: Final = object()


class Scheduler:
    """Queues of tasks. One thread at a time may use it.

    Attributes:
        delayed: Number of records that wait for their next attempt, or behind such a record.
    """

    def __init__(self, batch: int = 1) -> None:
        self._batch = batch
        self.ready: deque[Task] = deque()
        #: Lanes in use, with the tasks that wait for the one in front; None instead of no tasks.
        self._lanes: dict[Hashable, deque[Task] | None] = {}
        #: Tasks that wait for their next attempt, by time.
        self._delayed: list[tuple[int, int, Task]] = []
        #: Their lanes.
        self._delayed_lanes: set[Hashable] = set()
        self.delayed = 0
        self._numbers = 0

    def add(self, task: Task) -> None:
        """Queue a task behind those of its lane."""
        lane = task.lane
        if lane is None:
            self.ready.append(task)
            return
        waiting: Any = self._lanes.get(lane, _ABSENT)
        if waiting is _ABSENT:
            self._lanes[lane] = None
            self.ready.append(task)
            return
        if waiting is None:
            self._lanes[lane] = deque((task,))
        else:
            waiting.append(task)
        if lane in self._delayed_lanes:
            self.delayed += 1

    def take(self) -> Task | None:
        """Return the next task, which occupies its lane until `release`; None if none is ready."""
        if not self.ready:
            return None
        task = self.ready.popleft()
        # What was taken back keeps its records: they are in no queue any more.
        if self._batch > 1 and task.more is None and not task.failures:
            self._fill(task)
        return task

    def _fill(self, task: Task) -> None:
        """Add the records that follow and can be handled in the same call."""
        queue = self.ready if task.lane is None else self._lanes[task.lane]
        more: list[Task] = []
        while queue and len(more) < self._batch - 1:
            following = queue[0]
            if following.part is not task.part or following.lane != task.lane or following.failures:
                break
            more.append(queue.popleft())
        task.more = more or None

    def release(self, task: Task) -> None:
        """Let the next task of the lane follow."""
        lane = task.lane
        if lane is None:
            return
        waiting = self._lanes[lane]
        if waiting:
            self.ready.append(waiting.popleft())
        else:
            del self._lanes[lane]

    def retry_at(self, task: Task, due_ms: int) -> None:
        """Queue a task again after its backoff; it keeps its lane meanwhile."""
        self._numbers += 1
        heapq.heappush(self._delayed, (due_ms, self._numbers, task))
        self._count_delayed(task)

    def retry_now(self, task: Task) -> None:
        """Queue a task again, in front of all others; it keeps its lane meanwhile."""
        self.ready.appendleft(task)

    @property
    def next_retry_ms(self) -> int | None:
        """When the next backoff ends, or None."""
        return self._delayed[0][0] if self._delayed else None

    def wake(self, now_ms: int) -> None:
        """Queue the tasks whose backoff has ended, in front: they have waited the longest."""
        due = []
        while self._delayed and self._delayed[0][0] <= now_ms:
            task = heapq.heappop(self._delayed)[2]
            self.delayed -= self._held_by(task)
            self._delayed_lanes.discard(task.lane)
            due.append(task)
        self.ready.extendleft(reversed(due))

    def _count_delayed(self, task: Task) -> None:
        self.delayed += self._held_by(task)
        if task.lane is not None:
            self._delayed_lanes.add(task.lane)

    def _held_by(self, task: Task) -> int:
        waiting = None if task.lane is None else self._lanes[task.lane]
        return task.size + len(waiting or ())

    def drop(self, parts: Iterable[WorkedPartition]) -> list[Task]:
        """Remove and return the tasks of these partitions that are not with a worker."""
        gone = frozenset(parts)
        dropped: list[Task] = []
        for lane, waiting in self._lanes.items():
            if waiting and any(task.part in gone for task in waiting):
                dropped += (task for task in waiting if task.part in gone)
                kept = deque(task for task in waiting if task.part not in gone)
                self._lanes[lane] = kept or None
        in_front = [task for task in self.ready if task.part in gone]
        in_front += (task for _, _, task in self._delayed if task.part in gone)
        if in_front:
            self.ready = deque(task for task in self.ready if task.part not in gone)
            self._delayed = [entry for entry in self._delayed if entry[2].part not in gone]
            heapq.heapify(self._delayed)
            for task in in_front:
                self.release(task)
        self.delayed = 0
        self._delayed_lanes.clear()
        for _, _, task in self._delayed:
            self._count_delayed(task)
        return dropped + in_front
