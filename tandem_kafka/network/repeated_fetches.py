"""Fetches that the native transport repeats by itself, without the GIL (see rust/src/standing).

For this thread, all repetitions are one request, which stays in flight until the transport returns
a response. Only its times move. Invariant: `refresh` precedes everything that depends on them.
"""

from __future__ import annotations

from collections.abc import Callable

from tandem_kafka.logs import client_logger
from tandem_kafka.network.link import Link
from tandem_kafka.network.node_state import NodeState
from tandem_kafka.network.request import SentRequest, UnsentRequest
from tandem_kafka.network.transport import RepeatingTransport, Transport
from tandem_kafka.types import Node

log = client_logger(__name__)


class RepeatedFetches:
    """Passes standing fetches to the transport, and keeps the times of their connections.

    Args:
        transport: The transport.
        state_of: Returns the state of a broker.
    """

    def __init__(self, transport: Transport, state_of: Callable[[Node], NodeState]) -> None:
        self._state_of = state_of
        self._transport = transport if isinstance(transport, RepeatingTransport) else None

    def start(self, link: Link, request: UnsentRequest, now_ms: int) -> None:
        """Let the transport repeat a fetch that has just been sent, if the request asks for it."""
        link.standing_fetch = None
        if request.make_standing_fetch is None or self._transport is None or link.number is None:
            return
        correlation_id, version = link.connection.newest
        usable_ms = link.reauthenticate_at_ms - now_ms
        sent = SentRequest(version, correlation_id, usable_ms, link.meter)
        try:
            standing = request.make_standing_fetch(sent)
            if standing is not None and self._transport.repeat_fetches(link.number, standing):
                link.standing_fetch, link.repeats = standing, 0
        except Exception:  # a defect must not end this thread; the fetch has been sent
            log.exception("native repeated fetches failed; fetching continues through Python")
            self._transport = None

    def refresh(self, link: Link, now_ms: int) -> None:
        """Move the times of the request in flight to those of the last repetition."""
        if link.standing_fetch is None or not link.connection.in_flight:
            return
        repeats, sent_ms_ago, held_after_ms = link.standing_fetch.progress()
        if repeats == link.repeats and held_after_ms is None:
            return
        link.suspected = link.watched = False
        if repeats != link.repeats:
            link.repeats = repeats
            # The transport returns a late response, so these were on time.
            self._state_of(link.node).responded(link.key[1], 0, 0, now_ms)
        # Invariant: no standing fetch that waits for room in the buffer is overdue. Its last
        # response seems to have arrived just now, and Python gets it if the standing fetch ends.
        link.connection.repeated(now_ms - (sent_ms_ago if held_after_ms is None else held_after_ms))
