"""Three ways of reading, while the network thread fetches and changes what is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka.config import Config
from tandem_kafka.consumer.reading import (
    fetch_collector,
    iteration,
    opened_chunk,
    poller,
    reading,
)
from tandem_kafka.consumer.reading.arrow_form import ArrowForm
from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.reading.fetch_collector import FetchCollector
from tandem_kafka.consumer.reading.interceptors import Interceptors
from tandem_kafka.consumer.reading.poller import Poller
from tandem_kafka.engine.application_event_processor import ApplicationEventProcessor
from tandem_kafka.errors import (
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from tandem_kafka.events.application import Poll
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.queues import ApplicationEventQueue, BackgroundEventQueue
from tandem_kafka.network.request import UnsentRequest
from tandem_kafka.request_managers.fetching import fetch_request_manager as fetch_module
from tandem_kafka.request_managers.fetching import response_handler
from tandem_kafka.runtime import Random
from tandem_kafka.runtime.callers import run
from tandem_kafka.state import fetch_buffer, partition
from tandem_kafka.types import TopicPartition
from tests.implementations import IMPLEMENTATIONS, require_implementation, use_readers
from tests.threads.lockstep import Lockstep
from tests.threads.seeds import each_seed
from tests.threads.test_attention import core_of
from tests.unit.consumer import reading as buffered
from tests.unit.records.making import Rec, batch, marker
from tests.unit.request_managers.fetching import Found, fetch_response, requested_offsets
from tests.unit.request_managers.world import TP, TP1, TP2, World

PARTITIONS = (TP, TP1, TP2)
#: A response may fill the buffer.
SMALL = {"fetch_buffer_max_bytes": 4_000, "max_partition_fetch_bytes": 1_000}
LARGE = b"v" * 3_000
#: A wait that is not for a pause between two requests.
LONG_MS = 10_000
FOREVER_MS = 2**40
#: Those of the application, and those that the network thread runs as well.
APPLICATION = (poller, fetch_collector, opened_chunk, iteration, reading)
NETWORK = (fetch_buffer, partition, fetch_module)


@pytest.fixture(params=IMPLEMENTATIONS, autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue, the readers and the loop of one implementation or the other."""
    require_implementation(request.param)
    if request.param == "python":
        for module in (fetch_buffer, iteration):
            monkeypatch.setattr(module, "native", None)
        monkeypatch.setattr(iteration, "Loop", iteration.PythonLoop)
    use_readers(request.param, monkeypatch)
    monkeypatch.setattr(buffered, "open_reader", response_handler.open_reader)


class Log:
    """What a broker has of a partition; the last record comes when nothing else changes."""

    def __init__(self, random: Random) -> None:
        self.batches: dict[int, bytes] = {}
        self.refusals: dict[int, type[Exception]] = {}
        self.visible: list[int] = []
        self.end = 0
        for _ in range(random.randrange(2, 6)):
            self._add(random.choice(["few", "large", "hidden", "hidden"]))
            if random.random() < 0.4:
                refusals = [
                    OffsetOutOfRangeError,
                    OffsetOutOfRangeError,
                    TopicAuthorizationFailedError,
                ]
                self.refusals[self.end] = random.choice(refusals)

    def _add(self, kind: str) -> None:
        begin = self.end
        if kind == "hidden":
            self.batches[begin] = marker(begin, 7, abort=True)
            self.end += 1
            return
        values = [LARGE] if kind == "large" else [b"v"] * 3
        self.batches[begin] = batch([Rec(value=value) for value in values], begin, epoch=3)
        self.end += len(values)
        self.visible += range(begin, self.end)

    def add_last(self) -> None:
        self._add("few")

    def found(self, offset: int) -> Found | None:
        """What a fetch from an offset brings; None if it has to wait."""
        if (refusal := self.refusals.pop(offset, None)) is not None:
            return Found(error=refusal, high_watermark=self.end)
        begin = max((each for each in self.batches if each <= offset), default=0)
        if offset >= self.end:
            return None
        return Found(self.batches[begin], high_watermark=self.end)


class NoCommits:
    """Stands for `Commits`, of which `auto_commit_ms` has a slot."""

    __slots__ = ("auto_commit_ms",)
    waiting = False

    def __init__(self) -> None:
        self.auto_commit_ms = float("inf")

    def run_callbacks(self) -> None:
        """There are none."""


class Threads:
    """The application and the network thread, with all that is between them but the sockets."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        # Or the network thread does all that it can between two lines of the application.
        modules = self.random.choice([APPLICATION, APPLICATION + NETWORK])
        self.lockstep = Lockstep(seed, *modules)
        self.world = world = World(leaders=(1, 1, 1), **SMALL)
        world.buffer.limit_bytes = world.config.fetch_buffer_max_bytes
        world.assign(*PARTITIONS, at=0)
        self.logs = {tp: Log(self.random) for tp in PARTITIONS}
        self.woken: list[bool] = []
        self.queue = ApplicationEventQueue(lambda: self.woken.append(True))
        self.background = BackgroundEventQueue(world.context.polls)
        self.core = core_of(
            self.lockstep,
            queue=self.queue,
            background=self.background,
            subscription=world.subscription,
            buffer=world.buffer,
            metrics=world.context.metrics,
            polls=world.context.polls,
        )
        self.processor = ApplicationEventProcessor(world.context, world.managers)
        self.in_flight: list[UnsentRequest] = []
        possible = [self._seek, self._pause, self._assign_again, self._raise]
        self.changes: deque[Callable[[], None]] = deque(
            partial(self.random.choice(possible), self.random.choice(PARTITIONS))
            for _ in range(self.random.randrange(4))
        )
        if self.changes:
            self.changes.append(self._grow)
        else:
            self._grow()
        #: Where each partition has been read from, and what of it.
        self.begins: dict[TopicPartition, list[int]] = {tp: [0] for tp in PARTITIONS}
        self.got: dict[TopicPartition, list[int]] = {tp: [] for tp in PARTITIONS}
        self.over = False
        self.make_reading()

    def make_reading(self, **options: Any) -> None:
        core, world = self.core, self.world
        config = Config.from_options(options)
        deserializers = Deserializers(config)
        collector = FetchCollector(
            world.subscription,
            world.buffer,
            deserializers,
            lambda: self.woken.append(True),
            world.config.fetch_buffer_max_bytes,
        )
        background = self.background

        class Background:
            def __len__(self) -> int:
                return len(background)

            async def process(self) -> None:
                if (event := background.take()) is not None:
                    assert isinstance(event, ErrorEvent)
                    raise event.error

        commits: Any = NoCommits()
        reporters: Any = SimpleNamespace(report=lambda: None)
        made: Any = Background()
        self.reading = reading.Reading(
            core,
            Poller(core, commits, collector, made, reporters),
            collector,
            deserializers,
            Interceptors([]),
        )
        threads = self

        class Loop(iteration.Loop):
            def _find_feed(self) -> None:
                if not threads.reading.find_feed_now(self._follow):
                    raise StopIteration

        self.loop = Loop()

    # --- the application -----------------------------------------------------------------------

    def poll(self) -> list[tuple[int, int]]:
        records, publication = self.reading.poll_now(FOREVER_MS, None)
        publication.done = True
        return [(each.partition, each.offset) for found in records.values() for each in found]

    def iterate(self) -> list[tuple[int, int]]:
        record = next(self.loop)
        return [(record.partition, record.offset)]

    def poll_arrow(self) -> list[tuple[int, int]]:
        form = ArrowForm(("partition", "offset"), binary_view=False)
        made, publication = run(self.reading.poll_arrow(FOREVER_MS, None, form))
        publication.done = True
        columns = made.to_pydict()
        return list(zip(columns["partition"], columns["offset"], strict=True))

    def application(self, read: Callable[[], list[tuple[int, int]]]) -> None:
        try:
            while not self._all_read():
                try:
                    for number, offset in read():
                        self.got[PARTITIONS[number]].append(offset)
                except KafkaError:
                    self.woken.append(True)  # the next change waits for it
        finally:
            self.over = True

    def _all_read(self) -> bool:
        if self.changes:
            return False
        return all(self.got[tp][-1:] == log.visible[-1:] for tp, log in self.logs.items())

    # --- the network thread --------------------------------------------------------------------

    def network(self) -> None:
        while not self.over:
            self.woken.clear()
            while (event := self.queue.take()) is not None:
                self.processor.process(event)
                self.core.driver.notify()
            result = self.world.managers.fetch.poll(self.world.now_ms)
            self.in_flight += result.unsent
            if (self.random.random() < 0.2 and self._change()) or self._respond() or self._change():
                self.core.driver.notify()
            elif result.wait_ms < LONG_MS:
                self.world.clock.advance_to(self.world.now_ms + max(1, int(result.wait_ms)))
                self.lockstep.pause()
            else:
                while not (self.woken or self.over):
                    self.lockstep.pause()

    def _respond(self) -> bool:
        for unsent in self.in_flight:
            wanted = {PARTITIONS[n]: at for n, at in requested_offsets(unsent).items()}
            found = {tp: self.logs[tp].found(at) for tp, at in wanted.items()}
            brought = {tp: each for tp, each in found.items() if each is not None}
            waits_long = unsent.message.max_wait_ms == self.world.config.fetch_max_wait_ms
            if brought or self._is_stale(wanted) or not waits_long:
                self.in_flight.remove(unsent)
                self.world.respond(unsent, fetch_response(brought, session_id=0))
                return True
        return False

    def _is_stale(self, wanted: dict[TopicPartition, int]) -> bool:
        """Tell whether waiting for it would keep a partition waiting: a broker ends the wait."""
        assigned = self.world.subscription.assigned
        return any(tp not in assigned or assigned[tp].read_ahead != at for tp, at in wanted.items())

    def _change(self) -> bool:
        """Make the next change, once the errors before it are raised; the last lets logs grow."""
        if not self.changes or len(self.background):
            return False
        for _ in range(self.random.choice([0, 0, 200])):  # the application reads all there is
            self.lockstep.pause()
        self.changes[0]()
        self.world.context.polls.request_attention()  # as the call of another thread does
        self.changes.popleft()
        return True

    def _then(self, change: Callable[[], None]) -> None:
        self.changes.insert(1, change)

    def _seek(self, tp: TopicPartition) -> None:
        offset = self.random.randrange(self.logs[tp].end)
        self.begins[tp].append(offset)
        self.world.managers.positions.seek(tp, offset, -1)

    def _pause(self, tp: TopicPartition) -> None:
        def pause(*, paused: bool) -> None:
            self.world.subscription.get(tp).paused = paused

        pause(paused=True)
        self._then(lambda: pause(paused=False))

    def _assign_again(self, tp: TopicPartition) -> None:
        def assign() -> None:
            self.world.assign(*PARTITIONS)
            self._seek(tp)

        self.world.assign(*(each for each in PARTITIONS if each != tp))
        self._then(assign)

    def _raise(self, tp: TopicPartition) -> None:
        self.background.add(ErrorEvent(KafkaError(str(tp))))

    def _grow(self) -> None:
        for log in self.logs.values():
            log.add_last()


def check_order(visible: list[int], begins: list[int], got: list[int]) -> None:
    """Check that records come from one beginning after the other, none twice and none left out."""
    left = deque(begins)
    expected: list[int] = []
    for offset in got:
        while not expected or expected[0] != offset:
            assert left, f"{offset} is out of order in {got}"
            begin = left.popleft()
            expected = [each for each in visible if each >= begin]
        expected.pop(0)
    assert not expected


WAYS = (Threads.poll, Threads.iterate, Threads.poll_arrow)


@each_seed
def test_every_way_of_reading_returns_each_record_once_and_never_waits_in_vain(seed: int) -> None:
    threads = Threads(seed)
    threads.lockstep.run(
        application=lambda: threads.application(partial(WAYS[seed % 3], threads)),
        network=threads.network,
    )
    for tp, log in threads.logs.items():
        check_order(log.visible, threads.begins[tp], threads.got[tp])


def refuse(data: bytes) -> bytes:
    raise ValueError(data)


def buffer(threads: Threads) -> buffered.Reading:
    """What puts records and errors into the buffer."""
    made = buffered.Reading(TP)
    made.subscription, made.buffer = threads.world.subscription, threads.world.buffer
    return made


FAILURES: dict[str, Callable[[Threads], object]] = {
    "wakeup": lambda threads: threads.core.wakeup(),
    "network": lambda threads: threads.background.add(ErrorEvent(KafkaError())),
    "fetch": lambda threads: buffer(threads).failed(TP, KafkaError()),
    "record": lambda threads: (
        threads.make_reading(value_deserializer=refuse),
        buffer(threads).fetched(TP, 0),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("failure", FAILURES)
def test_a_call_that_raises_tells_that_the_application_polls(
    failure: str, way: Callable[[Threads], Any]
) -> None:
    """Each call does: a member that has left its group joins again, and positions are looked up."""
    if failure == "record" and way is Threads.poll_arrow:
        pytest.skip("poll_arrow() takes no deserializers")
    threads = Threads(0)
    polls = threads.core.engine.polls
    for _ in range(3):
        FAILURES[failure](threads)
        polls.event_needed, polls.polled_ms = True, -1
        with pytest.raises(KafkaError):
            way(threads)
        assert polls.polled_ms > 0
        event = threads.queue.take()
        assert isinstance(event, Poll)
        event.future.complete(None)
        assert threads.queue.take() is None
