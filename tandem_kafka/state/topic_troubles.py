"""Topics of the subscription that cannot be read, for `health()`, diagnoses and the log."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping

from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import TopicsDeniedError, acl_command
from tandem_kafka.logs import RecentLines, client_logger
from tandem_kafka.types import ClusterSnapshot, TopicPartition

log = client_logger(__name__)

#: A denied partition that is not fetched any more is forgotten after this time.
FORGOTTEN_MS = 60_000
#: A topic that was just created, or that the consumer creates itself, appears within this time.
PATIENCE_MS = 1_000


@dataclass(frozen=True)
class TopicTrouble:
    """Why a topic cannot be read, and what to do; `missing` if it does not exist."""

    text: str
    missing: bool = False


class TopicTroubles:
    """What the last metadata response and the last fetches said. Writer: the network thread.

    Each trouble is logged once, because nothing else tells of a mistyped name, and one that comes
    and goes once a minute.
    """

    __slots__ = (
        "_absent_since_ms",
        "_created",
        "_denied_ms",
        "_described",
        "_lacking_since_ms",
        "_lines",
        "_unreadable",
    )

    def __init__(self) -> None:
        # Both are replaced as a whole, because the application thread reads them.
        self._described: Mapping[str, TopicTrouble] = {}
        self._unreadable: Mapping[str, TopicTrouble] = {}
        self._absent_since_ms: dict[str, int] = {}
        self._lacking_since_ms: dict[str, int] = {}
        #: The topics that the last request has created.
        self._created: frozenset[str] = frozenset()
        #: The partitions whose last fetch was denied, and when.
        self._denied_ms: dict[TopicPartition, int] = {}
        self._lines = RecentLines()

    def of(self, topics: Iterable[str], fetched: Container[str]) -> dict[str, TopicTrouble]:
        """Return the troubles of topics, by name; any thread may call this.

        Args:
            topics: The topics.
            fetched: Those of them that are fetched. Nothing is known of the others any more.
        """
        described, unreadable = self._described, self._unreadable
        known = (
            (name, described.get(name) or (unreadable.get(name) if name in fetched else None))
            for name in sorted(topics)
        )
        return {name: trouble for name, trouble in known if trouble is not None}

    def denied(self, topics: Iterable[str]) -> TopicsDeniedError:
        """Return the error for those of these topics that are known to be denied, or for all."""
        topics = frozenset(topics)
        known = {name for name, trouble in self.of(topics, topics).items() if not trouble.missing}
        return TopicsDeniedError(known or set(topics))

    # --- the network thread --------------------------------------------------------------------

    def note_undescribed(
        self,
        denied: Iterable[str],
        invalid: Iterable[str],
        absent: Iterable[str],
        now_ms: int,
        *,
        created: Collection[str],
    ) -> None:
        """Note the topics that a metadata response does not describe.

        Args:
            denied: Topics that this client may not describe.
            invalid: Names that the cluster rejects.
            absent: Topics that do not exist, or that are hidden from this client.
            now_ms: The current time.
            created: Topics that the request has created, if the brokers allow it: also those of
                lookups and of other members.
        """
        new_names = set(created) - self._created
        _log_creation(self._to_log("creation", new_names, now_ms))
        self._created = frozenset(created)
        since_ms = {name: self._absent_since_ms.get(name, now_ms) for name in absent}
        self._absent_since_ms = since_ms
        missing = {n for n, at_ms in since_ms.items() if now_ms - at_ms >= PATIENCE_MS}
        _log_missing(self._to_log("missing", missing - self._described.keys(), now_ms))
        _log_end(self._to_log("end", _missing(self._described) - since_ms.keys(), now_ms))
        undescribed = {name: _denied(name, "Describe") for name in denied}
        new = {n for n, trouble in undescribed.items() if self._described.get(n) != trouble}
        _log_denied("Describe", self._to_log("Describe", new, now_ms))
        self._described = {
            **{name: TopicTrouble(_MISSING.format(name), missing=True) for name in missing},
            **{name: TopicTrouble(_INVALID.format(name)) for name in invalid},
            **undescribed,
        }

    def note_lacking(self, found: Mapping[str, TopicTrouble], now_ms: int) -> None:
        """Log what `lacking` has found for a second: a partition may just have been created."""
        since_ms = {name: self._lacking_since_ms.get(name, now_ms) for name in found}
        self._lacking_since_ms = since_ms
        lasting = [name for name, at_ms in since_ms.items() if now_ms - at_ms >= PATIENCE_MS]
        for name in self._to_log("lacking", lasting, now_ms):
            log.warning(
                "%s; until then, it has no records", found[name].text, fields={"topic": name}
            )

    def note_fetch(self, tp: TopicPartition, now_ms: int, *, denied: bool) -> None:
        """Note whether the last fetch of a partition was denied: this client may not read it.

        Invariant: one partition says nothing of the others. Their leaders may know other ACLs.
        """
        if denied:
            self._denied_ms[tp] = now_ms
            if tp.topic not in self._unreadable:
                _log_denied("Read", self._to_log("Read", {tp.topic}, now_ms))
        elif self._denied_ms.pop(tp, None) is None:
            return
        self._denied_ms = {
            each: at_ms for each, at_ms in self._denied_ms.items() if now_ms - at_ms < FORGOTTEN_MS
        }
        topics = {each.topic for each in self._denied_ms}
        if topics != self._unreadable.keys():
            self._unreadable = {name: _denied(name, "Read") for name in topics}

    def _to_log(self, line: str, topics: Iterable[str], now_ms: int) -> list[str]:
        """Return the topics for which a line is due. Brokers may disagree about a topic."""
        return [name for name in sorted(topics) if self._lines.take((line, name), now_ms)]


def lacking(
    partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot
) -> dict[str, TopicTrouble]:
    """Return the trouble of each topic that exists without some of these partitions."""
    numbers: dict[str, list[int]] = {}
    for tp in partitions:
        topic = snapshot.topics.get(tp.topic)
        if topic is not None and tp.partition not in topic.partitions:
            numbers.setdefault(tp.topic, []).append(tp.partition)
    return {
        name: TopicTrouble(
            f"the topic {name!r} has {len(snapshot.topics[name].partitions)} partitions, counted "
            f"from 0, and none is {', '.join(map(str, sorted(each)))}: correct assign(), or add "
            "partitions",
            missing=True,
        )
        for name, each in numbers.items()
    }


_MISSING = "the topic {!r} does not exist, or this client may not see it; check the name"
_INVALID = "the cluster rejects the topic name {!r}; correct the subscription"


def _missing(troubles: Mapping[str, TopicTrouble]) -> set[str]:
    return {name for name, trouble in troubles.items() if trouble.missing}


def _denied(topic: str, operation: str) -> TopicTrouble:
    """Return the trouble of a topic that this client may not describe or read."""
    cure, verb = acl_command("Read", "topic", topic), operation.lower()  # allows Describe, too
    return TopicTrouble(f"this client may not {verb} the topic {topic!r}; grant it: {cure}")


def _log_denied(operation: str, names: Iterable[str]) -> None:
    for name in names:
        log.warning(
            "this client may not %s the topic %r; grant it: %s",
            operation.lower(),
            name,
            acl_command("Read", "topic", name),
            fields={"topic": name},
        )


def _log_creation(names: Iterable[str]) -> None:
    for name in names:
        log.warning(
            "the topic %r does not exist, and the metadata request of this consumer creates it if "
            "the brokers allow it (auto.create.topics.enable): check the name, or set "
            "allow_auto_create_topics=False",
            name,
            fields={"topic": name},
        )


def _log_missing(names: Iterable[str]) -> None:
    for name in names:
        log.warning(
            "the topic %r does not exist, or this client may not see it; there are no records "
            "until it appears: check the name",
            name,
            fields={"topic": name},
        )


def _log_end(names: Iterable[str]) -> None:
    for name in names:
        log.info(
            "the topic %r is available now, or is no longer wanted", name, fields={"topic": name}
        )
