"""A standing fetch, what brokers respond to it, and what Python would send in its place."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tandem_kafka.request_managers.fetching.fetch_request_manager import FetchRequestManager
from tandem_kafka.request_managers.fetching.session import MAX_EPOCH, FetchSession, FetchTarget
from tandem_kafka.request_managers.fetching.sizing import FetchSizing
from tandem_kafka.request_managers.fetching.standing import GrantedTarget
from tandem_kafka.runtime import Random
from tandem_kafka.runtime.native import native
from tandem_kafka.state.fetch_buffer import FetchBuffer
from tandem_kafka.state.partition import AssignedPartition, Position
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.framing import encode_nullable, frame_request
from tandem_kafka.wire.messages import FetchResponse
from tests.unit.records.making import Rec, batch

LIMIT = 1 << 22
ROOM = 1 << 26
NO_STOP = 2**63 - 1
WAIT_MS = 500

_TOPIC = FetchResponse.FetchableTopicResponse
_PARTITION = _TOPIC.PartitionData


@dataclass
class Answer:
    """What a response says about one partition."""

    tp: TopicPartition
    records: bytes
    end: int
    high_watermark: int
    error: int = 0
    replica: int = -1
    leader: bool = False
    diverging: bool = False
    #: How many records are in open transactions.
    open: int = 1

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark - self.open


class World:
    """A standing fetch, and the session and the sizes in Python."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.version = random.randrange(7, 19)
        self.read_committed = random.random() < 0.5
        self.session_id = random.randrange(1, 2**31)
        self.correlation_id = random.randrange(2**31)
        self.client_id = random.choice([None, "reader", "é" * 40])
        self.rack = random.choice(["", "b"])
        self.buffer = FetchBuffer(ROOM)
        self.sizing = FetchSizing(LIMIT)
        self.ids = {f"topic-{n}": UUID(int=random.getrandbits(128) | 1) for n in range(3)}
        names = [random.choice(sorted(self.ids)) for _ in range(random.randrange(1, 7))]
        self.states = {
            tp: self.state(tp) for tp in (TopicPartition(t, n) for n, t in enumerate(names))
        }
        self.asked = {tp: self.sizing.bytes_for(state) for tp, state in self.states.items()}
        self.epochs = dict.fromkeys(self.states, 5)
        self.session = self.opened()
        self.sent_records: dict[TopicPartition, list[int]] = {tp: [] for tp in self.states}
        self.stop_at = dict.fromkeys(self.states, NO_STOP)
        # The limits; most histories meet one.
        self.limit = random.choice([ROOM, 3_000_000])
        self.room = random.choice([ROOM, 12_000_000])
        self.lasts_ms = random.choice([60_000, 1_000])
        #: What fetches on other connections may bring.
        self.buffer.queue.reserve(random.choice([0, 5_000_000]))

    def lift_limits(self) -> None:
        self.limit = self.room = ROOM
        self.lasts_ms = 60_000

    def state(self, tp: TopicPartition) -> AssignedPartition:
        state = AssignedPartition(tp)
        state.set_position(Position(self.random.randrange(10**9)))
        state.high_watermark = state.read_ahead
        return state

    def opened(self) -> FetchSession:
        """A session whose first incremental request is in flight."""
        session = FetchSession(incremental=True)
        for tp in self.states:
            session.include(tp, self.target(tp))
        session.build()
        session.handle_response(self.session_id, 0)
        if self.random.random() < 0.2:
            session._epoch = MAX_EPOCH - self.random.randrange(3)
        session.build()
        return session

    def release(self) -> None:
        """The application has taken everything."""
        for state in self.states.values():
            state.released_bytes = state.buffered_bytes
        self.buffer.queue.released_bytes = self.buffer.added_bytes

    def target(self, tp: TopicPartition) -> FetchTarget:
        offset, epoch = self.states[tp].read_ahead, self.epochs[tp]
        return FetchTarget(self.ids[tp.topic], offset, epoch, self.asked[tp])

    def change(self) -> None:
        """Python seeks, pauses or follows a new leader epoch, and sends the next fetch itself."""
        random = self.random
        for offsets in self.sent_records.values():
            offsets.clear()
        self.release()
        for tp in [tp for tp in self.states if random.random() < 0.5]:
            kind = random.choice(["seek", "pause", "epoch"])
            if kind == "seek":
                self.states[tp].set_position(Position(random.randrange(10**9)))
                self.states[tp].high_watermark = self.states[tp].read_ahead
            elif kind == "epoch":
                self.epochs[tp] += 1
            if kind != "pause":
                self.session.include(tp, self.target(tp))
            elif len(self.states) > 1:
                self.session.exclude(tp)
                del self.states[tp]
        assert self.session.handle_response(self.session_id, 0)
        self.session.build()

    def start(self) -> Any:
        assert native is not None
        return native.StandingFetch(
            queue=self.buffer.queue,
            notifier=native.Notifier(),
            version=self.version,
            correlation_id=self.correlation_id,
            client_id=self.client_id,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=LIMIT,
            read_committed=self.read_committed,
            session_id=self.session_id,
            session_epoch=self.session.epoch,
            rack=self.rack,
            targets=[
                GrantedTarget(
                    state=state,
                    base=state.base,
                    topic=tp.topic,
                    topic_id=self.ids[tp.topic].bytes,
                    partition=tp.partition,
                    leader_epoch=self.epochs[tp],
                    offset=state.read_ahead,
                    max_bytes=self.asked[tp],
                    stop_at=self.stop_at[tp],
                    limit=self.limit,
                    progress=state,
                )
                for tp, state in self.states.items()
            ],
            smallest_bytes=self.sizing.first,
            largest_bytes=self.sizing.limit,
            room=self.room,
            lasts_ms=self.lasts_ms,
            reports=False,
        )

    # --- responses -----------------------------------------------------------------------------

    def answer(self, tp: TopicPartition) -> Answer:
        """New records, or only a new high watermark."""
        random, begin = self.random, self.states[tp].read_ahead
        if random.random() < 0.2:
            return Answer(tp, b"", begin, begin + random.randrange(3))
        data, at = b"", begin - random.choice([0, 0, 1]) if begin else 0
        for _ in range(random.randrange(1, 4)):
            count, size = random.randrange(1, 4), random.choice([5, 5, 2_000, 600_000])
            count += 1 if at < begin else 0
            data += batch([Rec(value=b"v" * size)] * count, at, epoch=5)
            self.sent_records[tp] += range(max(at, begin), at + count)
            end = at + count
            at = end + random.choice([0, 0, 7])  # compaction leaves gaps
        if random.random() < 0.3:
            data += batch([Rec(value=b"cut")], at)[:-2]  # truncated by the broker
        return Answer(tp, data, end, end + random.randrange(3), open=random.randrange(2))

    def answers(self) -> list[Answer]:
        tps = [tp for tp in self.states if self.random.random() < 0.6]
        self.random.shuffle(tps)
        tps.sort(key=lambda tp: tp.topic)  # a response names a topic once
        return [self.answer(tp) for tp in tps]

    def frame(self, answers: list[Answer], **changes: Any) -> bytes:
        topics: dict[str, list[Any]] = {}
        for each in answers:
            topics.setdefault(each.tp.topic, []).append(self.entry(each))
        response = FetchResponse(
            throttle_time_ms=changes.get("throttle_time_ms", 0),
            error_code=changes.get("error_code", 0),
            session_id=changes.get("session_id", self.session_id),
            responses=[
                _TOPIC(topic=name, topic_id=self.ids[name], partitions=entries)
                for name, entries in topics.items()
            ],
        )
        tags = b"\0" if self.version >= 12 else b""
        body: bytes = response.encode(version=self.version)
        return self.correlation_id.to_bytes(4, "big") + tags + body

    def entry(self, answer: Answer) -> Any:
        entry = _PARTITION(
            partition_index=answer.tp.partition,
            error_code=answer.error,
            high_watermark=answer.high_watermark,
            last_stable_offset=answer.last_stable_offset,
            log_start_offset=3,
            aborted_transactions=None,
            preferred_read_replica=answer.replica,
            records=answer.records,
        )
        tags = set()
        if answer.leader:
            entry.current_leader = _PARTITION.LeaderIdAndEpoch(leader_id=2, leader_epoch=6)
            tags.add("current_leader")
        if answer.diverging:
            entry.diverging_epoch = _PARTITION.EpochEndOffset(epoch=4, end_offset=1)
            tags.add("diverging_epoch")
        if tags:
            entry.tags = tags
        return entry

    # --- the Python implementation ---------------------------------------------------------------

    def next_request(self, answers: list[Answer], took_ms: int = 1) -> bytes:
        """What Python sends after a usual response."""
        assert self.session.handle_response(self.session_id, 0)
        for each in answers:
            if not each.records:
                continue
            state = self.states[each.tp]
            self.sizing.learn(state, self.asked[each.tp], len(each.records), took_ms)
            self.asked[each.tp] = self.sizing.bytes_for(state)
            # The standing fetch has moved the read-ahead before.
            assert state.read_ahead == each.end
            self.session.include(each.tp, self.target(each.tp))
        config = SimpleNamespace(fetch_min_bytes=1, fetch_max_bytes=LIMIT, client_rack=self.rack)
        manager: Any = SimpleNamespace(
            _context=SimpleNamespace(config=config, read_committed=self.read_committed)
        )
        sent = FetchRequestManager._message(manager, self.session.build(), WAIT_MS)
        client_id = encode_nullable(self.client_id)
        return frame_request(sent, self.version, self.correlation_id, client_id)

    def taken(self) -> dict[TopicPartition, list[int]]:
        """The offsets in the queue, in its order."""
        taken: dict[TopicPartition, list[int]] = {tp: [] for tp in self.sent_records}
        while (chunk := self.buffer.queue.take()) is not None:
            assert chunk.reader is not None
            records = chunk.reader.take(1_000_000)
            taken[chunk.partition.tp] += [record.offset for record in records]
        return taken
