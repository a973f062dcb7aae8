"""The shared state of a coordinator's parts: the present step, the log, settings and topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tandem_kafka_testing.coordinator.log import GroupLog
from tandem_kafka_testing.coordinator.settings import GroupSettings
from tandem_kafka_testing.coordinator.step import Step


class GroupContext:
    """The context of one group.

    Attributes:
        topics: Returns the number of partitions of each topic.
        settings: Settings of the operator; replaced by `GroupCoordinator.configure`.
        log: All records of the group; replaced when another coordinator takes over.
        step: The present step.
    """

    def __init__(
        self, topics: Callable[[], Mapping[str, int]], settings: GroupSettings | None = None
    ) -> None:
        self.topics = topics
        self.settings = settings if settings is not None else GroupSettings()
        self.log = GroupLog()
        self.step = Step()
