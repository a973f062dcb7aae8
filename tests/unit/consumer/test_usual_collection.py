"""The native `collect` returns what `FetchCollector.collect` does, and leaves the same behind."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import pytest

from tandem_kafka.consumer.reading.fetch_collector import FetchCollector, collect
from tandem_kafka.consumer.reading.opened_chunk import OpenedChunk
from tandem_kafka.consumer.reading.publication import Handed
from tandem_kafka.consumer.reading.records import ConsumerRecords
from tandem_kafka.runtime.native import native
from tandem_kafka.state.partition import AssignedPartition, Consumed, Position, Told
from tandem_kafka.types import TopicPartition
from tests.tier import seeds
from tests.unit.consumer.reading import A, B, C, Reading
from tests.unit.records.making import CONTROL, TRANSACTIONAL, Rec, batch

pytestmark = pytest.mark.skipif(native is None, reason="there is one implementation only")

Step = Callable[["Twin"], object]


class Twin(Reading):
    """A collector with one of the two functions."""

    def __init__(self, collects: Callable[..., Any], *partitions: TopicPartition) -> None:
        super().__init__(*partitions)
        self.collects = collects

    def read(self, limit: int, *, interrupted: bool) -> object:
        """Poll until there is nothing; return what came of each partition, and where it began."""
        if interrupted:
            self.collects(self.collector, limit)
        rows, starts, ends = dict[Any, list[Any]](), dict[Any, Any](), dict[Any, Any]()
        more = True
        while more:
            made = self.collects(self.collector, limit)
            self.collector.publication.done = True
            sizes = [max(1, len(r.value)) for rs in made.values() for r in rs]
            assert len(sizes) <= limit
            assert len(sizes) <= 1 or sum(sizes) <= self.collector.max_bytes
            for tp, rs in made.items():
                rows.setdefault(tp, []).extend((r.offset, r.value, r.leader_epoch) for r in rs)
            starts |= made.starts
            ends |= made.next_offsets
            more = bool(made or self.collector.moved)
        # What an interrupted call has skipped is told by none.
        return rows, starts, {} if interrupted else ends

    def facts(self) -> object:
        """What the next call begins with."""
        states = self.subscription.assigned.items()
        held = {tp: (self.position(tp), s.held_bytes, s.errors_taken) for tp, s in states}
        return held, self.buffer.held_bytes, self.collector.busy


class Drawn:
    """What happens to both, drawn with a seed.

    Invariant: with several partitions, none is paused or assigned anew: that ends a native call
    early, so that the two differ in how much one call returns.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        self.partitions = self.random.choice([(A,), (A, B), (A, B, C)])
        self.ends = dict.fromkeys(self.partitions, 0)

    def steps(self) -> Iterator[Step]:
        for _ in range(self.random.randint(5, 40)):
            yield self.random.choice([self._data] * 6 + [self._read] * 3 + [self._other])()
        yield lambda twin: twin.read(500, interrupted=False)

    def _read(self) -> Step:
        limit, interrupted = self.random.choice([1, 2, 5, 500]), self.random.random() < 0.3
        return lambda twin: twin.read(limit, interrupted=interrupted)

    def _data(self) -> Step:
        random, ends = self.random, self.ends
        tp, count = random.choice(self.partitions), random.choice([1, 1, 3, 8])
        offset, hidden = ends[tp], random.choice([0, 0, 0, 1])
        visible = random.choice([0, count, count]) if hidden else count
        records = [Rec(value=b"v" * random.choice([0, 1, 200])) for _ in range(visible)]
        marker = [Rec(key=b"\0\0\0\1", value=bytes(6))]
        found = batch(marker, offset, flags=CONTROL | TRANSACTIONAL) if hidden else b""
        if records:
            found += batch(records, offset + hidden, epoch=random.choice([3, 5]))
        ends[tp] += hidden + visible
        return lambda twin: twin.fetched(tp, offset, data=found) and None

    def _other(self) -> Step:
        at, size = self.ends[A], self.random.choice([1, 300, 1 << 26])

        def assign(twin: Twin) -> None:
            twin.subscription.assign_by_user([])
            twin.subscription.assign_by_user(self.partitions)
            twin.state(A).set_position(Position(at))

        def fetched_for_a_former_assignment(twin: Twin) -> None:
            former, base, chunk = AssignedPartition(A), Position(at), twin.fetched(A, at)
            former.set_position(base)
            former.told = Told(base, former.topic_id, twin.collector.publication, None)
            chunk.partition, chunk.base = former, base

        def told_of_another_base(twin: Twin) -> None:
            """The network thread has moved it, and the count of changes is not told yet."""
            state, call = twin.state(A), twin.collector.publication
            state.told = Told(Position(at), state.topic_id, call, None)

        others: list[Step] = [
            lambda twin: setattr(twin.buffer, "starved", not twin.buffer.starved),
            lambda twin: setattr(twin.collector, "max_bytes", size),
        ]
        if len(self.partitions) == 1:
            others += [
                assign,
                fetched_for_a_former_assignment,
                told_of_another_base,
                # What a fetch brings that a seek has overtaken.
                lambda twin: twin.fetched(A, at, base=Position(at)) and None,
                lambda twin: twin.state(A).set_position(Position(at)),
                lambda twin: setattr(twin.state(A), "paused", True),
                lambda twin: setattr(twin.state(A), "paused", False),
            ]
        return self.random.choice(others)


def reachable(*roots: object) -> Iterator[Any]:
    """Yield objects to which others refer, but no modules and types."""
    seen, waiting = set[int](), list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) not in seen and not isinstance(each, type | ModuleType | FunctionType):
            seen.add(id(each))
            yield each
            waiting += gc.get_referents(each)


def test_native_objects_have_all_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made without their constructors: a new field must be set there, too."""
    marker = batch([Rec(key=b"\0\0\0\1", value=bytes(6))], flags=CONTROL | TRANSACTIONAL)
    reading = Reading(A, B, C)
    reading.collect()  # tells where the partitions begin
    reading.collect()  # notes that all are told
    reading.fetched(A, 0)
    reading.fetched(B, 0, data=marker)
    reading.fetched(C, 0, 9)
    kinds = {OpenedChunk, Handed, Consumed, Position, ConsumerRecords}
    known = list(reachable(reading))
    for kind in kinds:
        monkeypatch.setattr(kind, "__init__", None)
    made = collect(reading.collector, 7)
    assert [len(records) for records in made.values()] == [3, 4]
    new = {id(each) for each in reachable(reading, made)} - set(map(id, known))
    found = [each for each in reachable(reading, made) if type(each) in kinds and id(each) in new]
    assert set(map(type, found)) == kinds
    for each in found:
        names = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
        assert [name for name in names if not hasattr(each, name)] == [], type(each)


@pytest.mark.parametrize("seed", seeds(300, 3_000))
def test_both_collect_the_same(seed: int) -> None:
    drawn = Drawn(seed)
    one, other = (Twin(each, *drawn.partitions) for each in (collect, FetchCollector.collect))
    for step in drawn.steps():
        assert step(one) == step(other)
        assert one.facts() == other.facts()
