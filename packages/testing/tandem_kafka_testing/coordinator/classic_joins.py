"""JoinGroup of a classic group: checks, immediate responses, and rebalances."""

from __future__ import annotations

from kafka import errors

from tandem_kafka_testing.coordinator.classic import ClassicGroup, common_protocols, elect_protocol
from tandem_kafka_testing.coordinator.classic_group_member import ClassicGroupState, ClassicMember
from tandem_kafka_testing.coordinator.context import GroupContext
from tandem_kafka_testing.coordinator.requests import JoinGroup, JoinResult
from tandem_kafka_testing.coordinator.step import Error


class ClassicJoins:
    """Handles the JoinGroup requests of one classic group."""

    def __init__(self, context: GroupContext, group: ClassicGroup) -> None:
        self._context = context
        self._step = context.step
        self._group = group

    def handle_join(self, request: JoinGroup) -> None:
        """Handle JoinGroup; the response follows when all members have joined or time is over."""
        group = self._group
        before = group.with_instance(request.instance_id)
        member_id = request.member_id or request.new_id
        error = self._error(request, member_id)
        if error is not None:
            self._step.respond(request, JoinResult(error, request.member_id))
            return
        if request.needs_id and not request.member_id:
            group.known_ids.add(member_id)
            self._step.set_timer(self._step.now_ms + request.session_ms, "session", member_id)
            self._step.respond(request, JoinResult(errors.MemberIdRequiredError, member_id))
            return
        group.known_ids.discard(member_id)
        if before is not None and before.member_id != member_id:
            self._replace_static(before, member_id, request)
        elif member_id in group.members:
            self._rejoin(group.members[member_id], request)
        else:
            if not group.members:
                group.protocol_type = request.protocol_type
            group.add(ClassicMember(member_id, request.instance_id), request)

    # --- checks --------------------------------------------------------------------------------

    def _error(self, request: JoinGroup, member_id: str) -> Error:
        group = self._group
        if self._is_full_for(member_id):
            # This completes no rebalance: as in Kafka, the others wait for the rebalance timeout.
            group.drop(member_id)
            return errors.GroupMaxSizeReachedError
        if not self._is_compatible(request):
            return errors.InconsistentGroupProtocolError
        if not request.member_id or member_id in group.known_ids:
            return None
        return group.check_id(member_id, request.instance_id)

    def _is_compatible(self, request: JoinGroup) -> bool:
        """Return whether the protocol type fits and all members share a protocol."""
        group = self._group
        if not group.members:
            return bool(request.protocol_type and request.protocols)
        offers = [member.protocols for member in group.members.values()]
        same_type = request.protocol_type == group.protocol_type
        return same_type and bool(common_protocols([request.protocols, *offers]))

    def _is_full_for(self, member_id: str) -> bool:
        """Return whether the group is full; in a rebalance, the first to join are accepted."""
        most = self._context.settings.classic_max_size
        there = list(self._group.members.values())
        if self._group.state is ClassicGroupState.JOINING:
            there = [m for m in there if m.joining is not None]
        return bool(most) and member_id not in {m.member_id for m in there} and len(there) >= most

    # --- known members -------------------------------------------------------------------------

    def _rejoin(self, member: ClassicMember, request: JoinGroup) -> None:
        """Repeat the last response for an unchanged member, which may not have received it.

        The leader of a stable group begins a rebalance instead: it may have found new partitions.
        """
        group = self._group
        same = list(request.protocols.items()) == list(member.protocols.items())
        follows = group.state is ClassicGroupState.STABLE and member.member_id != group.leader
        if same and (follows or group.state is ClassicGroupState.SYNCING):
            self._step.respond(request, group.join_result(member))
        else:
            group.add(member, request)

    def _replace_static(self, before: ClassicMember, member_id: str, request: JoinGroup) -> None:
        """Give a returning static member a new id; a stable group does not rebalance for it."""
        group = self._group
        led = group.leader
        member = group.replace(before, member_id)
        member.update(request)
        group.touch(member)
        offers = [each.protocols for each in group.members.values()]
        if group.state is not ClassicGroupState.STABLE or elect_protocol(offers) != group.protocol:
            group.add(member, request)
            return
        group.write()
        result = group.join_result(member)
        result.skip_assignment = request.may_skip and result.leader == member_id
        if not request.may_skip:
            # It must not assign. Before JoinGroup v9, which has `skip_assignment`, the response
            # names another leader.
            result.leader, result.members = led, []
        self._step.respond(request, result)
