"""Topics of the subscription that cannot be read, for `health()`, diagnoses and the log."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from tandem_kafka.errors import TopicsDeniedError, acl_command
from tandem_kafka.logs import client_logger

log = client_logger(__name__)

#: A topic that was just created, or that the consumer creates itself, appears within this time.
PATIENCE_MS = 1_000


@dataclass(frozen=True, slots=True)
class TopicTrouble:
    """Why a topic cannot be read, and what to do; `missing` if it does not exist."""

    text: str
    missing: bool = False


class TopicTroubles:
    """What the last metadata response and the last fetches said. Writer: the network thread.

    Each trouble is logged once, because nothing else tells of a mistyped name.
    """

    __slots__ = ("_absent_since_ms", "_described", "_unreadable")

    def __init__(self) -> None:
        # Both are replaced as a whole, because the application thread reads them.
        self._described: Mapping[str, TopicTrouble] = {}
        self._unreadable: Mapping[str, TopicTrouble] = {}
        self._absent_since_ms: dict[str, int] = {}

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
        created: bool,
    ) -> None:
        """Note the topics that a metadata response does not describe.

        Args:
            denied: Topics that this client may not describe.
            invalid: Names that the cluster rejects.
            absent: Topics that do not exist, or that are hidden from this client.
            now_ms: The current time.
            created: Whether the request has created absent topics, if the brokers allow it.
        """
        since_ms = {name: self._absent_since_ms.get(name, now_ms) for name in absent}
        if created:
            _log_creation(sorted(since_ms.keys() - self._absent_since_ms))
        self._absent_since_ms = since_ms
        missing = {n for n, at_ms in since_ms.items() if now_ms - at_ms >= PATIENCE_MS}
        _log_missing(sorted(missing - self._described.keys()))
        _log_end(sorted(_missing(self._described) - since_ms.keys()))
        self._described = {
            **{name: TopicTrouble(_MISSING.format(name), missing=True) for name in missing},
            **{name: TopicTrouble(_INVALID.format(name)) for name in invalid},
            **{name: _denied(name, "Describe", self._described) for name in denied},
        }

    def note_fetch(self, topic: str, *, denied: bool) -> None:
        """Note whether fetches of a topic are rejected because this client may not read it."""
        if denied:
            trouble = _denied(topic, "Read", self._unreadable)
            self._unreadable = {**self._unreadable, topic: trouble}
        elif topic in self._unreadable:
            self._unreadable = {n: each for n, each in self._unreadable.items() if n != topic}


_MISSING = "the topic {!r} does not exist, or this client may not see it; check the name"
_INVALID = "the cluster rejects the topic name {!r}; correct the subscription"


def _missing(troubles: Mapping[str, TopicTrouble]) -> set[str]:
    return {name for name, trouble in troubles.items() if trouble.missing}


def _denied(topic: str, operation: str, known: Mapping[str, TopicTrouble]) -> TopicTrouble:
    """Return the trouble of a topic that this client may not describe or read."""
    cure = acl_command(operation, "topic", topic)
    verb = operation.lower()
    trouble = TopicTrouble(f"this client may not {verb} the topic {topic!r}; grant it: {cure}")
    if known.get(topic) != trouble:
        log.warning(
            "this client may not %s the topic %r; grant it: %s",
            verb,
            topic,
            cure,
            fields={"topic": topic},
        )
    return trouble


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
