"""A share group in a run: its topic, its members, and the check of its ledger."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.outages.streaming import Stream
from tandem_kafka import ShareConsumer
from tandem_kafka_testing.kafka import RealKafka
from tests.chaos.members import ShareProcess
from tests.chaos.share_member import KINDS, Reporter
from tests.histories.members import FILLER
from tests.histories.share_events import LOCK_MS, Event
from tests.histories.share_ledger import LIMIT, ShareLedger

__all__ = ["SHARE", "SHARE_PROPERTIES", "Sharing"]

#: What the group is called among the protocols.
SHARE: Final = "share"

#: Members that were killed give their partitions away soon.
SHARE_PROPERTIES: Final[Mapping[str, str]] = {
    "group.share.min.session.timeout.ms": "6000",
    "group.share.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
}

_PARTITIONS: Final = 3
_PAUSE_S: Final = 0.05
_PATIENCE_S: Final = 150.0
#: How many records the group does in a second at least, once no handler is slow.
_PACE: Final = 20.0


class Sharing:
    """One share group.

    Args:
        cluster: The brokers.
        name: The name of the group and of its topic.
        first_kind: The number of the kind of the first member.
    """

    def __init__(self, cluster: RealKafka, name: str, first_kind: int) -> None:
        self._cluster = cluster
        self._name = name
        self._first_kind = first_kind
        self.ledger = ShareLedger(_PARTITIONS)
        self._stream: Stream | None = None

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Create the topic and the group, and produce."""
        self._cluster.admin.create_topic(self._name, _PARTITIONS, replicas=3)
        settings = {
            "share.auto.offset.reset": "earliest",
            "share.record.lock.duration.ms": str(LOCK_MS),
            "share.delivery.count.limit": str(LIMIT),
        }
        self._cluster.admin.configure_group(self._name, settings)
        servers, padding = self._cluster.bootstrap(), FILLER * 1_000
        with Stream(
            servers, self._name, _PARTITIONS, pause_s=_PAUSE_S, padding=padding
        ) as self._stream:
            yield

    def start(self, bootstrap: str) -> ShareProcess:
        """Start a member; the kinds take turns."""
        kinds, number = tuple(KINDS), len(self.ledger.members)
        kind = kinds[(number + self._first_kind) % len(kinds)]
        member = ShareProcess(f"{SHARE} {kind} {number + 1}", SHARE, [kind, bootstrap, self._name])
        self.ledger.members.append(member)
        return member

    def check(self) -> None:
        """Check what the members have reported so far."""
        found = self.ledger.anomalies()
        if found:
            path = Path(tempfile.mkdtemp("chaos")) / f"{SHARE}.jsonl"
            path.write_text(self.ledger.lines(), encoding="utf-8")
            raise AssertionError(f"{len(found)} anomalies in {path}, the first: {found[0]}")

    def wait_until_done(self) -> None:
        """Wait until all records are done, as the members know it.

        Slow members may have a backlog when the faults end.
        """
        assert self._stream is not None
        sent, begin = self._stream.sent, time.monotonic()
        patience_s = _PATIENCE_S + len(self.ledger.undone(sent)) / _PACE
        while undone := self.ledger.undone(sent):
            now = time.monotonic()
            assert now < begin + patience_s, (
                f"{len(undone):,} records are not done {patience_s:.0f} s after the faults: "
                f"{self.ledger.backlog(undone, now)}"
            )
            time.sleep(0.2)

    def conclude(self) -> None:
        """Check after all members have ended that the brokers have no record left.

        What comes again is what brokers have not stored.
        """
        reader = _Reader()
        self.ledger.members.append(reader)
        with ShareConsumer(
            self._name, group_id=self._name, bootstrap_servers=self._cluster.bootstrap()
        ) as consumer:
            quiet_since = time.monotonic()
            while time.monotonic() < quiet_since + 1.5 * LOCK_MS / 1_000:
                if reader.take(consumer):
                    quiet_since = time.monotonic()
        self.check()


class _Reader(Reporter):
    """The last member, in this process."""

    name = "the last member"

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []

    def write(self, event: Event) -> None:
        self.events.append(event)

    def take(self, consumer: ShareConsumer[Any, Any]) -> bool:
        """Poll once, and report; return whether there were records."""
        records = self.read(lambda: consumer.poll(200))
        self.acknowledging("accept", records)
        return bool(records)
