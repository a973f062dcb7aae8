"""Sends a metadata request for each call of `partitions_for_topic()`, `topics()` or `cluster()`."""

from __future__ import annotations

from functools import partial

from tandem_kafka.dataclass import dataclass
from tandem_kafka.errors import TopicAuthorizationFailedError, TopicsDeniedError, for_code
from tandem_kafka.events.application import ListTopics, PartitionsForTopic
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ANY_NODE, ClientResponse, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager, RequestState
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.metadata_refresh import describe_topics, snapshot_of

UNKNOWN_TOPIC = for_code(3)


@dataclass(eq=False)
class _Lookup:
    event: PartitionsForTopic | ListTopics
    state: RequestState


class TopicMetadataRequestManager(RequestManager):
    """Looks up topics, and retries until the event is done."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._lookups: list[_Lookup] = []

    def look_up(self, event: PartitionsForTopic | ListTopics) -> None:
        """Start a lookup."""
        self._lookups.append(_Lookup(event, self._context.request_state()))

    def poll(self, now_ms: int) -> PollResult:
        """Send every lookup whose backoff is over."""
        if not self._lookups:
            return IDLE
        self._lookups = [lookup for lookup in self._lookups if not lookup.event.future.done]
        unsent = tuple([self._send(lk) for lk in self._lookups if lk.state.can_send(now_ms)])
        wait_ms = min((lk.state.wait_ms(now_ms) for lk in self._lookups), default=FOREVER_MS)
        return PollResult(unsent, wait_ms)

    def _send(self, lookup: _Lookup) -> UnsentRequest:
        event = lookup.event
        topics = None if isinstance(event, ListTopics) else (event.topic,)
        return self._context.request(
            describe_topics(topics, auto_create=False),
            ANY_NODE,
            on_response=partial(self._handle_response, lookup),
            on_error=partial(self._handle_error, lookup),
            state=lookup.state,
        )

    def _handle_response(self, lookup: _Lookup, response: ClientResponse) -> None:
        found = snapshot_of(response.message)
        event = lookup.event
        if isinstance(event, ListTopics):
            event.future.complete(found)
            return
        error = found.topic_errors.get(event.topic)
        if error is not None and error is not UNKNOWN_TOPIC:
            denied = issubclass(error, TopicAuthorizationFailedError)
            raise TopicsDeniedError({event.topic}) if denied else error(event.topic)
        event.future.complete(found.topics.get(event.topic))

    def _handle_error(self, lookup: _Lookup, error: Exception) -> None:
        if not getattr(error, "retriable", False):
            lookup.event.future.fail(error)
