"""The coordinator of a group: a state machine that is told what comes and the time, and no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kafka import errors

from tandem_kafka.testing.coordinator import requests
from tandem_kafka.testing.coordinator.classic import ClassicGroup
from tandem_kafka.testing.coordinator.classic_members import ClassicMembers
from tandem_kafka.testing.coordinator.consumer import ConsumerGroup
from tandem_kafka.testing.coordinator.log import GroupLog
from tandem_kafka.testing.coordinator.members import JOIN_EPOCH
from tandem_kafka.testing.coordinator.migration import Migration
from tandem_kafka.testing.coordinator.offsets import Offsets
from tandem_kafka.testing.coordinator.settings import GroupSettings
from tandem_kafka.testing.coordinator.turn import Error, Outcome, Request, Timer, Turn

__all__ = ["GroupCoordinator"]


class GroupCoordinator:
    """One group with its members under either protocol, its offsets and its log.

    A request is answered in the turn in which it comes, or parked and answered in a later one.
    Nothing is lost when it is replaced by another that has read its `log`, but what was parked.

    Attributes:
        topics: Returns how many partitions each topic has.
        settings: What the operator set; see `configure`.
        log: All it wrote; what the next coordinator knows.
    """

    def __init__(
        self,
        topics: Callable[[], Mapping[str, int]],
        settings: GroupSettings | None = None,
    ) -> None:
        self.topics = topics
        self.settings = settings if settings is not None else GroupSettings()
        self.turn = Turn()
        self.log = GroupLog()
        self.classic = ClassicGroup(self)
        self.consumer = ConsumerGroup(self)
        self.offsets = Offsets(self)
        self.migration = Migration(self)
        self._handlers: dict[type[Request], Callable[[Any], None]] = {
            requests.JoinGroup: self._join,
            requests.SyncGroup: self._sync,
            requests.Heartbeat: self._heartbeat,
            requests.LeaveGroup: self._leave,
            requests.ConsumerHeartbeat: self.consumer.modern_members.handle_heartbeat,
            requests.PrepareAssignment: self.consumer.computations.handle_prepare,
            requests.InstallAssignment: self.consumer.computations.handle_install,
            requests.CommitOffsets: self.offsets.handle_commit,
            requests.FetchOffsets: self.offsets.handle_fetch,
            requests.EndTransaction: self.offsets.handle_end,
            requests.ForgetTopic: self._forget_topic,
            requests.Expel: self._expel,
        }
        consumer, classic_members = self.consumer, self.consumer.classic_members
        self._due: dict[str, Callable[[Timer], object]] = {
            "session": self._end_session,
            "join": lambda timer: self.classic.give_up_waiting(timer.number),
            "unsynced": lambda timer: self.classic.syncs.give_up_waiting(timer.number),
            "delay": lambda timer: self.classic.end_delay(timer.number),
            "revocation": lambda timer: consumer.give_up_waiting(timer.about, timer.number),
            "rejoin": lambda timer: classic_members.give_up_waiting(timer.about, timer.kind),
            "sync": lambda timer: classic_members.give_up_waiting(timer.about, timer.kind),
            "target": lambda _: consumer.update_target(),
            "computation": lambda timer: consumer.computations.give_up_waiting(timer.number),
            "offsets": lambda timer: self.offsets.look(timer.number),
        }

    def configure(self, **changes: Any) -> None:
        """Change settings of this group.

        Raises:
            TypeError: There is no setting of a name.
            ValueError: A value is not within its limits.
        """
        self.settings = replace(self.settings, **changes)

    # --- turns ---------------------------------------------------------------------------------

    def handle(self, request: Request, now_ms: int) -> Outcome:
        """Take a request; returns what is answered now, to this and to others."""
        outcome = self.turn.begin(now_ms)
        self._handlers[type(request)](request)
        return outcome

    def expire(self, timer: Timer, now_ms: int) -> Outcome:
        """A timer that was asked for is due.

        Raises:
            ValueError: It is none of a coordinator's.
        """
        if timer.kind not in self._due:
            msg = f"no timer of the kind {timer.kind!r}; there are: {', '.join(self._due)}"
            raise ValueError(msg)
        outcome = self.turn.begin(now_ms)
        self._due[timer.kind](timer)
        return outcome

    def _end_session(self, timer: Timer) -> None:
        self.classic.expire(timer.about)
        self.consumer.expire(timer.about)

    def take_over(self, now_ms: int, lost: int = 0) -> Outcome:
        """Go on as another coordinator that has read the log, without its last `lost` records.

        What was parked is answered that there is another coordinator.
        """
        outcome = self.turn.begin(now_ms)
        self.log = self.log.read(lost)
        self.classic.reload()
        self.consumer.reload()
        self.offsets.reload()
        return outcome

    # --- who serves ----------------------------------------------------------------------------

    @property
    def _classic_side(self) -> ClassicGroup | ClassicMembers:
        """What serves classic members now: their own group, or the one they share."""
        return self.consumer.classic_members if self.consumer.members else self.classic

    def _join(self, request: requests.JoinGroup) -> None:
        shortest_ms, longest_ms = self.settings.classic_session_limits_ms
        if not shortest_ms <= request.session_ms <= longest_ms:
            answer = requests.JoinAnswer(errors.InvalidSessionTimeoutError, request.member_id)
            self.turn.answer(request, answer)
            return
        if not self.consumer.members and self.consumer.exists:
            self.consumer.dissolve()  # it is empty: the classic group may have its place
        joins = self.consumer.classic_members if self.consumer.members else self.classic.joins
        joins.handle_join(request)

    def _sync(self, request: requests.SyncGroup) -> None:
        syncs = self.consumer.classic_members if self.consumer.members else self.classic.syncs
        syncs.handle_sync(request)

    def _heartbeat(self, request: requests.Heartbeat) -> None:
        self._classic_side.handle_heartbeat(request)

    def _leave(self, request: requests.LeaveGroup) -> None:
        self._classic_side.handle_leave(request)

    @property
    def exists(self) -> bool:
        """True from the first member or commit on, until nothing is left of the group."""
        offsets = self.offsets.committed or self.offsets.pending
        return self.classic.exists or self.consumer.exists or bool(offsets)

    def forget_if_empty(self) -> None:
        """Nothing is committed any more: a group without members is none."""
        if not self.classic.members and not self.consumer.members:
            self.classic.dissolve(errors.UnknownMemberIdError)
            self.consumer.dissolve()

    def migrate_for(self, request: requests.ConsumerHeartbeat) -> Error:
        """Make room for a KIP-848 member that joins; returns the error if it cannot be.

        One that is in needs no room, only a group of its kind.
        """
        if request.epoch != JOIN_EPOCH:
            return None if self.consumer.exists else errors.GroupIdNotFoundError
        if self.classic.members:
            return self.migration.upgrade()
        self.classic.dissolve(errors.UnknownMemberIdError)
        return None

    def _forget_topic(self, request: requests.ForgetTopic) -> None:
        self.offsets.forget_topic(request.topic)
        self.consumer.forget_topic(request.topic)
        self.turn.answer(request, None)

    def _expel(self, request: requests.Expel) -> None:
        groups = [g for g in (self.classic, self.consumer) if request.member_id in g.members]
        for group in groups:
            group.remove(request.member_id)
        self.turn.answer(request, bool(groups))
