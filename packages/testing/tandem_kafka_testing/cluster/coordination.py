"""Runs the coordinators of a cluster: forwards requests, sends responses, schedules timers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from tandem_kafka_testing.coordinator.coordinator import GroupCoordinator
from tandem_kafka_testing.coordinator.requests import Expel, ForgetTopic
from tandem_kafka_testing.coordinator.settings import GroupSettings
from tandem_kafka_testing.coordinator.step import Outcome, Request, Timer
from tandem_kafka_testing.network import SimNetwork

#: The host of each client, as Kafka writes it: clusters are served on this machine only.
CLIENT_HOST: Final = "/127.0.0.1"

#: Makes a message from the result of a coordinator.
Translate = Callable[[Any], Any]


class Caller(Protocol):
    """The sender of a request."""

    client_id: str

    def respond_later(self, response: Any) -> None:
        """Send the response to a parked request."""
        ...


class Coordination:
    """One coordinator for each group, made when it is first used.

    Args:
        network: Provides the clock and the schedule of the timers.
        topics: Returns the number of partitions of each topic.
        served: Returns whether the broker that coordinates a group is up and not paused.

    Attributes:
        settings: Settings of new groups.
    """

    def __init__(
        self,
        network: SimNetwork,
        topics: Callable[[], dict[str, int]],
        served: Callable[[str], bool],
    ) -> None:
        self._network = network
        self._topics = topics
        self._served = served
        self._overdue: list[tuple[str, Timer]] = []
        self.settings = GroupSettings()
        self.coordinators: dict[str, GroupCoordinator] = {}
        #: The next check of a session, and the newest timer of its end, by member.
        self._sessions: dict[tuple[str, str], tuple[int, Timer]] = {}
        self._clients: dict[tuple[str, str], str] = {}

    def of(self, group_id: str) -> GroupCoordinator:
        """Return the coordinator of a group."""
        if group_id not in self.coordinators:
            self.coordinators[group_id] = GroupCoordinator(self._topics, self.settings)
        return self.coordinators[group_id]

    def forward(self, call: Caller, group_id: str, request: Request, translate: Translate) -> Any:
        """Handle the request of a client; returns the response, None if it is sent later."""
        request.ticket = call, translate
        outcome = self.of(group_id).handle(request, self._network.clock.now_ms())
        response = self._carry_out(group_id, outcome, request)
        member = group_id, getattr(request, "member_id", "")
        if member in self._sessions:
            self._clients[member] = call.client_id
        return response

    def client_of(self, group_id: str, member_id: str) -> str:
        """Return the client id of a member."""
        return self._clients.get((group_id, member_id), "")

    def execute(self, group_id: str, request: Request) -> Any:
        """Handle a request of the cluster itself; returns its result."""
        outcome = self.of(group_id).handle(request, self._network.clock.now_ms())
        (result,) = (result for handled, result in outcome.responses if handled is request)
        outcome.responses = [each for each in outcome.responses if each[0] is not request]
        self._carry_out(group_id, outcome)
        return result

    def expel(self, group_id: str, member_id: str) -> bool:
        """Remove a member; False if there is none with that id."""
        return bool(self.execute(group_id, Expel(member_id=member_id)))

    def forget_topic(self, name: str) -> None:
        """Drop the committed offsets of a deleted topic."""
        for group_id in self.coordinators:
            self.execute(group_id, ForgetTopic(topic=name))

    def take_over(self, group_id: str, lost: int = 0) -> None:
        """Replace the coordinator of a group; the new one misses the last records."""
        # These timers belong to the previous coordinator; the new one sets its own.
        self._overdue = [each for each in self._overdue if each[0] != group_id]
        self._sessions = {who: when for who, when in self._sessions.items() if who[0] != group_id}
        outcome = self.of(group_id).take_over(self._network.clock.now_ms(), lost)
        self._carry_out(group_id, outcome)

    def _carry_out(self, group_id: str, outcome: Outcome, mine: Request | None = None) -> Any:
        for what in outcome.notes:
            self._network.trace.note(f"group {group_id}: {what}")
        for timer in outcome.timers:
            self._schedule(group_id, timer)
        own = None
        for request, result in outcome.responses:
            call, translate = request.ticket
            if request is mine:
                own = translate(result)
            else:
                call.respond_later(translate(result))
        return own

    def _schedule(self, group_id: str, timer: Timer) -> None:
        if timer.kind != "session" or self._sooner(group_id, timer):
            self._network.at(timer.when_ms, lambda: self._expire(group_id, timer))

    def _expire(self, group_id: str, timer: Timer) -> None:
        """Pass a timer to its coordinator; if no broker serves the group, later."""
        if not self._served(group_id):
            self._overdue.append((group_id, timer))
            return
        now_ms = self._network.clock.now_ms()
        self._carry_out(group_id, self.of(group_id).expire(timer, now_ms))
        if timer.kind == "session":
            self._check_later(group_id, timer, now_ms)

    def catch_up(self) -> None:
        """Handle the timers that were due while no broker served their groups."""
        overdue, self._overdue = self._overdue, []
        for group_id, timer in overdue:
            self._expire(group_id, timer)

    def _sooner(self, group_id: str, timer: Timer) -> bool:
        """Return whether a session must be checked earlier than planned.

        Each heartbeat moves the end of the session, so one scheduled timer is enough. The end may
        also move forward: a new member has more time for its first request.
        """
        member = group_id, timer.about
        next_ms, _ = self._sessions.get(member, (timer.when_ms + 1, timer))
        self._sessions[member] = min(next_ms, timer.when_ms), timer
        return timer.when_ms < next_ms

    def _check_later(self, group_id: str, timer: Timer, now_ms: int) -> None:
        """Plan the next check of a session, at its present end."""
        member = group_id, timer.about
        next_ms, last = self._sessions.get(member, (0, timer))
        if next_ms != timer.when_ms:
            return  # another timer has replaced it
        del self._sessions[member]
        if last.when_ms > now_ms:
            self._schedule(group_id, last)
        else:
            self._clients.pop(member, None)
