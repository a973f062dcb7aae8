"""Random calls of a consumer, beside a small model of what it promises.

The model knows for each assigned partition which record must come next, and which offsets may be
committed: those behind what the application has, and those that it has named itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tandem_kafka import KafkaConsumer
from tandem_kafka.runtime import Random
from tandem_kafka.types import TopicPartition as Key
from tandem_kafka.wire.messages import OffsetCommitRequest
from tandem_kafka_testing import Call, Simulation
from tests.unit.confluent.simulated import simulated

__all__ = ["Model", "Pressed"]

_TPS = [Key("t", number) for number in range(3)]
_DENIED = KafkaError.GROUP_AUTHORIZATION_FAILED
_REBALANCING = (
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.STALE_MEMBER_EPOCH,
)
_MODES: dict[str, dict[str, Any]] = {
    "assigned": {},
    "range": {"partition__assignment__strategy": "range", "heartbeat__interval__ms": 300},
    "cooperative": {
        "partition__assignment__strategy": "cooperative-sticky",
        "heartbeat__interval__ms": 300,
    },
    "consumer": {"group__protocol": "consumer"},
}


class Pressed(BaseException):
    """Stands for Ctrl-C."""


class Expected:
    """What is expected of one assigned partition.

    Attributes:
        next: The offset of the next record, or the offsets that it may have.
        position: The offset after the last record that the application has.
        stored: The offset that a commit without arguments commits.
        reported: The end that was reported.
    """

    def __init__(self, *begin: int) -> None:
        self.next = set(begin)
        self.position = OFFSET_INVALID
        self.stored: int | None = None
        self.paused = False
        self.reported: int | None = None


class Model:
    """One run: a consumer, its model, and the calls."""

    def __init__(self, simulation: Simulation, mode: str) -> None:
        self.simulation = simulation
        self.random: Random = simulation.random
        self.mode = mode
        self.ends = self._chance(0.5)
        self.automatic = self._chance(0.5)
        self.storing = self._chance(0.6)
        self._refusing = False
        self._raise: type[BaseException] | None = None
        self._said: list[str] = []
        simulation.cluster.create_topic("t", len(_TPS))
        self.parts: dict[Key, Expected] = {}
        self.committable: dict[Key, set[int | None]] = {tp: {None} for tp in _TPS}
        self.others: list[KafkaConsumer[Any, Any]] = []
        self.acknowledged: list[KafkaError | None] = []
        self.consumer = simulated(
            simulation,
            enable__partition__eof=self.ends,
            enable__auto__commit=self.automatic,
            enable__auto__offset__store=self.storing,
            auto__commit__interval__ms=300,
            statistics__interval__ms=200,
            stats_cb=self._interrupt,
            on_commit=lambda error, _: self.acknowledged.append(error),
            fetch__wait__max__ms=50,
            **_MODES[mode],
        )
        if mode != "assigned":
            self.subscribe()
        self.produce()

    def run(self, steps: int) -> None:
        """Make random calls, check each, and check at last that nothing is missing."""
        for _ in range(steps):
            self.step()
        self.finish()

    def step(self) -> None:
        """Make one random call."""
        calls: list[Callable[[], None]] = [self.poll] * 4 + [self.consume] * 4
        calls += [self.seek, self.pause, self.pause, self.resume, self.resume, self.produce]
        calls += [self.commit, self.commit_async, self.commit_and_fail, self.store, self.sleep]
        calls += [self.commit_chosen]
        calls += (
            [self.assign, self.add, self.remove] if self.mode == "assigned" else [self.rebalance]
        )
        call = self.random.choice(calls)
        self._said.append(call.__name__)
        try:
            call()
            self.check()
        except AssertionError as error:
            error.add_note(f"{self.mode}, {self._said[-30:]}")
            raise

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _some(self, tps: Any) -> list[Key]:
        return [tp for tp in sorted(tps) if self._chance(0.5)]

    def _end(self, tp: Key) -> int:
        return self.simulation.cluster.at(tp).log.end_offset

    def _committed(self, tp: Key) -> int | None:
        return self.simulation.cluster.committed("g", tp)

    # --- reading -------------------------------------------------------------------------------

    def poll(self) -> None:
        """Poll some times."""
        for _ in range(self.random.randrange(1, 8)):
            message = self.consumer.poll(self.random.choice([0, 0.02, 0.3]))
            if message is not None:
                self._take(message)

    def consume(self) -> None:
        """Consume a list; sometimes an exception ends the call."""
        self._raise = self.random.choice([None, None, ValueError, Pressed])
        with suppress(ValueError, Pressed):
            for message in self.consumer.consume(self.random.choice([1, 5, 200]), 0.4):
                self._take(message)
        self._raise = None
        with suppress(ValueError):  # if the list was returned first
            message = self.consumer.poll(0)
            if message is not None:
                self._take(message)

    def _interrupt(self, _: str) -> None:
        if self._raise is not None and self._chance(0.5):
            raise self._raise

    def _take(self, message: Any) -> None:
        tp, offset = Key(message.topic(), message.partition()), message.offset()
        part = self.parts.get(tp)
        assert part is not None, f"{tp} is not assigned"
        assert not part.paused, f"{tp} is paused"
        assert offset in part.next, f"{tp}: {offset} came, expected {part.next}"
        if message.error() is not None:
            assert message.error() == KafkaError._PARTITION_EOF
            assert self.ends, "nobody has asked for ends"
            assert offset != part.reported, f"{tp}: the end {offset} was reported before"
            part.reported = offset
            part.next = {offset}
            return
        assert message.value() == b"%d" % offset
        part.next, part.position = {offset + 1}, offset + 1
        if self.storing:
            self._store(tp, offset + 1)

    def _store(self, tp: Key, offset: int) -> None:
        self.parts[tp].stored = offset
        self.committable[tp].add(offset)

    # --- calls ---------------------------------------------------------------------------------

    def produce(self) -> None:
        """Write records whose values are their offsets."""
        for tp in self._some(_TPS):
            end = self._end(tp)
            values = [b"%d" % (end + n) for n in range(self.random.choice([1, 3, 40]))]
            self.simulation.cluster.produce(tp, *values)

    def sleep(self) -> None:
        """Let time pass."""
        self.simulation.sleep(self.random.choice([10, 150, 700]))

    def seek(self) -> None:
        """Seek one partition."""
        for tp in self._some(self.parts)[:1]:
            end = self._end(tp)
            target = self.random.choice([OFFSET_BEGINNING, OFFSET_END, self.random.randint(0, end)])
            self.consumer.seek(TopicPartition(*tp, target))
            part = self.parts[tp]
            part.position, part.reported = OFFSET_INVALID, None
            # The end is looked up later, when more may have been written.
            later = range(end, end + 1_000)
            part.next = {OFFSET_BEGINNING: {0}, OFFSET_END: set(later)}.get(target, {target})

    def pause(self) -> None:
        """Pause some partitions."""
        for tp in self._some(self.parts):
            self.consumer.pause([TopicPartition(*tp)])
            self.parts[tp].paused = True

    def resume(self) -> None:
        """Resume some partitions."""
        for tp in self._some(self.parts):
            self.consumer.resume([TopicPartition(*tp)])
            self.parts[tp].paused = False

    def store(self) -> None:
        """Store an offset."""
        for tp in self._some(self.parts):
            offset = self.random.randint(0, self._end(tp))
            partition = TopicPartition(*tp, offset)
            try:
                self.consumer.store_offsets(offsets=[partition])
            except KafkaException:
                assert self.storing
            else:
                assert not self.storing
                self._store(tp, offset)

    def commit(self) -> None:
        """Commit what is stored."""
        stored = self._stored()
        allowed = [KafkaError._NO_OFFSET, *(_REBALANCING if self.mode != "assigned" else ())]
        code = None
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            code = error.args[0].code()
        assert code is None or code in allowed, code
        if code in (None, KafkaError._NO_OFFSET):
            self.simulation.sleep(200)  # until those on their way have arrived
            self._check_committed(stored)

    def _stored(self) -> dict[Key, int]:
        return {tp: part.stored for tp, part in self.parts.items() if part.stored is not None}

    def _check_committed(self, stored: dict[Key, int]) -> None:
        for tp, offset in stored.items():
            found = self._committed(tp)
            assert found == offset, f"{tp}: {found} is committed, {offset} was stored"

    def commit_async(self) -> None:
        """Commit what is stored, and wait for nothing."""
        self.consumer.commit()

    def commit_and_fail(self) -> None:
        """Commit what is stored; the brokers refuse it."""
        self._refusing = True
        self.acknowledged.clear()
        self.simulation.cluster.script(OffsetCommitRequest, self._refuse)
        self.consumer.commit()
        while not self.acknowledged:
            message = self.consumer.poll(0.05)
            if message is not None:
                self._take(message)
        self._refusing = False

    def _refuse(self, call: Call) -> Any:
        """Respond with an error, and commit nothing; this runs on the network thread."""
        kept = self.simulation.cluster.coordination.of("g").offsets.committed
        before = dict(kept)
        answer = call.default()
        if self._refusing:
            kept.clear()
            kept.update(before)
            for topic in answer.topics:
                for entry in topic.partitions:
                    entry.error_code = _DENIED
        return answer

    def commit_chosen(self) -> None:
        """Commit an offset by name."""
        for tp in self._some(self.parts)[:1]:
            offset = self.random.randint(0, self._end(tp))
            self.committable[tp].add(offset)
            with suppress(KafkaException):
                self.consumer.commit(
                    offsets=[TopicPartition(*tp, offset)], asynchronous=self._chance(0.5)
                )

    # --- the assignment ------------------------------------------------------------------------

    def assign(self) -> None:
        """Assign other partitions by hand."""
        chosen = {tp: self.random.randint(0, self._end(tp)) for tp in self._some(_TPS)}
        self.consumer.assign([TopicPartition(*tp, offset) for tp, offset in chosen.items()])
        self.parts = {tp: Expected(offset) for tp, offset in chosen.items()}

    def add(self) -> None:
        """Assign one partition more."""
        for tp in self._some(set(_TPS) - set(self.parts))[:1]:
            offset = self.random.randint(0, self._end(tp))
            self.consumer.incremental_assign([TopicPartition(*tp, offset)])
            self.parts[tp] = Expected(offset)

    def remove(self) -> None:
        """Give one partition up."""
        for tp in self._some(self.parts)[:1]:
            self.consumer.incremental_unassign([TopicPartition(*tp)])
            del self.parts[tp]

    def subscribe(self) -> None:
        """Join the group."""
        self.consumer.subscribe(
            ["t"], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _assigned(self, _: Any, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            tp = Key(each.topic, each.partition)
            assert tp not in self.parts, f"{tp} is assigned twice"
            self.parts[tp] = Expected(self._committed(tp) or 0)

    def _revoked(self, _: Any, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            del self.parts[Key(each.topic, each.partition)]

    def rebalance(self) -> None:
        """Let another member join or leave."""
        if self.others:
            self.others.pop().close()
        else:
            ours = self.consumer._kafka.config
            names = ("group_protocol", "partition_assignment_strategy")
            other = self.simulation.consumer(
                "t", group_id="g", enable_auto_commit=False, **{name: ours[name] for name in names}
            )
            self.others.append(other)
        for _ in range(self.random.randrange(30)):
            for other in self.others:
                other.poll(20)
            message = self.consumer.poll(0.02)
            if message is not None:
                self._take(message)

    # --- checks --------------------------------------------------------------------------------

    def check(self) -> None:
        """Check positions, and that nothing is committed that the application does not have."""
        found = self.consumer.position([TopicPartition(*tp) for tp in self.parts])
        for part, position in zip(self.parts.values(), found, strict=True):
            assert position.offset == part.position, f"{position}: expected {part.position}"
        for tp in _TPS:
            committed = self._committed(tp)
            allowed = self.committable[tp]
            assert committed in allowed, f"{tp}: {committed} is committed, not of {allowed}"

    def finish(self) -> None:
        """Read everything; check that all came, with each end, and was committed at last."""
        while self.others:
            self.others.pop().close()
        quiet = 0
        while quiet < 10 or (self.mode != "assigned" and len(self.parts) < len(_TPS)):
            for tp in list(self.parts):
                self.parts[tp].paused = False
                self.consumer.resume([TopicPartition(*tp)])
            message = self.consumer.poll(0.2)
            if message is not None:
                self._take(message)
            quiet = 0 if message is not None else quiet + 1
            assert quiet < 100, "the group does not settle"
        for tp, part in self.parts.items():
            end = self._end(tp)
            assert end in part.next, f"{tp}: {part.next} did not come, the end is {end}"
            if self.ends:
                assert part.reported == end, f"{tp}: the end was not reported after the last seek"
        self.check()
        stored = self._stored()
        self.consumer.close()
        if self.automatic:
            self._check_committed(stored)
