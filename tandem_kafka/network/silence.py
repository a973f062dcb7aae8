"""Detects half-open connections and hanging brokers.

TCP does not detect either for minutes, and the request timeout is half a minute. If a response is
overdue, a new connection is therefore opened as a probe. If the broker responds there, the old
connections are half open, and their requests are sent again. If it does not, the broker hangs, and
requests for any broker go to others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.network.link import ConnectionKey, Link
from tandem_kafka.network.node_state import NodeState
from tandem_kafka.network.request import Purpose
from tandem_kafka.network.transport import Transport
from tandem_kafka.types import Node


class Connections(Protocol):
    """The connections, as the watch uses them; implemented by `ConnectionPool`."""

    def links(self) -> Iterable[Link]:
        """Return all connections."""
        ...

    def link(self, key: ConnectionKey) -> Link | None:
        """Return a connection in any state, or None."""
        ...

    def state(self, node: Node) -> NodeState:
        """Return the state of a broker."""
        ...

    def open(self, node: Node, purpose: Purpose, now_ms: int) -> None:
        """Start to connect."""
        ...

    def end(self, link: Link, error: KafkaConnectionError) -> None:
        """Close a connection that did not fail; its requests fail with the error."""
        ...


class SilenceWatch:
    """Checks connections with overdue responses."""

    def __init__(self, connections: Connections, transport: Transport) -> None:
        self._connections = connections
        self._transport = transport

    def check(self, link: Link, now_ms: int) -> None:
        """Watch a connection with an overdue response; if it is silent, probe the broker.

        A connection that receives data slowly is not silent.
        """
        received_bytes = self._transport.received_bytes(link.number or 0)
        if not link.watched or received_bytes != link.received_bytes:
            if link.watched:
                link.received_ms = now_ms
            else:
                state = self._connections.state(link.node)
                state.overdue(now_ms - link.connection.due_ms, now_ms)
            link.watched, link.received_bytes = True, received_bytes
            return
        link.suspected = True
        state = self._connections.state(link.node)
        state.fell_silent()
        if state.in_backoff(now_ms):
            self._close_silent(link.key[0], f"new ones fail ({state.last_error})")
        elif not any(
            each.key == (link.key[0], Purpose.PROBE) for each in self._connections.links()
        ):
            self._connections.open(link.node, Purpose.PROBE, now_ms)

    def broker_responded(self, node_id: int) -> None:
        """Close the old connections, because the broker has responded on a new one.

        Idle connections may be half open as well, which would only be detected at the next overdue
        response.
        """
        self._close_silent(node_id, "the broker responds on a new one")
        for link in self._of(node_id):
            if link.ready and not link.connection.in_flight:
                error = KafkaConnectionError(
                    f"{link.node}: closing an idle connection, because another one was half open"
                )
                self._connections.end(link, error)

    def probe_failed(self, node_id: int, error: Exception) -> None:
        """Close the suspected connections, because the broker does not respond on a new one."""
        self._close_silent(node_id, f"a new one fails ({error})")

    def _close_silent(self, node_id: int, reason: str) -> None:
        for link in self._of(node_id):
            if link.suspected:
                self._connections.state(link.node).extend_silence_limit(link.key[1])
                error = KafkaConnectionError(f"a connection to {link.node} is silent; {reason}")
                self._connections.end(link, error)

    def _of(self, node_id: int) -> list[Link]:
        return [link for link in self._connections.links() if link.key[0] == node_id]
