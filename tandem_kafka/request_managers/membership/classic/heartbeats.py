"""Heartbeats of a classic member: one at a time, on an interval, and soon after a failure."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafka.errors import RebalanceInProgressError

from tandem_kafka.network.request import ClientResponse, KeepAlive, ToNode
from tandem_kafka.request_managers.base import IDLE, PollResult
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.group_errors import group_error
from tandem_kafka.request_managers.membership.heartbeat_schedule import HeartbeatSchedule
from tandem_kafka.request_managers.membership.timers import PollTimer
from tandem_kafka.state.group import NO_GENERATION
from tandem_kafka.wire.messages import HeartbeatRequest


class Heartbeats:
    """Sends heartbeats, so that the coordinator keeps this member in the group."""

    def __init__(
        self,
        context: ManagerContext,
        timer: PollTimer,
        on_error: Callable[[Exception], None],
    ) -> None:
        self._context = context
        self._timer = timer
        self._on_error = on_error
        self._schedule = HeartbeatSchedule(context, context.config.heartbeat_interval_ms)
        self._last: HeartbeatRequest | None = None

    def start(self, *, immediately: bool = False) -> None:
        """Start a generation; its first heartbeat is due after an interval, or immediately."""
        self._schedule.request.reset()
        self._schedule.due(0 if immediately else self._schedule.interval_ms)

    def reset(self) -> None:
        """Reset the state, because the membership is over."""
        self._schedule.request.reset()

    def poll(self, destination: ToNode, now_ms: int) -> PollResult:
        """Return the heartbeat if it is due, or the time until then."""
        config = self._context.config
        member = self._context.group.metadata
        if member.generation_id == NO_GENERATION:
            return IDLE
        wait_ms = self._schedule.wait_ms(now_ms)
        if wait_ms > 0:
            return PollResult(wait_ms=wait_ms)
        self._schedule.sent(now_ms)
        timeout_ms = min(config.request_timeout_ms, config.session_timeout_ms)
        request = self._context.request(
            self._message(),
            destination,
            on_response=partial(self._handle_response, member.generation_id),
            on_error=partial(self._handle_error, member.generation_id),
            state=self._schedule.request,
            timeout_ms=timeout_ms,
        )
        request.keep_alive = self.keep_alive(now_ms)
        return PollResult((request,))  # its response wakes the loop

    def _message(self) -> HeartbeatRequest:
        member, last = self._context.group.metadata, self._last
        known = (last.generation_id, last.member_id) if last is not None else None
        if last is None or known != (member.generation_id, member.member_id):
            last = self._last = HeartbeatRequest(
                group_id=member.group_id,
                generation_id=member.generation_id,
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
            )
        return last

    def keep_alive(self, now_ms: int) -> KeepAlive:
        """Return the heartbeat that the transport sends while this thread cannot."""
        generation = self._context.group.metadata.generation_id
        return self._context.keep_alive(
            self._message(),
            period_ms=self._context.config.heartbeat_interval_ms,
            until_ms=now_ms + self._timer.left_ms(now_ms),
            on_response=lambda message: self._check(generation, message.error_code),
            on_error=partial(self._handle_error, generation),
        )

    def _handle_response(self, generation: int, response: ClientResponse) -> None:
        if self._context.group.metadata.generation_id == generation:
            self._context.metrics.record("heartbeat-latency", response.latency_ms)
        self._check(generation, response.message.error_code)

    def _check(self, generation: int, code: int) -> None:
        if self._context.group.metadata.generation_id != generation:
            return  # of an earlier generation
        if code not in (0, RebalanceInProgressError.errno):
            raise group_error(code, self._context.config)
        self._schedule.accepted()
        if code:  # The coordinator keeps this member, and waits for it to join again.
            self._on_error(group_error(code, self._context.config))

    def _handle_error(self, generation: int, error: Exception) -> None:
        if self._context.group.metadata.generation_id == generation:
            self._schedule.due()
            self._on_error(error)
