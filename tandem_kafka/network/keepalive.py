"""Heartbeats that the native transport sends while the GIL blocks the network thread.

A long call into C code that holds the GIL stops both threads. The coordinator would remove the
member, although the application has time until `max_poll_interval_ms`. Each request of a membership
therefore passes a heartbeat without new data to the transport. The native transport sends it if the
network thread is late. Other transports do not support this.
"""

from __future__ import annotations

from tandem_kafka.errors import KafkaError, KafkaProtocolError
from tandem_kafka.network.link import ArmedKeepAlive, Link
from tandem_kafka.network.request import KeepAlive
from tandem_kafka.network.response import parse_header
from tandem_kafka.network.transport import KeepAliveTransport, Transport
from tandem_kafka.wire.framing import decode_message, response_class
from tandem_kafka.wire.responses import reject_nulls


class KeepAlives:
    """Passes heartbeats to the transport, and their responses to the membership."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport if isinstance(transport, KeepAliveTransport) else None

    def arm(self, link: Link, keep_alive: KeepAlive | None, now_ms: int) -> None:
        """Pass a heartbeat to the transport, after a request has been sent."""
        if self._transport is None or keep_alive is None or link.number is None:
            return
        left_ms = keep_alive.until_ms - now_ms
        if left_ms <= 0:
            return
        try:
            frame, version = link.connection.encode_keep_alive(keep_alive.message)
        except KafkaError:
            return  # the broker does not support the request
        link.armed = ArmedKeepAlive(keep_alive, version)
        self._transport.keep_alive(link.number, frame, keep_alive.period_ms, left_ms)

    def handle_response(self, link: Link, frame: memoryview) -> None:
        """Decode a response and pass it to the membership.

        Invariant: called in the order of arrival, also among responses to the heartbeats of Python.

        Raises:
            KafkaProtocolError: The response cannot be decoded.
        """
        if link.armed is None:
            return
        keep_alive, version = link.armed.keep_alive, link.armed.version
        message = keep_alive.message
        try:
            _, body = parse_header(frame, message, version)
            response = decode_message(response_class(message.API_KEY, version), version, body)
            reject_nulls(response, version)
        except Exception as error:
            raise KafkaProtocolError(
                f"cannot decode the response of {link.node} to {message.name} v{version} "
                f"({len(frame)} bytes): {type(error).__name__}: {error}"
            ) from error
        keep_alive.on_response(response)
