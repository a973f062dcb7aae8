"""The consumers of a worker process: one for each configuration, kept between tasks.

A worker runs one task at a time, for any partition and any query. Connecting is expensive, so a
consumer is parked after its range. A parked consumer sends nothing, because it has nothing to
fetch. No consumer exists before the first task, and none survives a fork.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from tandem_kafka import KafkaConsumer
from tandem_kafka.config import sealed
from tandem_kafka.errors import KafkaError
from tandem_kafka.logs import client_logger
from tandem_kafka.runtime import Runtime

log = client_logger(__name__)

#: The value of Spark's own connector.
IDLE_MS: Final = 5 * 60_000

#: The digest of a consumer's options: a local variable with it shows no password.
Key = bytes


@dataclass(slots=True)
class _Parked:
    consumer: KafkaConsumer
    since_ms: int


@dataclass(slots=True)
class ConsumerCache:
    """Lends consumers. A thread closes idle ones, and ends when none is left."""

    idle_ms: int = IDLE_MS
    _pid: int = 0
    _runtime: Runtime | None = None
    _closing: bool = False
    _frozen: bool = False
    _parked: dict[Key, _Parked] = field(default_factory=dict)

    @contextmanager
    def lend(self, options: Mapping[str, Any]) -> Iterator[KafkaConsumer]:
        """Lend a consumer with these options; it is parked again only if the task succeeded."""
        self._notice_fork()
        options = sealed(options)
        key = sha256(repr(sorted(options.items())).encode()).digest()
        kept = self._parked.pop(key, None)
        consumer = KafkaConsumer(**options) if kept is None else kept.consumer
        try:
            yield consumer
        except BaseException:
            _close(consumer)
            raise
        self._freeze_objects()  # first: it takes part of a second, in which nothing is idle yet
        self._park(key, consumer)

    def __len__(self) -> int:
        return len(self._parked)

    def _notice_fork(self) -> None:
        """Drop the parent process's consumers: their threads do not exist in a fork."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._parked = {}
            self._closing = False
            self._runtime = Runtime.threaded()
            self._frozen = False

    def _park(self, key: Key, consumer: KafkaConsumer) -> None:
        runtime = self._runtime
        assert runtime is not None  # noqa: S101 - lend() has made it
        other = self._parked.pop(key, None)
        self._parked[key] = _Parked(consumer, runtime.clock.now_ms())
        if other is not None:
            _close(other.consumer)
        if not self._closing:
            self._closing = True
            runtime.driver.offload(lambda: self._close_idle(runtime), lambda _: None)

    def _freeze_objects(self) -> None:
        """Exclude the objects of the first task (modules, a consumer) from garbage collection.

        Spark's worker runs the collector after each task. Without this, it scans every imported
        module, which takes longer than reading a small range.
        """
        if not self._frozen:
            self._frozen = True
            gc.collect()
            gc.freeze()

    def _close_idle(self, runtime: Runtime) -> None:
        """Run on a separate thread. No lock is needed: the thread that pops an entry owns it."""
        while self._parked:
            now_ms = runtime.clock.now_ms()
            for key, entry in tuple(self._parked.items()):
                if now_ms - entry.since_ms >= self.idle_ms:
                    self._retire(key, entry)
            runtime.driver.wait(lambda: False, now_ms + max(1, self.idle_ms // 4))
        self._closing = False

    def _retire(self, key: Key, entry: _Parked) -> None:
        taken = self._parked.pop(key, None)
        if taken is entry:
            _close(entry.consumer)
        elif taken is not None:
            # It was lent and parked again in the meantime.
            self._parked.setdefault(key, taken)


def _close(consumer: KafkaConsumer) -> None:
    try:
        consumer.close(autocommit=False, timeout_ms=1_000)
    except KafkaError as error:
        log.info("closing an idle consumer failed: %s", error)


#: The consumers of this process.
cache = ConsumerCache()
