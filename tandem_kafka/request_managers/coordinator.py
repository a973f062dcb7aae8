"""Finds the broker that coordinates the group."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from tandem_kafka.errors import for_code
from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ANY_NODE, ClientResponse, Purpose, ToNode
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.reactions import COORDINATOR, Reaction, reaction_to
from tandem_kafka.types import Node
from tandem_kafka.wire.messages import FindCoordinatorRequest

__all__ = ["CoordinatorManager"]

log = logging.getLogger(__name__)

GROUP_KEY = 0


class CoordinatorManager(RequestManager):
    """Knows the coordinator, or looks for it as soon as somebody needs it."""

    def __init__(self, context: ManagerContext, group_id: str) -> None:
        self._context = context
        self._group_id = group_id
        self._state = context.request_state()
        self._node: Node | None = None
        #: Asked for at every turn, so made once.
        self._destination = ToNode(Node(-1, "", 0), Purpose.GROUP)
        self._offsets_destination = ToNode(Node(-1, "", 0), Purpose.MAIN)
        self._lookup_needed = False
        self._closing = False
        self._on_fatal: list[Callable[[Exception], None]] = []

    def destination(self) -> ToNode | None:
        """Return where group requests go; None (and a look-up begins) while that is unknown."""
        if self._node is None:
            self._lookup_needed = True
            return None
        if self._destination.node is not self._node:
            self._destination = ToNode(self._node, Purpose.GROUP)
            self._offsets_destination = ToNode(self._node, Purpose.MAIN)
        return self._destination

    def offsets_destination(self) -> ToNode | None:
        """Return where commits, look-ups of committed offsets and LeaveGroup go.

        All take one connection, always the same: commits must reach the coordinator in the order
        in which they were made. It is not the one on which JoinGroup may be parked, behind which a
        member that keeps partitions could not commit for as long as the rebalance lasts.
        """
        destination = self.destination()
        return None if destination is None else self._offsets_destination

    @property
    def known(self) -> bool:
        """True when the coordinator is known."""
        return self._node is not None

    def mark_unknown(self, why: object) -> None:
        """Forget the coordinator: it moved, or cannot be reached."""
        if self._node is not None:
            log.info("group %s: coordinator %s is lost: %s", self._group_id, self._node, why)
            self._node = self._context.group.coordinator = None
            self._context.group.coordinator_missing = True
            self._lookup_needed = True

    def on_fatal(self, callback: Callable[[Exception], None]) -> None:
        """Have `callback` told about an error that looking again will not mend."""
        self._on_fatal.append(callback)

    def poll(self, now_ms: int) -> PollResult:
        """Look for the coordinator if it is wanted and unknown."""
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
        """Look no more."""
        self._closing = True
        return IDLE

    def _handle_response(self, response: ClientResponse) -> None:
        found = _coordinator_of(response)
        if found.error_code:
            raise for_code(found.error_code)(found.error_message or self._group_id)
        self._found(Node(found.node_id, found.host, found.port))

    def _handle_error(self, error: Exception) -> None:
        self._context.group.coordinator_missing = True
        reaction = reaction_to(COORDINATOR, error)
        if reaction is Reaction.FAIL:
            self._lookup_needed = False  # until somebody asks again
            self._context.polls.event_needed = True
            for callback in self._on_fatal:
                callback(error)
        elif reaction is Reaction.RAISE:
            self._context.raise_in_poll(error)
        else:
            log.debug("group %s: no coordinator yet: %s", self._group_id, error)

    def _found(self, node: Node) -> None:
        self._context.metadata.suggest_retry(node.node_id)
        self._node = self._context.group.coordinator = node
        self._context.group.coordinator_missing = False
        self._lookup_needed = False
        log.info("group %s: the coordinator is %s", self._group_id, node)


def _coordinator_of(response: ClientResponse) -> Any:
    """Return the one answer there is: a list from version 4 on (KIP-699), plain before."""
    return response.message.coordinators[0] if response.version >= 4 else response.message
