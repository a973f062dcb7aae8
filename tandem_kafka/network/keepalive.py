"""Heartbeats that the transport sends by itself while the GIL keeps this thread from running.

A call into C that holds the GIL for long stops both threads. The coordinator would count the
member as dead, though the application has time until `max_poll_interval_ms`. So whatever is sent
about a membership leaves with the transport a heartbeat that says nothing new; the native one
sends it when this thread is overdue. The other transports cannot.
"""

from __future__ import annotations

from tandem_kafka.errors import KafkaError, KafkaProtocolError
from tandem_kafka.network.link import ArmedKeepAlive, Link
from tandem_kafka.network.request import KeepAlive
from tandem_kafka.network.response import parse_header
from tandem_kafka.network.transport import KeepAliveTransport, Transport
from tandem_kafka.wire.framing import decoded, response_class
from tandem_kafka.wire.nulls import refuse_nulls

__all__ = ["KeepAlives"]


class KeepAlives:
    """Hands heartbeats to the transport, and what it learns by them to the membership."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport if isinstance(transport, KeepAliveTransport) else None

    def arm(self, link: Link, keep_alive: KeepAlive | None, now_ms: int) -> None:
        """Leave a heartbeat with the transport, behind the request that has just been sent."""
        if self._transport is None or keep_alive is None or link.number is None:
            return
        left_ms = keep_alive.until_ms - now_ms
        if left_ms <= 0:
            return
        try:
            frame, version = link.connection.encode_keep_alive(keep_alive.message)
        except KafkaError:
            return  # the broker has no such request: there is nothing to keep alive
        link.armed = ArmedKeepAlive(keep_alive, version)
        self._transport.keep_alive(link.number, frame, keep_alive.period_ms, left_ms)

    def handle_response(self, link: Link, frame: memoryview) -> None:
        """Hand over what a response says.

        Raises:
            KafkaProtocolError: It cannot be decoded.
        """
        if link.armed is None:
            return
        keep_alive, version = link.armed.keep_alive, link.armed.version
        message = keep_alive.message
        try:
            _, body = parse_header(frame, message, version)
            response = decoded(response_class(message.API_KEY, version), version, body)
            refuse_nulls(response, version)
        except Exception as error:
            raise KafkaProtocolError(
                f"cannot decode the answer of {link.node} to {message.name} v{version} "
                f"({len(frame)} bytes): {type(error).__name__}: {error}"
            ) from error
        keep_alive.on_response(response)
