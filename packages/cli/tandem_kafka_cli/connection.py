"""A cluster that a command talks to: its options, and the clients that are made of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tandem_kafka.logs import ClientNames, LinesOf
from tandem_kafka.types import TopicPartition
from tandem_kafka_cli.environment import Environment
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.settings.layers import Flags, resolved

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer
    from tandem_kafka.types import ClusterSnapshot, TopicInfo
    from tandem_kafka_cli.administration import Administration


class Connection:
    """The connection that flags, the environment and files describe.

    Attributes:
        environment: Makes the clients.
        group_id: `group.id` of the settings, the default of `-g`; None without one.
    """

    def __init__(self, flags: Flags, environment: Environment) -> None:
        self.environment = environment
        self._flags = flags

    @cached_property
    def _all_options(self) -> dict[str, Any]:
        return resolved(self._flags, self.environment.variables)

    @property
    def options(self) -> dict[str, Any]:
        """The options of a consumer without a group."""
        return {name: value for name, value in self._all_options.items() if name != "group_id"}

    @property
    def group_id(self) -> str | None:
        """The group that the settings name."""
        group: str | None = self._all_options.get("group_id")
        return group

    @contextmanager
    def consumer(self, **more: Any) -> Iterator[KafkaConsumer]:
        """Open a consumer; `more` are options in addition to those of the connection."""
        consumer = self.environment.consumer(**{**self.options, **more})
        try:
            with LinesOf(_user_of(consumer)):
                yield consumer
        finally:
            consumer.close(timeout_ms=2_000)

    def reader(
        self, *, uncommitted: bool = False, **more: Any
    ) -> AbstractContextManager[KafkaConsumer]:
        """Open a consumer for the records of a topic.

        Records of aborted and open transactions are left out, unless `uncommitted` or
        `isolation.level` asks for them.
        """
        level = self.options.get("isolation_level", "read_committed")
        given = {
            "isolation_level": "read_uncommitted" if uncommitted else level,
            # Records that are deleted during the read must not take those behind them along.
            "auto_offset_reset": "earliest",
        }
        return self.consumer(**given, **more)

    @contextmanager
    def administration(self) -> Iterator[Administration]:
        """Open a client for administration."""
        with self.consumer() as consumer:
            # A consumer says why no broker can be used, and tries a rejected password once.
            # kafka-python's clients repeat it until their timeout.
            user = _user_of(consumer)
        client = self.environment.administration(self.options)
        try:
            with LinesOf(user):
                yield client
        finally:
            client.close()

    @property
    def config(self) -> str | None:
        """The file that a flag names."""
        return self._flags.config

    def producer(self, **more: Any) -> Any:
        """Return a producer; `more` are further options of it."""
        return self.environment.producer(self.options, **more)

    def group(self, given: str | None) -> str:
        """Return the group of `-g`, or of the settings.

        Raises:
            CommandError: There is neither.
        """
        group = given or self.group_id
        if not group:
            raise CommandError("no group is given: use -g GROUP, or -X group.id=GROUP", usage=True)
        return group


def _user_of(consumer: KafkaConsumer) -> ClientNames:
    """Return the login for advice about missing rights."""
    return ClientNames(None, login_name=consumer.log_names.login_name)


def described_topic(snapshot: ClusterSnapshot, topic: str) -> TopicInfo:
    """Return the description of a topic.

    Raises:
        CommandError: The topic does not exist, or cannot be seen.
    """
    found = snapshot.topics.get(topic)
    if found is not None:
        return found
    error = snapshot.topic_errors.get(topic)
    if error is not None:
        raise CommandError(f"the topic {topic!r} cannot be read: {error.__name__}")
    raise CommandError(
        f"the topic {topic!r} does not exist, or this user may not describe it; "
        f"{near_topic(snapshot, topic)}"
    )


def near_topic(snapshot: ClusterSnapshot, topic: str) -> str:
    """Return advice about a topic that does not exist."""
    near = get_close_matches(topic, [*snapshot.topics], n=1)
    return f"did you mean {near[0]!r}?" if near else "`tandem-kafka topics` lists the topics"


def partitions_of(
    consumer: KafkaConsumer, topic: str, chosen: tuple[int, ...] = ()
) -> list[TopicPartition]:
    """Return the chosen partitions of a topic, or all of them.

    Raises:
        CommandError: The topic or a partition does not exist.
    """
    known = described_topic(consumer.cluster(), topic).partitions
    missing = sorted(set(chosen) - set(known))
    if missing:
        raise CommandError(
            f"the topic {topic!r} has no partition {missing[0]}; it has 0 to {max(known)}"
        )
    return [TopicPartition(topic, number) for number in sorted(chosen or known)]
