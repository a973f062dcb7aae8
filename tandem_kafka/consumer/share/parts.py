"""The parts between the public methods of a share consumer and its network thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tandem_kafka.config import Config
from tandem_kafka.consumer.closing import Closing, Hook
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.parts import Kind, Parts
from tandem_kafka.consumer.share.commits import ShareCommits
from tandem_kafka.consumer.share.handing import Handing
from tandem_kafka.consumer.share.options import How
from tandem_kafka.consumer.share.poller import SharePoller
from tandem_kafka.consumer.share.reading import ShareReading
from tandem_kafka.consumer.share.unpacking import Unpacker
from tandem_kafka.engine.share_event_processor import share_managers
from tandem_kafka.events.application import Acknowledge, CommitAcknowledgements, Unsubscribe
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.callers import Callers
from tandem_kafka.state.locked_records import LockedRecords

if TYPE_CHECKING:
    from tandem_kafka.consumer.health import Health


class ShareParts(Parts):
    """The parts of ``ShareConsumer`` and ``AsyncShareConsumer``."""

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        callers: Callers,
        how: How,
        transport: Any = None,
    ) -> None:
        self.records = records = LockedRecords(runtime.clock)
        records.renew_ms = how.renew_ms
        kind = Kind(share_managers(records), partial(_health, records=records))
        super().__init__(config, runtime, callers, transport, kind=kind)
        core, engine = self.core, self.core.engine
        records.notice = lambda: engine.queue.add(Acknowledge())
        unpacker = Unpacker(config, self.deserializers)
        self.handing = Handing(records, unpacker, implicit=how.implicit)
        self.poller = SharePoller(core, self.reporters, records, self.handing)
        self.reading = ShareReading(
            core, self.poller, self.handing, self.deserializers, implicit=how.implicit
        )
        self.commits = ShareCommits(core)
        self.closing = ShareClosing(core, self.hooks, self.handing)


def _health(core: Core, records: LockedRecords) -> Health:
    from tandem_kafka.consumer.share.health import share_health  # noqa: PLC0415 - few programs ask

    return share_health(core, records)


class ShareClosing(Closing):
    """Implements unsubscribe() and close()."""

    def __init__(self, core: Core, hooks: Sequence[Hook], handing: Handing) -> None:
        super().__init__(core, hooks)
        self._handing = handing

    async def unsubscribe(self) -> None:
        """End the subscription, and leave the group."""
        with self._collecting():
            deadline_ms = self._core.deadline_ms(None)
            await self._attempt(self._core.ask(Unsubscribe(deadline_ms=deadline_ms)))
            await self._leave(deadline_ms)

    async def close(self, *, timeout_ms: float | None, clean: bool) -> None:
        """Send all acknowledgements, release all other records, and leave the group.

        Args:
            timeout_ms: Time limit in milliseconds, never more than `request_timeout_ms`.
            clean: Whether the records that were handed out last were handled.
        """
        core = self._core

        async def phases(deadline_ms: int, alone: bool) -> None:
            if alone:
                if not clean:
                    self._handing.drop_last()
                self._handing.settle(core.clock.now_ms())
            commit = CommitAcknowledgements(deadline_ms=deadline_ms, closing=True)
            await self._attempt_commit(core.ask(commit))
            await self._leave(deadline_ms)

        await self._run(timeout_ms, phases)
