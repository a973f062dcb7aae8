"""Positions and offsets, requested from the network thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tandem_kafka.consumer.core import Core
from tandem_kafka.errors import KafkaTimeoutError, NotAssignedError, reason_of
from tandem_kafka.events.application import (
    CurrentLag,
    FetchCommitted,
    ListOffsets,
    Pause,
    ResetOffsets,
    Resume,
    Seek,
    StopAt,
    UpdatePositions,
)
from tandem_kafka.types import (
    NO_TOPIC_ID,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    OffsetOfTopic,
    TopicPartition,
    epoch_of,
    names_of,
)

Found = dict[TopicPartition, OffsetAndTimestamp | None]


class Positions:
    """Each method sends an event and waits for its result.

    A coroutine waits for a broker. The other methods wait for the network thread only.
    """

    def __init__(self, core: Core) -> None:
        self._core = core

    async def position(self, tp: TopicPartition, timeout_ms: float | None) -> OffsetAndMetadata:
        """Return the position, once there is a valid one."""
        deadline_ms = self._core.deadline_ms(timeout_ms)
        while True:
            state = self._core.engine.subscription.get(tp)
            valid = state.has_valid_position  # read before the position
            position = state.position
            if position is not None and valid:
                self._core.raise_if_woken()
                return OffsetAndMetadata(position.offset, "", position.leader_epoch)
            event = UpdatePositions(deadline_ms=deadline_ms, partition=tp)
            await self._core.ask(event, interruptible=True)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return committed offsets; None for a partition without one."""
        event = FetchCommitted(
            deadline_ms=self._core.deadline_ms(timeout_ms), partitions=frozenset(partitions)
        )
        found: dict[TopicPartition, OffsetAndMetadata | None]
        found = await self._core.ask(event, interruptible=True)
        return found

    def seek(self, tp: TopicPartition, offset: OffsetAndMetadata) -> None:
        """Continue at an offset."""
        event = Seek(
            deadline_ms=self._core.deadline_ms(None),
            partition=tp,
            offset=offset.offset,
            leader_epoch=epoch_of(offset),
            topic_id=offset.topic_id if isinstance(offset, OffsetOfTopic) else NO_TOPIC_ID,
        )
        self._core.ask_now(event)

    def stop_at(self, tp: TopicPartition, offset: int | None) -> None:
        """Stop fetching at an offset."""
        deadline_ms = self._core.deadline_ms(None)
        self._core.ask_now(StopAt(deadline_ms=deadline_ms, partition=tp, offset=offset))

    def reset(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Look up new positions when they are needed; without partitions, those of all."""
        chosen = frozenset(partitions) or frozenset(self._core.engine.subscription.assigned)
        if not chosen:
            msg = "no partitions are assigned; call assign(), or subscribe() and poll() first"
            raise NotAssignedError(msg)
        deadline_ms = self._core.deadline_ms(None)
        self._core.ask_now(
            ResetOffsets(deadline_ms=deadline_ms, partitions=chosen, timestamp=timestamp)
        )

    async def look_up(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> Found:
        """Look up offsets by timestamp.

        Raises:
            KafkaTimeoutError: The lookup did not finish in time.
        """
        if not timestamps:
            return {}
        if timeout_ms is None:
            # The default of kafka-python; the Java client only uses default.api.timeout.ms.
            config = self._core.config
            timeout_ms = min(config.request_timeout_ms, config.default_api_timeout_ms)
        deadline_ms = self._core.deadline_ms(timeout_ms)
        try:
            return await self._core.ask(
                ListOffsets(deadline_ms=deadline_ms, timestamps=dict(timestamps))
            )
        except KafkaTimeoutError as error:
            names, reason = names_of(timestamps), reason_of(error)
            msg = f"Failed to get offsets by times in {timeout_ms} ms for {names}: {reason}"
            raise KafkaTimeoutError(msg) from error

    def lag(self, tp: TopicPartition) -> int | None:
        """Return the lag, or None while the end of the partition is unknown."""
        event = CurrentLag(deadline_ms=self._core.deadline_ms(None), partition=tp)
        return self._core.ask_now(event)

    def pause(self, partitions: Iterable[TopicPartition], *, by_workers: bool = False) -> None:
        """Stop returning records of these partitions."""
        self._change(Pause, partitions, by_workers)

    def resume(self, partitions: Iterable[TopicPartition], *, by_workers: bool = False) -> None:
        """Return records of these partitions again, unless others have paused them."""
        self._change(Resume, partitions, by_workers)

    def _change(
        self,
        kind: type[Pause | Resume],
        partitions: Iterable[TopicPartition],
        by_workers: bool,
    ) -> None:
        deadline_ms, chosen = self._core.deadline_ms(None), frozenset(partitions)
        self._core.ask_now(kind(deadline_ms=deadline_ms, partitions=chosen, by_workers=by_workers))
