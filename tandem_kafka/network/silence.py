"""Connections on which nothing comes: half open, or to a broker that hangs.

TCP notices neither for minutes, and a request may wait for half a minute by right. So when an
answer is long due, a new connection is made. If the broker answers there, the old ones are half
open, and whatever waits on them is sent again; if it does not, it hangs, and others are asked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Protocol

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.network.link import ConnectionKey, Link
from tandem_kafka.network.node_state import NodeState
from tandem_kafka.network.request import Purpose
from tandem_kafka.network.transport import Transport
from tandem_kafka.types import Node

__all__ = ["SilenceWatch"]

log = logging.getLogger(__name__)


class Connections(Protocol):
    """What is done with the connections."""

    def links(self) -> Iterable[Link]:
        """Return all connections."""
        ...

    def link(self, key: ConnectionKey) -> Link | None:
        """Return a connection, in whatever state it is."""
        ...

    def state(self, node: Node) -> NodeState:
        """Return what is remembered of a broker."""
        ...

    def open(self, node: Node, purpose: Purpose, now_ms: int) -> None:
        """Begin to connect."""
        ...

    def end(self, link: Link, error: KafkaConnectionError) -> None:
        """Close a connection without blaming the broker; its requests fail with the error."""
        ...


class SilenceWatch:
    """Finds out about connections whose answers are long due."""

    def __init__(self, connections: Connections, transport: Transport) -> None:
        self._connections = connections
        self._transport = transport

    def check(self, link: Link, now_ms: int) -> None:
        """An answer is overdue: watch the connection, and then see about the broker.

        What comes in slowly is no silence.
        """
        received_bytes = self._transport.received_bytes(link.number or 0)
        if not link.watched or received_bytes != link.received_bytes:
            if link.watched:
                link.received_ms = now_ms
            link.watched, link.received_bytes = True, received_bytes
            return
        link.suspected = True
        state = self._connections.state(link.node)
        state.silent = True
        if state.in_backoff(now_ms):
            self._close_silent(link.key[0], f"new ones fail ({state.last_error})")
        elif not any(
            each.key == (link.key[0], Purpose.PROBE) for each in self._connections.links()
        ):
            log.debug("%s is silent: trying a new connection", link.node)
            self._connections.open(link.node, Purpose.PROBE, now_ms)

    def broker_responded(self, node_id: int) -> None:
        """The broker answers on a new connection.

        Those that are idle may be half open as well, and nobody would know before the next answer
        is due.
        """
        self._close_silent(node_id, "the broker answers on a new one")
        for link in self._of(node_id):
            if link.ready and not link.connection.in_flight:
                error = KafkaConnectionError(f"{link.node}: others like this were half open")
                self._connections.end(link, error)

    def probe_failed(self, node_id: int, error: Exception) -> None:
        """The broker cannot be reached on a new connection either."""
        self._close_silent(node_id, f"a new one fails ({error})")

    def _close_silent(self, node_id: int, reason: str) -> None:
        for link in self._of(node_id):
            if link.suspected:
                self._connections.state(link.node).extend_silence_limit(link.key[1])
                error = KafkaConnectionError(f"{link.node} is silent on a connection; {reason}")
                self._connections.end(link, error)

    def _of(self, node_id: int) -> list[Link]:
        return [link for link in self._connections.links() if link.key[0] == node_id]
