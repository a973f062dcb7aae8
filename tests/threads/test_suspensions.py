"""A reader and other threads: one is inside at a time, and no thread waits forever."""

from __future__ import annotations

import threading
from types import FrameType, SimpleNamespace
from typing import Any, Self

import pytest

from tandem_kafka.config import Config
from tandem_kafka.consumer import commits as commits_module
from tandem_kafka.consumer import core as core_module
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core, Suspending, guarded
from tandem_kafka.consumer.reading.interceptors import Interceptors
from tandem_kafka.errors import ConcurrentModificationError, ConsumerClosedError
from tandem_kafka.runtime import callers, driver
from tandem_kafka.runtime.callers import Threads, run
from tandem_kafka.state.polls import Polls
from tandem_kafka.state.subscription import SubscriptionState
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tests.threads.lockstep import Lockstep, LockstepLock
from tests.threads.seeds import each_seed
from tests.threads.test_waiting import Ticking, driven

TP = TopicPartition("orders", 0)
FAR_MS = 1_000_000


class Consumer:
    """The calls of a consumer to its core."""

    def __init__(self, lockstep: Lockstep) -> None:
        self.lockstep = lockstep
        loop = SimpleNamespace(failure=None, finished=False)
        self.sent: list[Any] = []
        engine: Any = SimpleNamespace(
            loop=loop,
            queue=SimpleNamespace(add=self.sent.append),
            subscription=SubscriptionState(),
            polls=Polls(),
        )
        config = Config.from_options({"group_id": "readers"})
        made: Any = SimpleNamespace(clock=Ticking(), driver=driven(lockstep))
        self.core = Core(config, made, Threads(made.clock, made.driver), engine)
        self.inside: list[str] = []
        self.turned_away = 0

    def work(self, name: str) -> None:
        """Be inside for a while, alone."""
        assert self.inside == []
        self.inside.append(name)
        for _ in range(5):
            self.lockstep.pause()
        assert self.inside == [name]
        self.inside.remove(name)

    def poll(self) -> None:
        run(self._poll())

    @guarded
    async def _poll(self) -> None:
        core = self.core
        held = await core.acquire()
        try:
            for _ in range(3):
                if core.suspended:
                    await core.give_way(held)
                self.work("reader")
        finally:
            held.release()

    def steer(self) -> None:
        run(self._steer())

    @guarded
    async def _steer(self) -> None:
        core = self.core
        suspension = await core.suspend_poll(FAR_MS)
        assert suspension is not None
        try:
            self.work("caller")
        finally:
            suspension.release()

    def close(self) -> None:
        run(self._close())

    @guarded
    async def _close(self) -> None:
        core = self.core
        core.closing = True
        suspension = await core.suspend_poll(FAR_MS)
        assert suspension is not None
        try:
            self.work("closing")
            core.closed = True
        finally:
            suspension.release()


@each_seed
def test_a_reader_and_two_visitors_take_turns(seed: int) -> None:
    lockstep = Lockstep(seed, core_module, callers, driver)
    consumer = Consumer(lockstep)

    def read() -> None:
        for _ in range(3):
            consumer.poll()

    def visit() -> None:
        for _ in range(2):
            consumer.steer()

    lockstep.run(reader=read, one=visit, two=visit)
    assert consumer.inside == []
    assert not consumer.core.suspended


@each_seed
def test_a_reader_that_was_interrupted_lets_a_visitor_in(seed: int) -> None:
    """An interrupt between the acquisition of the lock and the `try` that releases it."""
    lockstep = Lockstep(seed, core_module, callers, driver)
    consumer = Consumer(lockstep)

    def read() -> None:
        for _ in range(3):
            consumer.core.enter()  # never released
        for _ in range(3):
            consumer.poll()

    lockstep.run(reader=read, other=consumer.steer)
    assert consumer.inside == []


def test_a_visitor_that_comes_while_the_stacks_are_searched_is_not_forgotten() -> None:
    core = Consumer(Lockstep(0)).core
    abandoned, coming = Suspending("gone"), Suspending("coming")
    core._suspending.append(abandoned)

    def nobody_else(_: object) -> bool:
        core._suspending.append(coming)
        return True

    core._owner.nobody_else = nobody_else  # type: ignore[method-assign]
    assert not core._alone()
    assert core._suspending == [coming]


class Expiring(LockstepLock):
    """A lock whose waits with a timeout end, as those of waiting callers do 4 times a second."""

    def acquire(self, *, timeout: float = -1) -> bool:
        pauses = 0
        while self._held and timeout >= 0:
            self._lockstep.pause()
            pauses += 1
            if pauses == 40:
                return False
        return super().acquire(timeout=timeout)


class Abandoning(Consumer):
    """A thread abandons the lock and goes on elsewhere: an interrupt has ended its suspension."""

    def __init__(self, seed: int) -> None:
        # Rare switches: a search starts again if the other thread has run meanwhile.
        super().__init__(Lockstep(seed, core_module, callers, driver, switch=0.05))
        lock: Any = lambda: Expiring(self.lockstep)  # noqa: E731
        self.core.driver._new_lock = lock  # type: ignore[attr-defined]

    def abandon(self) -> None:
        run(self._abandon())
        for _ in range(300):
            self.lockstep.pause()

    @guarded
    async def _abandon(self) -> None:
        core = self.core
        assert await core.suspend_poll(FAR_MS) is not None

    def read(self) -> None:
        for _ in range(3):
            self.poll()


def test_an_abandoned_visit_does_not_end_the_reading() -> None:
    for seed in range(40):
        consumer = Abandoning(seed)
        consumer.lockstep.run(reader=consumer.read, abandoning=consumer.abandon)
        assert consumer.inside == []


def test_those_who_wait_for_an_abandoned_lock_do_not_wait_for_each_other() -> None:
    for seed in range(20):
        consumer = Abandoning(seed)
        consumer.lockstep.run(
            reader=consumer.read,
            abandoning=consumer.abandon,
            other=consumer.steer,
            another=consumer.steer,
        )
        assert consumer.inside == []


class Returning:
    """A thread inside a method, which leaves the innermost coroutine while its stack is searched.

    Attributes:
        name: The name of the thread.
    """

    name = "returning"

    def __init__(self) -> None:
        self._may_return, self._returned = threading.Event(), threading.Event()
        self._may_leave, self._inside = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: run(self._method()), name=self.name)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._inside.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._may_return.set()
        self._may_leave.set()
        self._thread.join()

    async def _method(self) -> None:
        await self._innermost()
        self._returned.set()
        self._may_leave.wait(30)

    async def _innermost(self) -> None:
        self._inside.set()
        self._may_return.wait(30)

    def search(self, frame: FrameType) -> bool:
        """Tell whether a frame is that of the method."""
        if frame.f_code is Returning._innermost.__code__:
            self._may_return.set()
            assert self._returned.wait(30)
        return frame.f_code is Returning._method.__code__


def test_a_caller_is_found_whose_stack_changes_during_the_search() -> None:
    lock = callers.OwnerLock()
    with Returning() as thread:
        assert not lock.nobody_else(thread.search)
    with Returning() as thread:
        assert lock.take_over(thread.search) == callers.OtherHolder(thread.name)
    assert lock.nobody_else(thread.search)


@each_seed
def test_a_second_reader_is_rejected_and_a_visitor_is_not(seed: int) -> None:
    lockstep = Lockstep(seed, core_module, callers, driver)
    consumer = Consumer(lockstep)
    polled: list[int] = []

    def read() -> None:
        try:
            consumer.poll()
            polled.append(1)
        except ConcurrentModificationError:
            consumer.turned_away += 1

    lockstep.run(one=read, two=read, other=consumer.steer)
    assert len(polled) + consumer.turned_away == 2
    assert polled


@each_seed
def test_a_reader_ends_when_another_thread_closes(seed: int) -> None:
    lockstep = Lockstep(seed, core_module, callers, driver)
    consumer = Consumer(lockstep)

    def read() -> None:
        for _ in range(1_000):
            try:
                consumer.poll()
            except ConsumerClosedError:
                return
        raise AssertionError("it never heard of it")

    lockstep.run(reader=read, closer=consumer.close)
    assert consumer.core.closed


class Committing:
    """Two threads that commit, and a reader; any of them may run the callbacks."""

    def __init__(self, lockstep: Lockstep) -> None:
        self.lockstep = lockstep
        self.consumer = Consumer(lockstep)
        self.commits = Commits(self.consumer.core, Interceptors([]))
        self.committed: list[int] = []
        self._inside = False

    def _tell(self, offsets: Any, _: object) -> None:
        assert not self._inside
        self._inside = True
        self.lockstep.pause()
        self.committed.append(offsets[TP].offset)
        self._inside = False

    def commit(self, first: int) -> None:
        for number in range(first, first + 3):
            self.commits.commit_async({TP: OffsetAndMetadata(number, "", -1)}, self._tell)
            self.lockstep.pause()

    def respond(self) -> None:
        done = 0
        while done < 6:
            if len(self.consumer.sent) > done:
                self.consumer.sent[done].future.complete(None)
                done += 1
            self.lockstep.pause()

    def poll(self) -> None:
        while len(self.committed) < 6:
            self.commits.run_callbacks()
            self.lockstep.pause()


@each_seed
def test_commit_callbacks_run_once_and_in_order_on_any_thread(seed: int) -> None:
    lockstep = Lockstep(seed, commits_module, callers, driver)
    both = Committing(lockstep)
    one, two = (lambda: both.commit(10)), (lambda: both.commit(20))
    lockstep.run(one=one, two=two, network=both.respond, reader=both.poll)
    assert sorted(both.committed) == [10, 11, 12, 20, 21, 22]
    assert [n for n in both.committed if n < 20] == [10, 11, 12]
    assert [n for n in both.committed if n >= 20] == [20, 21, 22]


def test_a_guarded_function_has_the_variable_in_which_its_lock_is_found() -> None:
    with pytest.raises(TypeError, match="needs a local variable named core"):
        guarded(lambda: None)
