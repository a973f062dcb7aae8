"""The coordinator of a group: a state machine whose input is requests, timers and the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kafka import errors

from tandem_kafka_testing.coordinator import requests
from tandem_kafka_testing.coordinator.classic import ClassicGroup
from tandem_kafka_testing.coordinator.classic_joins import ClassicJoins
from tandem_kafka_testing.coordinator.classic_members import ClassicMembers
from tandem_kafka_testing.coordinator.classic_syncs import ClassicSyncs
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.kip848 import ConsumerGroup
from tandem_kafka_testing.coordinator.kip848_members import Kip848Members
from tandem_kafka_testing.coordinator.log import GroupLog
from tandem_kafka_testing.coordinator.migration import Migration
from tandem_kafka_testing.coordinator.offsets import GroupOffsets
from tandem_kafka_testing.coordinator.settings import GroupSettings
from tandem_kafka_testing.coordinator.share_group import ShareGroup
from tandem_kafka_testing.coordinator.step import Outcome, Request, Timer


class GroupCoordinator:
    """One group: its members of all protocols, its offsets and its log.

    A request gets its response in the same step, or is parked and gets it in a later one. Another
    coordinator that reads the log continues without any loss, except for the parked requests.

    Attributes:
        classic: The members of a classic group.
        consumer: The members of a KIP-848 group.
        share: The members of a share group.
        offsets: The committed offsets.
    """

    def __init__(
        self,
        topics: Callable[[], Mapping[str, int]],
        settings: GroupSettings | None = None,
    ) -> None:
        self._context = context = GroupContext(topics, settings)
        self._step = context.step
        self.classic = ClassicGroup(context)
        self.consumer = ConsumerGroup(context, self._downgrade)
        self.share = ShareGroup(context)
        self.offsets = GroupOffsets(context, self.classic, self.consumer, self.share)
        self._joins = ClassicJoins(context, self.classic)
        self._syncs = ClassicSyncs(context, self.classic)
        self._migration = Migration(context, self.classic, self.consumer)
        self._modern_members = Kip848Members(context, self.consumer, self._migration)
        self._classic_members = ClassicMembers(context, self.consumer, self._downgrade)
        self._handlers = self._all_handlers()
        self._due = self._all_timers()

    def _all_handlers(self) -> dict[type[Request], Callable[[Any], None]]:
        return {
            requests.JoinGroup: self._join,
            requests.SyncGroup: self._sync,
            requests.Heartbeat: self._heartbeat,
            requests.LeaveGroup: self._leave,
            requests.ConsumerHeartbeat: self._consumer_heartbeat,
            requests.ShareHeartbeat: self._share_heartbeat,
            requests.AlterShareOffsets: self._alter_share_offsets,
            requests.DeleteShareOffsets: self.share.handle_delete,
            requests.PrepareAssignment: self.consumer.computations.handle_prepare,
            requests.InstallAssignment: self.consumer.computations.handle_install,
            requests.CommitOffsets: self.offsets.handle_commit,
            requests.FetchOffsets: self.offsets.handle_fetch,
            requests.EndTransaction: self.offsets.handle_end,
            requests.DeleteOffsets: self.offsets.handle_delete,
            requests.DeleteGroup: self.offsets.handle_delete_group,
            requests.ForgetTopic: self._forget_topic,
            requests.Expel: self._expel,
        }

    def _all_timers(self) -> dict[str, Callable[[Timer], object]]:
        consumer, classic_members = self.consumer, self._classic_members
        return {
            "session": self._end_session,
            "join": lambda timer: self.classic.give_up_waiting(timer.number),
            "unsynced": lambda timer: self._syncs.give_up_waiting(timer.number),
            "delay": lambda timer: self.classic.end_delay(timer.number),
            "revocation": lambda timer: consumer.give_up_waiting(timer.about, timer.number),
            "rejoin": lambda timer: classic_members.give_up_waiting(timer.about, timer.kind),
            "sync": lambda timer: classic_members.give_up_waiting(timer.about, timer.kind),
            "target": lambda _: consumer.update_target(),
            "computation": lambda timer: consumer.computations.give_up_waiting(timer.number),
            "offsets": lambda timer: self.offsets.drop_expired(timer.number),
        }

    @property
    def settings(self) -> GroupSettings:
        """Settings of the operator; see `configure`."""
        return self._context.settings

    @property
    def log(self) -> GroupLog:
        """All records of the group, from which the next coordinator continues."""
        return self._context.log

    @log.setter
    def log(self, log: GroupLog) -> None:
        self._context.log = log

    def configure(self, **changes: Any) -> None:
        """Change settings of this group.

        Raises:
            TypeError: There is no setting with this name.
            ValueError: A value is outside its limits.
        """
        self._context.settings = replace(self.settings, **changes)

    # --- steps ---------------------------------------------------------------------------------

    def handle(self, request: Request, now_ms: int) -> Outcome:
        """Handle a request; the outcome may have responses to other requests, too."""
        outcome = self._step.begin(now_ms)
        self._handlers[type(request)](request)
        return outcome

    def expire(self, timer: Timer, now_ms: int) -> Outcome:
        """Handle a timer that is due.

        Raises:
            ValueError: A coordinator sets no such timer.
        """
        if timer.kind not in self._due:
            msg = f"no timer of the kind {timer.kind!r}; there are: {', '.join(self._due)}"
            raise ValueError(msg)
        outcome = self._step.begin(now_ms)
        self._due[timer.kind](timer)
        return outcome

    def _end_session(self, timer: Timer) -> None:
        self.classic.expire(timer.about)
        self.consumer.expire(timer.about)
        self.share.expire(timer.about)

    def take_over(self, now_ms: int, lost: int = 0) -> Outcome:
        """Continue as another coordinator that has read the log without its last `lost` records.

        Parked requests get NOT_COORDINATOR.
        """
        outcome = self._step.begin(now_ms)
        self.log = self.log.read(lost)
        self.classic.reload()
        self.consumer.reload()
        self.share.reload()
        self.offsets.reload()
        return outcome

    @property
    def exists(self) -> bool:
        """True from the first member or commit on, until nothing of the group remains."""
        return self.offsets.group_exists

    def _downgrade(self, joined: str | None) -> None:
        self._migration.downgrade(joined)

    # --- protocols -----------------------------------------------------------------------------

    @property
    def _classic_side(self) -> ClassicGroup | ClassicMembers:
        """The handler for classic members: of a classic group, or in a KIP-848 group."""
        return self._classic_members if self.consumer.members else self.classic

    def _join(self, request: requests.JoinGroup) -> None:
        shortest_ms, longest_ms = self.settings.classic_session_limits_ms
        if not shortest_ms <= request.session_ms <= longest_ms:
            result = requests.JoinResult(errors.InvalidSessionTimeoutError, request.member_id)
            self._step.respond(request, result)
            return
        if self.share.exists:
            result = requests.JoinResult(errors.InconsistentGroupProtocolError, request.member_id)
            self._step.respond(request, result)
            return
        if not self.consumer.members and self.consumer.exists:
            self.consumer.dissolve()  # it has no members, so a classic group may replace it
        joins = self._classic_members if self.consumer.members else self._joins
        joins.handle_join(request)

    def _consumer_heartbeat(self, request: requests.ConsumerHeartbeat) -> None:
        if self.share.exists:
            result = requests.ConsumerHeartbeatResult(errors.GroupIdNotFoundError)
            self._step.respond(request, result)
            return
        self._modern_members.handle_heartbeat(request)

    @property
    def _is_of_another_type(self) -> bool:
        """Whether the group exists and is no share group."""
        return self.exists and not self.share.exists

    def _share_heartbeat(self, request: requests.ShareHeartbeat) -> None:
        self.share.handle_heartbeat(request, conflict=self._is_of_another_type)

    def _alter_share_offsets(self, request: requests.AlterShareOffsets) -> None:
        self.share.handle_alter(request, conflict=self._is_of_another_type)

    def _sync(self, request: requests.SyncGroup) -> None:
        syncs = self._classic_members if self.consumer.members else self._syncs
        syncs.handle_sync(request)

    def _heartbeat(self, request: requests.Heartbeat) -> None:
        self._classic_side.handle_heartbeat(request)

    def _leave(self, request: requests.LeaveGroup) -> None:
        self._classic_side.handle_leave(request)

    def _forget_topic(self, request: requests.ForgetTopic) -> None:
        self.offsets.forget_topic(request.topic)
        self.consumer.forget_topic(request.topic)
        self.share.forget_topic(request.topic)
        self._step.respond(request, None)

    def _expel(self, request: requests.Expel) -> None:
        kinds = self.classic, self.consumer, self.share
        groups = [group for group in kinds if request.member_id in group.members]
        for group in groups:
            group.remove(request.member_id)
        self._step.respond(request, bool(groups))
