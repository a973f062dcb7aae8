"""A member that computes assignments: announcements, requests, results and errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest
from kafka import errors

from tandem_kafka.assignors import GroupMember, PartitionAssignor
from tandem_kafka.errors import (
    InvalidAssignmentError,
    KafkaConnectionError,
    LocalAssignorError,
    UnsupportedVersionError,
)
from tandem_kafka.foreign_text import visible
from tandem_kafka.network.request import Purpose, ToNode, UnsentRequest
from tandem_kafka.request_managers.membership.kip848.states import State
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
)
from tandem_kafka.wire.versions import BrokerVersionData, choose_version
from tests.unit.request_managers.membership.kip848_member import (
    INTERVAL_MS,
    ConsumerMember,
    beat_response,
)
from tests.unit.request_managers.world import (
    NODE_1,
    NODE_2,
    TOPIC_ID,
    TP,
    TP1,
    TP2,
    code,
    coordinator_response,
)

MEMBER = ConsumerGroupPrepareAssignmentResponse.Member
OTHER_ID = UUID(int=8)


class Noted(PartitionAssignor):
    """Returns or raises the given outcome, and records its arguments."""

    name = "noted"
    maximum_version = 3
    version = 2

    def __init__(self) -> None:
        self.given: list[Any] = []
        self.result: Any = {"other": [TP, TP2], "me": [TP1]}
        self.outcome: Any = b"fast"

    def metadata(self) -> bytes:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return bytes(self.outcome)

    def assign(
        self, members: Mapping[str, GroupMember], topics: Mapping[str, int]
    ) -> Mapping[str, list[TopicPartition]]:
        self.given.append((dict(members), dict(topics)))
        if isinstance(self.result, Exception):
            raise self.result
        return dict(self.result)


def started(**options: Any) -> tuple[ConsumerMember, Noted]:
    """A stable member without a request to compute."""
    noted = Noted()
    member = ConsumerMember(group_local_assignors=[noted], **options)
    member.settle()
    return member, noted


def signalled(**options: Any) -> tuple[ConsumerMember, Noted, UnsentRequest]:
    """A stable member with a request to compute; its own request is in flight."""
    member, noted = started(**options)
    signal(member)
    return member, noted, member.send()


def signal(member: ConsumerMember, epoch: int = 1) -> None:
    response = beat_response(epoch)
    response.should_compute_assignment = True
    member.beat(response)


def state_response(error: type[Exception] | None = None, assignor: str = "noted") -> Any:
    owned = MEMBER.OwnedPartitions(topic_id=TOPIC_ID, partitions=[0])
    gone = MEMBER.OwnedPartitions(topic_id=OTHER_ID, partitions=[5])
    target = MEMBER.TargetPartitions(topic_id=TOPIC_ID, partitions=[0, 1])
    common = {"member_epoch": 1, "subscribed_topic_ids": [TOPIC_ID], "metadata_version": 1}
    return ConsumerGroupPrepareAssignmentResponse(
        throttle_time_ms=0,
        error_code=0 if error is None else code(error),
        error_message=None,
        group_epoch=7,
        assignor_name=assignor,
        members=[
            MEMBER(
                member_id="me",
                instance_id="one",
                rack_id="b",
                reason=4,
                metadata_bytes=b"slow",
                owned_partitions=[owned, gone],
                target_partitions=[target],
                **common,
            ),
            MEMBER(
                member_id="other",
                instance_id=None,
                rack_id=None,
                reason=0,
                metadata_bytes=b"",
                owned_partitions=[],
                target_partitions=[],
                **common,
            ),
        ],
        topics=[
            ConsumerGroupPrepareAssignmentResponse.Topic(
                topic_id=TOPIC_ID, topic_name="orders", num_partitions=3
            )
        ],
    )


def install_response(error: type[Exception] | None = None) -> Any:
    return ConsumerGroupInstallAssignmentResponse(
        throttle_time_ms=0, error_code=0 if error is None else code(error), error_message=None
    )


def announced(unsent: UnsentRequest) -> list[tuple[Any, ...]] | None:
    entries = unsent.message.client_assignors
    if entries is None:
        return None
    return [
        (
            entry.name,
            entry.minimum_version,
            entry.metadata_version,
            entry.maximum_version,
            entry.reason,
            bytes(entry.metadata_bytes),
        )
        for entry in entries
    ]


def raised(member: ConsumerMember) -> Exception:
    (error,) = member.world.raised()
    return error


# --- announcements -------------------------------------------------------------------------------


def test_only_the_join_announces_all_assignors() -> None:
    noted = Noted()
    member = ConsumerMember(group_local_assignors=[noted])
    member.polls()
    join = member.send()
    assert announced(join) == [("noted", 0, 2, 3, 0, b"fast")]
    member.respond(join, beat_response(1, ()))
    member.iterate()
    member.apply_assignment()
    member.respond(acknowledgement := member.send(), beat_response(1))
    assert announced(acknowledgement) is None
    noted.outcome, noted.reason = b"slow", 4
    assert announced(member.beat(beat_response(1))) == [("noted", 0, 2, 3, 4, b"slow")]
    assert announced(member.beat(beat_response(1))) is None


def test_after_a_failure_the_assignors_are_announced_again() -> None:
    member, _ = started()
    member.fail(member.send(after_ms=INTERVAL_MS), KafkaConnectionError)
    member.world.find_coordinator()
    assert announced(member.send()) == [("noted", 0, 2, 3, 0, b"fast")]


def test_without_assignors_nothing_is_announced() -> None:
    member = ConsumerMember()
    member.polls()
    assert announced(member.send()) is None


def test_failed_metadata_stays_unchanged_and_is_reported() -> None:
    member, noted = started()
    noted.outcome = ValueError("no disk")
    assert announced(member.beat(beat_response(1))) is None
    error = raised(member)
    assert isinstance(error, LocalAssignorError)
    assert error.__cause__ is noted.outcome
    member.beat(beat_response(1))
    assert not member.world.raised(), "reported only once"
    noted.outcome = b"fast"
    member.beat(beat_response(1))
    noted.outcome = ValueError("no disk again")
    member.beat(beat_response(1))
    assert isinstance(raised(member), LocalAssignorError)


def test_an_assignor_class_is_accepted() -> None:
    member = ConsumerMember(group_local_assignors=[Noted])
    member.polls()
    assert announced(member.send()) == [("noted", 0, 2, 3, 0, b"fast")]


# --- results -------------------------------------------------------------------------------------


def test_on_request_it_prepares_computes_and_installs() -> None:
    member, noted, question = signalled()
    me = member.chosen.member_id
    assert isinstance(question.message, ConsumerGroupPrepareAssignmentRequest)
    assert question.destination == ToNode(NODE_1, Purpose.GROUP)
    assert (question.message.member_id, question.message.member_epoch) == (me, 1)
    member.respond(question, state_response())
    ((members, topics),) = noted.given
    assert topics == {"orders": 3}
    assert members["me"] == GroupMember(
        "me",
        "one",
        "b",
        frozenset({"orders"}),
        frozenset({TP}),
        frozenset({TP, TP1}),
        1,
        b"slow",
        4,
    )
    assert members["other"].rack == ""
    result = member.send().message
    assert isinstance(result, ConsumerGroupInstallAssignmentRequest)
    assert (result.member_id, result.member_epoch, result.group_epoch) == (me, 1, 7)
    assert result.error_code == 0
    brought = {
        each.member_id: [(entry.topic_id, entry.partitions) for entry in each.partitions]
        for each in result.members
    }
    assert brought == {"me": [(TOPIC_ID, [1])], "other": [(TOPIC_ID, [0, 2])]}


def test_without_a_request_nothing_is_computed() -> None:
    member, _ = started()
    member.beat(beat_response(1))
    member.iterate()


def test_the_result_is_sent_with_the_current_epoch() -> None:
    member, _, question = signalled()
    member.respond(question, state_response())
    heartbeat = member.chosen._apply_response
    heartbeat(beat_response(4))
    assert member.send().message.member_epoch == 4


def test_only_one_request_is_in_flight() -> None:
    member, noted, question = signalled()
    signal(member)
    member.iterate()
    member.respond(question, state_response())
    result = member.send()
    member.iterate()
    member.respond(result, install_response())
    member.iterate()
    assert len(noted.given) == 1
    signal(member)
    assert isinstance(member.send().message, ConsumerGroupPrepareAssignmentRequest)


REJECTIONS = [
    errors.StaleMemberEpochError,
    errors.UnknownMemberIdError,
    errors.GroupIdNotFoundError,
    errors.NotCoordinatorError,
    errors.CoordinatorLoadInProgressError,
    KafkaConnectionError,
]


def reject(member: ConsumerMember, unsent: UnsentRequest, error: Any, response: Any) -> None:
    if error is KafkaConnectionError:
        unsent.future.fail(error("lost"))
    else:
        member.respond(unsent, response(error))


@pytest.mark.parametrize("error", REJECTIONS)
def test_a_rejected_request_waits_for_the_next_signal(error: type[Exception]) -> None:
    member, noted, question = signalled()
    reject(member, question, error, state_response)
    member.iterate()
    assert not noted.given
    assert member.state is State.STABLE, "the next heartbeat reports the reason"
    assert member.world.background.take() is None
    signal(member)
    member.send()


@pytest.mark.parametrize("error", REJECTIONS)
def test_a_rejected_result_is_dropped_until_the_next_signal(error: type[Exception]) -> None:
    member, noted, question = signalled()
    member.respond(question, state_response())
    reject(member, member.send(), error, install_response)
    member.iterate()
    assert member.world.background.take() is None
    signal(member)
    member.respond(member.send(), state_response())
    assert len(noted.given) == 2


def test_a_new_coordinator_gets_a_new_request() -> None:
    member, noted, question = signalled()
    member.world.group.coordinator.mark_unknown(errors.NotCoordinatorError())
    member.iterate()
    (lookup,) = member.world.poll(member.world.group.coordinator, after_ms=1_000).unsent
    member.respond(lookup, coordinator_response(NODE_2))
    signal(member)
    again = member.send()
    assert again.destination == ToNode(NODE_2, Purpose.GROUP)
    member.respond(question, state_response())
    assert not noted.given, "the previous coordinator's response is ignored"
    member.respond(again, state_response())
    assert len(noted.given) == 1


def test_a_member_that_leaves_stops_computing() -> None:
    member, _, question = signalled()
    member.respond(question, state_response())
    member.leaves()
    assert member.send().message.member_epoch == -1
    member.iterate()


def test_a_member_fenced_meanwhile_installs_nothing() -> None:
    member, noted, question = signalled()
    member.beat(beat_response(-1, error=errors.FencedMemberEpochError))
    member.respond(question, state_response())
    assert not noted.given
    member.iterate()


def test_a_result_does_not_outlive_the_membership() -> None:
    member, noted, question = signalled()
    member.respond(question, state_response())
    assert noted.given
    member.chosen._handle_keep_alive_error(errors.FencedMemberEpochError())
    member.take_event()
    member.done()
    join = member.send()
    assert join.message.member_epoch == 0
    member.respond(join, beat_response(9, ()))
    member.iterate()


# --- failing assignors ---------------------------------------------------------------------------

BAD: list[Any] = [
    ValueError("no idea"),
    {"me": [TopicPartition("unknown", 0)]},
    {"me": None},
    ["me"],
]


@pytest.mark.parametrize("result", BAD)
def test_an_assignors_error_goes_to_the_coordinator_and_the_application(
    result: Any,
) -> None:
    member, noted, question = signalled()
    noted.result = result
    member.respond(question, state_response())
    result = member.send()
    assert (result.message.error_code, result.message.members) == (-1, [])
    error = raised(member)
    assert isinstance(error, LocalAssignorError)
    assert "assign() of assignor noted failed" in str(error)
    member.respond(result, install_response())
    member.iterate()
    assert member.world.background.take() is None, "once"
    assert member.state is State.STABLE


def test_an_unknown_assignor_counts_as_failed() -> None:
    member, _, question = signalled()
    member.respond(question, state_response(assignor="unknown"))
    assert member.send().message.error_code == -1
    assert isinstance(raised(member), LocalAssignorError)


def test_the_name_of_an_unknown_assignor_has_no_effect_on_a_terminal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member, _, question = signalled()
    member.respond(question, state_response(assignor="\x1b[2J\nforged" + "x" * 10_000))
    member.send()
    error = raised(member)
    shown = "".join(traceback.format_exception(error))
    for line in f"{error}\n{shown}\n{caplog.text}".split("\n"):
        assert visible(line) == line
        assert len(line) < 3_000
        assert not line.startswith("forged")


def test_an_invalid_result_is_raised() -> None:
    member, _, question = signalled()
    member.respond(question, state_response())
    member.respond(member.send(), install_response(InvalidAssignmentError))
    assert isinstance(raised(member), InvalidAssignmentError)
    member.iterate()


# --- clusters without support --------------------------------------------------------------------


def unsupported(unsent: UnsentRequest) -> Callable[[], Any]:
    offered = BrokerVersionData((0,), {68: (0, 1), 69: (0, 1)})
    return lambda: choose_version(unsent.message, offered)


@pytest.mark.parametrize("protocol", ["consumer", "auto"])
def test_an_unsupporting_cluster_is_rejected(protocol: str) -> None:
    member = ConsumerMember(group_local_assignors=[Noted], group_protocol=protocol)
    member.polls()
    join = member.send()
    with pytest.raises(UnsupportedVersionError, match="PrepareAssignment") as rejected:
        unsupported(join)()
    join.future.fail(rejected.value)
    assert member.state is State.FATAL, "no protocol to fall back to"
    error = raised(member)
    assert isinstance(error, UnsupportedVersionError)
    assert "remove group_local_assignors" in str(error)


def test_a_heartbeat_without_announcement_goes_to_any_cluster() -> None:
    member, _ = started()
    beat = member.beat(beat_response(1))
    assert unsupported(beat)() == 1
