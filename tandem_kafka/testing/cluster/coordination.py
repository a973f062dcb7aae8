"""How a cluster runs its coordinators: requests to them, answers back, timers into the schedule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tandem_kafka.testing.coordinator.coordinator import GroupCoordinator
from tandem_kafka.testing.coordinator.requests import Expel, ForgetTopic
from tandem_kafka.testing.coordinator.settings import GroupSettings
from tandem_kafka.testing.coordinator.step import Outcome, Request, Timer
from tandem_kafka.testing.network import SimNetwork

__all__ = ["Coordination"]

#: Makes a message of what a coordinator answers.
Translate = Callable[[Any], Any]


class Caller(Protocol):
    """The sender of a request."""

    def answer_later(self, response: Any) -> None:
        """Send the response to a parked request."""
        ...


class Coordination:
    """The coordinators of all groups, one for each; a group comes into being when it is asked for.

    Args:
        network: Its clock tells the time; its schedule has the timers.
        topics: Returns how many partitions each topic has.
        served: Tells whether the broker that coordinates a group is up and not paused.

    Attributes:
        settings: What new groups begin with.
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
        #: When a session is looked at next, and when it has to be as far as known, by member.
        self._sessions: dict[tuple[str, str], tuple[int, Timer]] = {}

    def of(self, group_id: str) -> GroupCoordinator:
        """Return what coordinates a group."""
        if group_id not in self.coordinators:
            self.coordinators[group_id] = GroupCoordinator(self._topics, self.settings)
        return self.coordinators[group_id]

    def ask(self, call: Caller, group_id: str, request: Request, translate: Translate) -> Any:
        """Put a client's request; returns the message that answers it, None if that comes later."""
        request.ticket = call, translate
        outcome = self.of(group_id).handle(request, self._network.clock.now_ms())
        return self._carry_out(group_id, outcome, request)

    def tell(self, group_id: str, request: Request) -> Any:
        """Put a request that no client sent and that is answered at once; returns the answer."""
        outcome = self.of(group_id).handle(request, self._network.clock.now_ms())
        (answer,) = (answer for asked, answer in outcome.responses if asked is request)
        outcome.responses = [each for each in outcome.responses if each[0] is not request]
        self._carry_out(group_id, outcome)
        return answer

    def expel(self, group_id: str, member_id: str) -> bool:
        """Forget a member; False if there is none of that id."""
        return bool(self.tell(group_id, Expel(member_id=member_id)))

    def forget_topic(self, name: str) -> None:
        """A topic was deleted: no group has committed anything of it any more."""
        for group_id in self.coordinators:
            self.tell(group_id, ForgetTopic(topic=name))

    def take_over(self, group_id: str, lost: int = 0) -> None:
        """Have a group taken over by a coordinator that knows what was written, but the last."""
        # The coordinator before this one has not come to act on these, and this one begins anew.
        self._overdue = [each for each in self._overdue if each[0] != group_id]
        self._sessions = {who: when for who, when in self._sessions.items() if who[0] != group_id}
        outcome = self.of(group_id).take_over(self._network.clock.now_ms(), lost)
        self._carry_out(group_id, outcome)

    def _carry_out(self, group_id: str, outcome: Outcome, mine: Request | None = None) -> Any:
        for what in outcome.notes:
            self._network.trace.note(f"group {group_id}: {what}")
        for timer in outcome.timers:
            self._arrange(group_id, timer)
        own = None
        for request, answer in outcome.responses:
            call, translate = request.ticket
            if request is mine:
                own = translate(answer)
            else:
                call.answer_later(translate(answer))
        return own

    def _arrange(self, group_id: str, timer: Timer) -> None:
        if timer.kind != "session" or self._sooner(group_id, timer):
            self._network.at(timer.when_ms, lambda: self._expire(group_id, timer))

    def _expire(self, group_id: str, timer: Timer) -> None:
        """Have a coordinator act on a timer, once there is one: nobody is missed by nobody."""
        if not self._served(group_id):
            self._overdue.append((group_id, timer))
            return
        now_ms = self._network.clock.now_ms()
        self._carry_out(group_id, self.of(group_id).expire(timer, now_ms))
        if timer.kind == "session":
            self._look_later(group_id, timer, now_ms)

    def catch_up(self) -> None:
        """A broker serves again: act on what was due meanwhile and still counts."""
        overdue, self._overdue = self._overdue, []
        for group_id, timer in overdue:
            self._expire(group_id, timer)

    def _sooner(self, group_id: str, timer: Timer) -> bool:
        """Tell whether a session must be looked at before it is anyway.

        Each heartbeat moves its end: one timer of it at a time is enough. The newest one tells
        the end, which may be earlier than before: a new member has more time for its first word.
        """
        member = group_id, timer.about
        next_ms, _ = self._sessions.get(member, (timer.when_ms + 1, timer))
        self._sessions[member] = min(next_ms, timer.when_ms), timer
        return timer.when_ms < next_ms

    def _look_later(self, group_id: str, timer: Timer, now_ms: int) -> None:
        """A session was looked at; once more when its end as it is now has come."""
        member = group_id, timer.about
        next_ms, last = self._sessions.get(member, (0, timer))
        if next_ms != timer.when_ms:
            return  # another timer has its place
        del self._sessions[member]
        if last.when_ms > now_ms:
            self._arrange(group_id, last)
