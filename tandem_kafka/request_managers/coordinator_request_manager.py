"""Finds the group coordinator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.outages import Outage
from tandem_kafka.network.request import ANY_NODE, ClientResponse, Purpose, ToNode
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.group_errors import group_error
from tandem_kafka.request_managers.reactions import COORDINATOR, Reaction, reaction_to
from tandem_kafka.types import Node
from tandem_kafka.wire.hosts import advertised
from tandem_kafka.wire.messages import FindCoordinatorRequest

log = client_logger(__name__)

GROUP_KEY = 0
#: The coordinator of a group moves within this time when its broker restarts.
PATIENCE_MS = 3_000
#: One that is lost sooner, and found again, is no news: that may continue all the time.
BRIEF_MS = 10_000


class CoordinatorRequestManager(RequestManager):
    """Knows the coordinator, or looks it up as soon as it is needed."""

    def __init__(self, context: ManagerContext, group_id: str) -> None:
        self._context = context
        self._group_id = group_id
        self._state = context.request_state()
        self._node: Node | None = None
        #: Cached, because every iteration of the loop needs them.
        self._destination = ToNode(Node(-1, "", 0), Purpose.GROUP)
        self._offsets_destination = ToNode(Node(-1, "", 0), Purpose.MAIN)
        self._lookup_needed = False
        self._closing = False
        self._outage = Outage(PATIENCE_MS)
        self._found_ms = -BRIEF_MS
        #: The coordinator that the log names, None if it says that there is none.
        self._logged: Node | None = None
        self._on_fatal: list[Callable[[Exception], None]] = []

    def destination(self) -> ToNode | None:
        """Return the destination of group requests; while unknown, None, and start a lookup."""
        if self._node is None:
            self._lookup_needed = True
            return None
        if self._destination.node is not self._node:
            self._destination = ToNode(self._node, Purpose.GROUP)
            self._offsets_destination = ToNode(self._node, Purpose.MAIN)
        return self._destination

    def offsets_destination(self) -> ToNode | None:
        """Return the destination of commits, lookups of committed offsets and LeaveGroup.

        Invariant: all use the same connection, and never change it. On two, commits could overtake
        each other. It is not the connection of JoinGroup: a parked JoinGroup would block commits of
        the remaining partitions during the whole rebalance.
        """
        destination = self.destination()
        return None if destination is None else self._offsets_destination

    @property
    def known(self) -> bool:
        """True if the coordinator is known."""
        return self._node is not None

    def mark_unknown(self, why: object) -> None:
        """Forget the coordinator, because it has moved or cannot be reached."""
        if self._node is not None:
            brief = self._context.clock.now_ms() - self._found_ms < BRIEF_MS
            self._logged = self._logged if brief else None
            write = log.debug if brief else log.info
            write(
                "group %s: coordinator %s is no longer available and is looked up again: %s",
                self._group_id,
                self._node,
                why,
                fields={"node_id": self._node.node_id},
            )
            self._node = self._context.group.coordinator = None
            self._context.group.coordinator_missing = True
            self._lookup_needed = True

    def stop_looking(self) -> None:
        """End the lookup, because the application has ended the subscription that needed it.

        A commit that needs the coordinator begins it again.
        """
        self._lookup_needed = self._context.group.coordinator_missing = False

    def on_fatal(self, callback: Callable[[Exception], None]) -> None:
        """Call `callback` with an error that a new lookup cannot fix."""
        self._on_fatal.append(callback)

    def poll(self, now_ms: int) -> PollResult:
        """Look up the coordinator if it is needed and unknown."""
        if self._node is not None or not self._lookup_needed or self._closing:
            return IDLE
        if not self._state.can_send(now_ms):
            return PollResult(wait_ms=self._state.wait_ms(now_ms))
        message = FindCoordinatorRequest(
            key=self._group_id, key_type=GROUP_KEY, coordinator_keys=[self._group_id]
        )
        request = self._context.request(
            message,
            ANY_NODE,
            on_response=self._handle_response,
            on_error=self._handle_error,
            state=self._state,
        )
        return PollResult((request,), FOREVER_MS)

    def close(self, now_ms: int) -> PollResult:  # noqa: ARG002 - the managers' interface
        """Stop looking up the coordinator."""
        self._closing = True
        return IDLE

    def _handle_response(self, response: ClientResponse) -> None:
        found = _coordinator_of(response)
        if found.error_code:
            raise group_error(found.error_code, self._context.config, found.error_message)
        self._found(advertised(found.node_id, found.host, found.port))

    def _handle_error(self, error: Exception) -> None:
        self._context.group.coordinator_missing = True
        reaction = reaction_to(COORDINATOR, error)
        if reaction is Reaction.FAIL:
            self._lookup_needed = False  # until the coordinator is needed again
            self._context.polls.event_needed = True
            for callback in self._on_fatal:
                callback(error)
        elif reaction is Reaction.RAISE:
            self._context.raise_in_poll(error)
        else:
            self._log_failure(error)

    def _log_failure(self, error: Exception) -> None:
        if self._outage.failed(self._context.clock.now_ms()):
            log.warning(
                "group %s: no coordinator for %d s, looking it up again: %s",
                self._group_id,
                self._outage.lasted_s,
                error,
            )
        else:
            log.debug("group %s: lookup of the coordinator failed: %s", self._group_id, error)

    def _found(self, node: Node) -> None:
        self._context.metadata.suggest_retry(node.node_id)
        self._node = self._context.group.coordinator = node
        self._context.group.coordinator_missing = False
        self._lookup_needed = False
        self._found_ms, known, self._logged = self._context.clock.now_ms(), self._logged, node
        if self._outage.succeeded(self._found_ms):
            log.warning(
                "group %s: a coordinator is found after %d s and %d failed lookups: %s",
                self._group_id,
                self._outage.lasted_s,
                self._outage.failures,
                node,
                fields={"node_id": node.node_id},
            )
        else:
            write = log.debug if node == known else log.info
            write(
                "group %s: the coordinator is %s",
                self._group_id,
                node,
                fields={"node_id": node.node_id},
            )


def _coordinator_of(response: ClientResponse) -> Any:
    """Return the only entry: in a list from version 4 on (KIP-699), in the message before."""
    return response.message.coordinators[0] if response.version >= 4 else response.message
