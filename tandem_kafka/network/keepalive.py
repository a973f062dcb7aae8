"""Heartbeats that the transport sends by itself while the GIL keeps this thread from running.

A call into C that holds the GIL for long stops both threads. The coordinator would count the
member as dead, though the application has time until `max_poll_interval_ms`. So whatever is sent
about a membership leaves with the transport a heartbeat that says nothing new; the native one
sends it when this thread is overdue. The other transports cannot.
"""

from __future__ import annotations

from tandem_kafka.errors import KafkaError
from tandem_kafka.network.link import Aside, Link
from tandem_kafka.network.request import KeepAlive
from tandem_kafka.network.response import parse_header
from tandem_kafka.network.transport import KeepsAlive, Transport
from tandem_kafka.wire.framing import response_class

__all__ = ["KeepAlives"]


class KeepAlives:
    """Hands heartbeats to the transport, and what it learns by them to the membership."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport if isinstance(transport, KeepsAlive) else None

    def arm(self, link: Link, keep_alive: KeepAlive | None, now_ms: int) -> None:
        """Leave a heartbeat with the transport, behind the request that has just been sent."""
        if self._transport is None or keep_alive is None or link.number is None:
            return
        left_ms = keep_alive.until_ms - now_ms
        if left_ms <= 0:
            return
        try:
            frame, version = link.connection.encode_aside(keep_alive.message)
        except KafkaError:
            return  # the broker has no such request: there is nothing to keep alive
        link.aside = Aside(keep_alive, version)
        self._transport.keep_alive(link.number, frame, keep_alive.period_ms, left_ms)

    def answered(self, link: Link, frame: memoryview) -> None:
        """Tell the membership what an answer says."""
        if link.aside is None:
            return
        keep_alive, version = link.aside.keep_alive, link.aside.version
        _, body = parse_header(frame, keep_alive.message, version)
        keep_alive.answered(response_class(keep_alive.message.API_KEY, version).decode(body))
