"""Closes a share consumer: acknowledges, releases what was not handed out, and leaves."""

from __future__ import annotations

from collections.abc import Sequence

from tandem_kafka.consumer.closing import Closing, Hook
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.share.handing import Handing
from tandem_kafka.events.application import CommitAcknowledgements, Unsubscribe


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
