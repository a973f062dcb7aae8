"""Positions and offsets as the application thread asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tandem_kafka.consumer.core import Core
from tandem_kafka.errors import KafkaTimeoutError, NotAssignedError
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
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
    epoch_of,
    named,
)

__all__ = ["Positions"]

Found = dict[TopicPartition, OffsetAndTimestamp | None]


class Positions:
    """Each method sends an event and waits for its result."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def position(self, tp: TopicPartition, timeout_ms: float | None) -> OffsetAndMetadata:
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
            self._core.ask(event, interruptible=True)

    def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return committed offsets; None where there is none."""
        event = FetchCommitted(
            deadline_ms=self._core.deadline_ms(timeout_ms), partitions=frozenset(partitions)
        )
        found: dict[TopicPartition, OffsetAndMetadata | None]
        found = self._core.ask(event, interruptible=True)
        return found

    def seek(self, tp: TopicPartition, offset: OffsetAndMetadata) -> None:
        """Go on at an offset."""
        event = Seek(
            deadline_ms=self._core.deadline_ms(None),
            partition=tp,
            offset=offset.offset,
            leader_epoch=epoch_of(offset),
        )
        self._core.ask(event)

    def stop_at(self, tp: TopicPartition, offset: int | None) -> None:
        """Fetch nothing from an offset on."""
        deadline_ms = self._core.deadline_ms(None)
        self._core.ask(StopAt(deadline_ms=deadline_ms, partition=tp, offset=offset))

    def reset(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """Look positions up anew when they are needed; no partitions means all."""
        chosen = frozenset(partitions) or frozenset(self._core.engine.subscription.assigned)
        if not chosen:
            msg = "No partitions are currently assigned"
            raise NotAssignedError(msg)
        deadline_ms = self._core.deadline_ms(None)
        self._core.ask(
            ResetOffsets(deadline_ms=deadline_ms, partitions=chosen, timestamp=timestamp)
        )

    def look_up(self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None) -> Found:
        """Look offsets up by timestamp.

        Raises:
            KafkaTimeoutError: They were not found in time.
        """
        if not timestamps:
            return {}
        if timeout_ms is None:
            # As kafka-python waits; Java's client has default.api.timeout.ms alone.
            config = self._core.config
            timeout_ms = min(config.request_timeout_ms, config.default_api_timeout_ms)
        deadline_ms = self._core.deadline_ms(timeout_ms)
        try:
            found: Found = self._core.ask(
                ListOffsets(deadline_ms=deadline_ms, timestamps=dict(timestamps))
            )
        except KafkaTimeoutError as error:
            msg = f"Failed to get offsets by times in {timeout_ms} ms for {named(timestamps)}"
            raise KafkaTimeoutError(msg) from error
        return found

    def lag(self, tp: TopicPartition) -> int | None:
        """Return the lag, None while the end of the partition is not known."""
        event = CurrentLag(deadline_ms=self._core.deadline_ms(None), partition=tp)
        lag: int | None = self._core.ask(event)
        return lag

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out nothing of these."""
        deadline_ms = self._core.deadline_ms(None)
        self._core.ask(Pause(deadline_ms=deadline_ms, partitions=frozenset(partitions)))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Hand out records of these again."""
        deadline_ms = self._core.deadline_ms(None)
        self._core.ask(Resume(deadline_ms=deadline_ms, partitions=frozenset(partitions)))
