"""Keeps the cluster metadata current: by age, on demand and after errors."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

from tandem_kafka.config import Config
from tandem_kafka.errors import (
    LOGIN_ERRORS,
    InvalidTopicError,
    TopicAuthorizationFailedError,
    TopicsDeniedError,
    UnexpectedResponseError,
    UnsupportedVersionError,
    for_code,
)
from tandem_kafka.events.completable import Completion
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ANY_NODE, ClientResponse
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.user_code import PendingCall
from tandem_kafka.runtime.native import implementation
from tandem_kafka.state.subscription import SubscriptionKind
from tandem_kafka.state.topic_troubles import lacking
from tandem_kafka.types import NO_TOPIC_ID, UNKNOWN_EPOCH, ClusterSnapshot, PartitionInfo, TopicInfo
from tandem_kafka.version import __version__
from tandem_kafka.wire.hosts import advertised
from tandem_kafka.wire.messages import MetadataRequest

log = client_logger(__name__)

REBOOTSTRAP_REQUIRED = 129
UNKNOWN_TOPIC = for_code(3)
#: From this version on, responses have topic ids.
FIRST_VERSION_OF_IDS = 10
#: From this version on, topics can be requested by id alone (KIP-516).
FIRST_VERSION_WITH_IDS = 12
#: So many topics are requested by id at once.
_MOST_IDS = 1_000
#: How long the metadata of a topic is refreshed after a lookup needed it.
NEEDED_MS = 60_000
#: The maximum age of metadata while the leader of an assigned partition does not respond.
MAX_AGE_WITHOUT_LEADER_MS = 500

#: What Kafka allows (`org.apache.kafka.common.internals.Topic`).
_TOPIC_NAME = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")

Described = tuple[dict[str, TopicInfo], dict[str, type[Exception]]]


def log_opening(config: Config, cluster_id: str | None) -> None:
    """Say which client reads from which cluster, and how."""
    group = "no group"
    if config.group_id is not None:
        static = "" if config.group_instance_id is None else f" as {config.group_instance_id!r}"
        group = f"group {config.group_id!r}{static}, group_protocol={config.group_protocol!r}"
    log.info(
        "tandem-kafka %s (%s), cluster %s, %s, %s",
        __version__,
        implementation(),
        cluster_id,
        config.security_protocol,
        group,
    )


def describe_topics(topics: Iterable[str] | None, *, auto_create: bool) -> MetadataRequest:
    """Create a request for these topics, or for all topics (None)."""
    names = None
    if topics is not None:
        entry = MetadataRequest.MetadataRequestTopic
        names = [entry(topic_id=NO_TOPIC_ID, name=name) for name in sorted(topics)]
    # Version 0 requests all topics with an empty list, later versions with null.
    return MetadataRequest(topics=names, allow_auto_topic_creation=auto_create, min_version=1)


def read_topics(response: Any) -> Described:
    """Return the topics of a response without errors, and the errors of the others."""
    topics: dict[str, TopicInfo] = {}
    errors: dict[str, type[Exception]] = {}
    for topic in response.topics:
        if topic.name is None:
            continue  # requested by an id that the broker does not know (yet)
        if topic.error_code:
            errors[topic.name] = for_code(topic.error_code)
            continue
        # Invariant: the name of a topic in the metadata can be part of a path and of a log line.
        if _TOPIC_NAME.fullmatch(topic.name) is None:
            log.warning(
                "a broker has sent a topic name that Kafka does not allow: %.300r", topic.name
            )
            continue
        partitions = {
            p.partition_index: PartitionInfo(
                partition=p.partition_index,
                leader_id=p.leader_id,
                leader_epoch=_or_default(p.leader_epoch, UNKNOWN_EPOCH),
                replicas=tuple(p.replica_nodes),
                isr=tuple(p.isr_nodes),
                offline_replicas=tuple(p.offline_replicas or ()),
            )
            for p in topic.partitions
        }
        topic_id = _or_default(topic.topic_id, NO_TOPIC_ID)
        topics[topic.name] = TopicInfo(topic.name, topic_id, bool(topic.is_internal), partitions)
    return topics, errors


def snapshot_of(response: Any) -> ClusterSnapshot:
    """Convert a metadata response."""
    topics, errors = read_topics(response)
    nodes = {b.node_id: advertised(b.node_id, b.host, b.port, b.rack) for b in response.brokers}
    return ClusterSnapshot(
        cluster_id=response.cluster_id, nodes=nodes, topics=topics, topic_errors=errors
    )


def _or_default(value: Any, default: Any) -> Any:
    return default if value is None else value


class MetadataRefresher(RequestManager):
    """Requests the metadata of the relevant topics from any broker.

    Relevant topics are those that are subscribed or assigned, those of running lookups (`need`)
    and those of a group that this member leads (`watch`). While a pattern is subscribed, all topics
    are relevant.
    """

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._state = context.request_state()
        self._requested = False
        self._requested_topics: frozenset[str] | None = frozenset()
        #: The topics of the last response; None for all topics.
        self._response_topics: frozenset[str] | None = frozenset()
        self._transient: dict[str, int] = {}
        self._watched: frozenset[str] = frozenset()
        #: The watched topics that only other members have subscribed to.
        self._of_others: frozenset[str] = frozenset()
        #: Watched and transient topics together, and when the first of them expires.
        self._extra_topics: frozenset[str] = frozenset()
        self._extra_until_ms = FOREVER_MS * FOREVER_MS
        self._succeeded_ms: int | None = None
        #: When the metadata may be requested again because of an error, and whether they just were.
        self._pause_until_ms = 0
        self._for_error = False
        self._failing_since_ms: int | None = None
        #: An error for the user, and the topics that it concerns, if any.
        self._error: tuple[Exception, Collection[str]] | None = None
        self._waiting: list[Completion[None]] = []
        self._ids_state = context.request_state()
        #: Topic ids without a name, those that were requested longest ago first; and the version
        #: of the metadata that lack them.
        self._unresolved_ids: deque[UUID] = deque()
        self._unresolved_in = -1
        #: Topics of which the metadata lack assigned partitions, and when they are refreshed.
        self._short_topics: frozenset[str] = frozenset()
        self._short_state = context.request_state()
        #: Whether the last response had the ids of the topics that were requested by name.
        self._names_have_ids = True
        self._on_ids_unsupported: Callable[[UnsupportedVersionError], None] = lambda _: None
        self._matched_pattern: re.Pattern[str] | None = None
        self._match_again = False
        self._matching = PendingCall(context.user_code, self._matched, self._match_failed)

    # --- calls of other managers ---------------------------------------------------------------

    def request_update(self, *, at_once: bool = False) -> None:
        """Refresh the metadata as soon as the backoff allows; after such a refresh with a pause.

        Otherwise, an error that new metadata do not end would cause one refresh after the other.

        Args:
            at_once: Without the pause, because the application waits for the response.
        """
        self._requested = True
        if at_once:
            self._pause_until_ms = 0

    def need(self, topics: Iterable[str], until_ms: int) -> None:
        """Refresh these topics until `until_ms`, for a lookup of unassigned partitions."""
        for topic in topics:
            self._transient[topic] = max(until_ms, self._transient.get(topic, 0))
        self._update_extra_topics()

    def watch(self, topics: frozenset[str]) -> None:
        """Refresh these topics instead of those watched before."""
        self._watched = topics
        self._of_others = topics - self._context.subscription.topics_of_interest()
        self._update_extra_topics()

    def _update_extra_topics(self) -> None:
        self._extra_topics = self._watched | self._transient.keys()
        self._extra_until_ms = min(self._transient.values(), default=FOREVER_MS * FOREVER_MS)

    def need_ids(self, topic_ids: frozenset[UUID]) -> None:
        """Look up the names of these topics, for which the coordinator only sent the ids."""
        self._unresolved_ids, self._unresolved_in = deque(topic_ids), -1

    def need_partitions(self, topics: frozenset[str]) -> None:
        """Refresh these topics, which lack assigned partitions, after pauses that grow."""
        self._short_topics = topics
        if not topics:
            self._short_state.succeeded()

    def on_ids_unsupported(self, callback: Callable[[UnsupportedVersionError], None]) -> None:
        """Call `callback` if the names of topic ids cannot be found out on this cluster."""
        self._on_ids_unsupported = callback

    def refresh(self, topics: Iterable[str]) -> None:
        """Refresh these topics, relevant or not, because one of them may have been deleted."""
        self.need(topics, self._context.clock.now_ms() + NEEDED_MS)
        self.request_update()

    def knows(self, topics: frozenset[str]) -> bool:
        """Tell whether the last response covered these topics, even if they do not exist."""
        return self._response_topics is None or topics <= self._response_topics

    def wait_for_answer(self, future: Completion[None], *, refresh: bool) -> None:
        """Complete `future` once metadata are known; with `refresh`, after the next response."""
        if self._succeeded_ms is not None and not refresh:
            future.complete(None)
        else:
            self._waiting = [each for each in self._waiting if not each.done]
            self._waiting.append(future)

    def take_error(self) -> tuple[Exception, Collection[str]] | None:
        """Return an error for the user, and the topics that it concerns, if any; once."""
        error, self._error = self._error, None
        return error

    # --- requests ------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> PollResult:
        """Send a request if metadata are missing or too old."""
        wait_ms = FOREVER_MS
        if self._short_topics:
            if self._short_state.can_send(now_ms):
                self.refresh(self._short_topics)
                self._short_state.failed(now_ms)
            wait_ms = self._short_state.wait_ms(now_ms)
        by_name = self._poll_names(now_ms)
        wait_ms = min(wait_ms, by_name.wait_ms)
        if not self._unresolved_ids:
            return PollResult(by_name.unsent, wait_ms)
        by_id = self._poll_ids(now_ms)
        return PollResult((*by_name.unsent, *by_id.unsent), min(wait_ms, by_id.wait_ms))

    def _poll_ids(self, now_ms: int) -> PollResult:
        """Request topics by id, which cannot be combined with names in one request."""
        snapshot = self._context.metadata.snapshot
        if self._unresolved_in != snapshot.version:
            self._unresolved_in, known = snapshot.version, snapshot.topic_names
            self._unresolved_ids = deque(each for each in self._unresolved_ids if each not in known)
        if not self._unresolved_ids:
            return IDLE
        if not self._ids_state.can_send(now_ms):
            return PollResult(wait_ms=self._ids_state.wait_ms(now_ms))
        asked = sorted(islice(self._unresolved_ids, _MOST_IDS))
        self._unresolved_ids.rotate(-len(asked))
        entry = MetadataRequest.MetadataRequestTopic
        message = MetadataRequest(
            topics=[entry(topic_id=topic_id, name=None) for topic_id in asked],
            allow_auto_topic_creation=False,
            min_version=FIRST_VERSION_WITH_IDS,
        )
        request = self._context.request(
            message,
            ANY_NODE,
            on_response=partial(self._handle_ids_response, asked),
            on_error=self._handle_ids_error,
            state=self._ids_state,
        )
        return PollResult((request,))

    def _handle_ids_response(
        self, asked: Sequence[UUID], response: ClientResponse
    ) -> Exception | None:
        answer = snapshot_of(response.message)
        if answer.nodes and answer.topics:
            now_ms = self._context.clock.now_ms()
            self._context.metadata.update(answer, partial=True, now_ms=now_ms)
            # A topic that was just created has no leaders yet.
            self._requested = self._requested or self._is_incomplete(answer)
        if not self._context.metadata.snapshot.topic_names.keys() >= set(asked):
            # Increase the backoff until all names are known.
            self._ids_state.failed(self._context.clock.now_ms())
        codes = (topic.error_code for topic in response.message.topics)
        return next((for_code(code)("topic ids") for code in codes if code), None)

    def _handle_ids_error(self, error: Exception) -> None:
        if isinstance(error, UnexpectedResponseError):
            self._error = error, ()
        log.debug("metadata request for topic ids failed: %s", error)
        if not isinstance(error, UnsupportedVersionError):
            return
        if self._names_have_ids and self._context.subscription.regex is None:
            self.request_update()  # the names of all topics are known
        else:
            unsupported = UnsupportedVersionError(
                "the brokers do not tell the names of topic ids, by which the coordinator assigns "
                f"partitions (Metadata version {FIRST_VERSION_OF_IDS}, and "
                f"{FIRST_VERSION_WITH_IDS} for a SubscriptionPattern)"
            )
            unsupported.__cause__ = error
            self._on_ids_unsupported(unsupported)

    def _poll_names(self, now_ms: int) -> PollResult:
        topics = self._topics_of_interest(now_ms)
        due_ms = self._due_in_ms(topics, now_ms)
        if due_ms > 0:
            return PollResult(wait_ms=due_ms)
        self._maybe_rebootstrap(now_ms)
        if not self._state.can_send(now_ms):
            return PollResult(wait_ms=self._state.wait_ms(now_ms))
        self._for_error = self._requested and self._covers(topics)
        self._requested = False
        self._requested_topics = topics
        config = self._context.config
        message = describe_topics(topics, auto_create=config.allow_auto_create_topics)
        request = self._context.request(
            message,
            ANY_NODE,
            on_response=self._handle_response,
            on_error=self._handle_error,
            state=self._state,
        )
        return PollResult((request,))

    def _topics_of_interest(self, now_ms: int) -> frozenset[str] | None:
        subscription = self._context.subscription
        if subscription.kind is SubscriptionKind.PATTERN:
            return None
        if now_ms >= self._extra_until_ms:
            self._transient = {t: until for t, until in self._transient.items() if until > now_ms}
            self._update_extra_topics()
        topics = subscription.topics_of_interest()
        return topics | self._extra_topics if self._extra_topics else topics

    def _due_in_ms(self, topics: frozenset[str] | None, now_ms: int) -> int:
        if not self._covers(topics):
            return 0
        if self._requested:
            return max(0, self._pause_until_ms - now_ms)
        if self._succeeded_ms is None:
            return FOREVER_MS
        if not self._context.metadata.snapshot.nodes:
            return 0  # after a rebootstrap; known positions alone cause no request
        max_age_ms = self._context.config.metadata_max_age_ms
        if self._leader_unreachable():
            max_age_ms = min(max_age_ms, MAX_AGE_WITHOUT_LEADER_MS)
        return max(0, self._succeeded_ms + max_age_ms - now_ms)

    def _leader_unreachable(self) -> bool:
        """Tell whether a partition is led by a broker that does not answer: another may be soon."""
        unreachable = self._context.metadata.unreachable
        if not unreachable:
            return False
        assigned = self._context.subscription.assigned.values()
        return any(state.leader_id in unreachable for state in assigned)

    def _covers(self, topics: frozenset[str] | None) -> bool:
        return (
            self._requested_topics is None
            if topics is None
            else (self._requested_topics is None or topics <= self._requested_topics)
        )

    def _maybe_rebootstrap(self, now_ms: int) -> None:
        config = self._context.config
        failing = self._failing_since_ms
        if failing is None or config.metadata_recovery_strategy != "rebootstrap":
            return
        if now_ms - failing >= config.metadata_recovery_rebootstrap_trigger_ms:
            log.info(
                "no metadata response for %d ms; rebootstrapping from bootstrap_servers",
                now_ms - failing,
            )
            self._failing_since_ms = now_ms
            self._context.metadata.rebootstrap()

    # --- responses -----------------------------------------------------------------------------

    def _handle_response(self, response: ClientResponse) -> Exception | None:
        now_ms = self._context.clock.now_ms()
        message = response.message
        self._names_have_ids = response.version >= FIRST_VERSION_OF_IDS
        if (message.error_code or 0) == REBOOTSTRAP_REQUIRED:
            log.info("a broker requests a rebootstrap (KIP-1102); using bootstrap_servers")
            self._context.metadata.rebootstrap()
            self._retry(now_ms)
        elif not message.brokers:
            self._retry(now_ms)  # a broker that has just started knows no brokers yet
        else:
            answer = snapshot_of(message)
            self._apply(answer, now_ms)
            return self._refusal(answer)
        return None

    def _refusal(self, answer: ClusterSnapshot) -> Exception | None:
        """Return the error of an own topic, unless `TopicTroubles` names it."""
        own, known = self._context.subscription.topics_of_interest(), self._context.topic_troubles
        errors = answer.topic_errors
        named = known.of(own, own)
        return next((errors[name](name) for name in own & errors.keys() - named.keys()), None)

    def _apply(self, answer: ClusterSnapshot, now_ms: int) -> None:
        if self._succeeded_ms is None:
            log_opening(self._context.config, answer.cluster_id)
        self._succeeded_ms, self._failing_since_ms = now_ms, None
        if self._for_error:
            self._pause_until_ms = now_ms + self._context.retry_pause_ms
        self._response_topics = self._requested_topics
        everything = self._requested_topics is None
        before = self._context.metadata.snapshot
        self._context.metadata.update(
            answer, partial=not everything, now_ms=now_ms, forget=not everything
        )
        _log_changes(before, self._context.metadata.snapshot)
        for future in self._waiting:
            future.complete(None)
        self._waiting.clear()
        self._note_errors(answer, now_ms)
        if self._is_incomplete(answer):
            self._retry(now_ms)
        self._match_pattern()

    def _handle_error(self, error: Exception) -> None:
        if isinstance(error, (*LOGIN_ERRORS, UnsupportedVersionError, UnexpectedResponseError)):
            self._error = error, ()
        log.debug("metadata request failed: %s", error)
        if self._failing_since_ms is None:
            self._failing_since_ms = self._context.clock.now_ms()
        self._requested = True

    def _retry(self, now_ms: int) -> None:
        self._state.failed(now_ms)
        self._requested = True

    def _note_errors(self, answer: ClusterSnapshot, now_ms: int) -> None:
        troubles, subscription = self._context.topic_troubles, self._context.subscription
        errors = answer.topic_errors
        unauthorized = {
            t for t, e in errors.items() if issubclass(e, TopicAuthorizationFailedError)
        }
        invalid = sorted(t for t, e in errors.items() if issubclass(e, InvalidTopicError))
        own = subscription.topics_of_interest()
        requested = self._response_topics or ()
        absent = {name for name in requested if errors.get(name) is UNKNOWN_TOPIC}
        if subscription.kind is SubscriptionKind.USER_ASSIGNED:  # a coordinator knows them all
            found = lacking(subscription.assigned, self._context.metadata.snapshot)
            troubles.note_lacking(found, now_ms)
        troubles.note_undescribed(
            unauthorized & own,
            own.intersection(invalid),
            absent & own,
            now_ms,
            created=absent if self._context.config.allow_auto_create_topics else (),
        )
        if unauthorized:
            self._note_error(TopicsDeniedError(unauthorized), unauthorized)
        elif invalid:
            msg = f"the cluster rejects the topic names {invalid}; correct the subscription"
            self._note_error(InvalidTopicError(msg), invalid)

    def _note_error(self, error: Exception, topics: Collection[str]) -> None:
        # Invariant: raised whatever is subscribed if this member leads, and cannot assign topics of
        # others. They get no partitions, and no error.
        self._error = error, () if self._of_others.intersection(topics) else topics

    def _is_incomplete(self, answer: ClusterSnapshot) -> bool:
        """Tell whether a relevant topic or leader is missing, so that a retry may find it.

        Any error of an own topic may end, for example once the right to describe it is granted.
        """
        own = self._context.subscription.topics_of_interest()
        wanted = own | self._extra_topics
        waiting = {
            name
            for name, error in answer.topic_errors.items()
            if name in own or (name in wanted and getattr(error, "retriable", False))
        }
        leaderless = any(
            info.leader_id < 0
            for topic in answer.topics.values()
            if topic.name in wanted
            for info in topic.partitions.values()
        )
        return bool(waiting) or leaderless

    def _match_pattern(self) -> None:
        """Match the pattern on the thread for user code, because matching may be slow."""
        subscription = self._context.subscription
        pattern = subscription.pattern
        if subscription.kind is not SubscriptionKind.PATTERN or pattern is None:
            return
        if self._matching.running and self._matched_pattern == pattern:
            self._match_again = True  # with the topics known by then
            return
        self._matched_pattern, self._match_again = pattern, False
        hide_internal = self._context.config.exclude_internal_topics
        topics = self._context.metadata.snapshot.topics
        names = [n for n, topic in topics.items() if not (hide_internal and topic.internal)]
        self._matching.start(lambda: {name for name in names if pattern.match(name)})

    def _matched(self, topics: set[str]) -> None:
        subscription = self._context.subscription
        pattern = self._matched_pattern
        if subscription.kind is SubscriptionKind.PATTERN and subscription.pattern == pattern:
            if subscription.set_matched(topics) and pattern is not None:
                log.info("pattern %r matches the topics %s", pattern.pattern, sorted(topics))
            if self._match_again:
                self._match_pattern()

    def _match_failed(self, error: Exception) -> None:
        self._context.raise_in_poll(error)
        self._retry(self._context.clock.now_ms())


def _log_changes(before: ClusterSnapshot, after: ClusterSnapshot) -> None:
    if not log.isEnabledFor(logging.DEBUG):
        return
    if before.nodes != after.nodes:
        log.debug("metadata: the brokers are %s", ", ".join(map(str, after.nodes.values())))
    for name, topic in after.topics.items():
        if before.topics.get(name) != topic:
            leaders = {number: info.leader_id for number, info in topic.partitions.items()}
            log.debug("metadata: leaders of %s: %s", name, leaders, fields={"topic": name})
