"""The tables of reactions, and reactions to errors that are not in them."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka import errors as own_errors
from tandem_kafka.errors import KafkaError
from tandem_kafka.request_managers import reactions
from tandem_kafka.request_managers.reactions import Reaction, reaction_to

TABLES = {
    name: getattr(reactions, name)
    for name in (
        "COMMIT",
        "COMMIT_RELEASING",
        "COORDINATOR",
        "FETCH",
        "GROUP_HEARTBEAT",
        "LIST_OFFSETS",
        "MEMBERSHIP",
        "OFFSET_FETCH",
    )
}


#: The requirements of the protocol, independent of the tables: by request, then by
#: reaction, the errors by their names in Kafka (clients/.../Errors).
EXPECTED: dict[str, dict[Reaction, str]] = {
    "COORDINATOR": {
        Reaction.RETRY: "CoordinatorNotAvailable CoordinatorLoadInProgress CorrelationId "
        "KafkaConnection RequestTimedOut",
        Reaction.FAIL: "GroupAuthorizationFailed InvalidGroupId",
        Reaction.RAISE: "KafkaProtocol InvalidReceive Unknown",
    },
    "COMMIT": {
        # The coordinator may have moved, and it is unknown whether the commit arrived.
        Reaction.REDISCOVER: "CoordinatorNotAvailable NotCoordinator RequestTimedOut "
        "KafkaConnection",
        Reaction.RETRY: "CoordinatorLoadInProgress",
        Reaction.REFRESH: "UnknownTopicOrPartition UnknownTopicId",
        # Another member may own the partitions, so it is never retried.
        Reaction.FENCED: "UnknownMemberId IllegalGeneration StaleMemberEpoch RebalanceInProgress",
        Reaction.FAIL: "FencedInstanceId GroupAuthorizationFailed TopicAuthorizationFailed "
        "OffsetMetadataTooLarge InvalidCommitOffsetSize KafkaProtocol",
    },
    "COMMIT_RELEASING": {
        Reaction.REDISCOVER: "CoordinatorNotAvailable NotCoordinator RequestTimedOut "
        "KafkaConnection",
        Reaction.RETRY: "CoordinatorLoadInProgress StaleMemberEpoch",
        Reaction.FENCED: "UnknownMemberId IllegalGeneration RebalanceInProgress",
        # A rebalance does not wait for a deleted topic (KAFKA-16224).
        Reaction.FAIL: "UnknownTopicOrPartition UnknownTopicId FencedInstanceId "
        "GroupAuthorizationFailed TopicAuthorizationFailed OffsetMetadataTooLarge "
        "InvalidCommitOffsetSize KafkaProtocol",
    },
    "OFFSET_FETCH": {
        Reaction.REDISCOVER: "CoordinatorNotAvailable NotCoordinator RequestTimedOut "
        "KafkaConnection",
        Reaction.RETRY: "CoordinatorLoadInProgress UnstableOffsetCommit StaleMemberEpoch",
        Reaction.REFRESH: "UnknownTopicOrPartition UnknownTopicId",
        Reaction.FAIL: "GroupAuthorizationFailed TopicAuthorizationFailed KafkaProtocol",
    },
    "MEMBERSHIP": {
        Reaction.REDISCOVER: "CoordinatorNotAvailable NotCoordinator KafkaConnection "
        "RequestTimedOut",
        Reaction.RETRY: "CoordinatorLoadInProgress CorrelationId",
        Reaction.REJOIN: "RebalanceInProgress MemberIdRequired",
        Reaction.LOST: "IllegalGeneration UnknownMemberId",
        Reaction.FAIL: "FencedInstanceId InconsistentGroupProtocol InvalidSessionTimeout",
        Reaction.RAISE: "GroupAuthorizationFailed GroupMaxSizeReached KafkaProtocol "
        "InvalidReceive Unknown Kafka",
    },
    "GROUP_HEARTBEAT": {
        Reaction.REDISCOVER: "CoordinatorNotAvailable NotCoordinator KafkaConnection "
        "RequestTimedOut",
        Reaction.RETRY: "CoordinatorLoadInProgress CorrelationId",
        Reaction.LOST: "UnknownMemberId FencedMemberEpoch",
        Reaction.RAISE: "GroupAuthorizationFailed GroupMaxSizeReached TopicAuthorizationFailed "
        "KafkaProtocol InvalidReceive Unknown Kafka",
        Reaction.FAIL: "InvalidRequest InvalidRegularExpression "
        "UnsupportedAssignor UnsupportedVersion UnreleasedInstanceId FencedInstanceId",
    },
    "LIST_OFFSETS": {
        Reaction.REFRESH: "NotLeaderForPartition ReplicaNotAvailable KafkaStorage "
        "OffsetNotAvailable LeaderNotAvailable FencedLeaderEpoch UnknownLeaderEpoch "
        "UnknownTopicOrPartition KafkaConnection",
        Reaction.RETRY: "RequestTimedOut",
        Reaction.NONE: "UnsupportedForMessageFormat",
        Reaction.FAIL: "TopicAuthorizationFailed KafkaProtocol",
    },
    "FETCH": {
        # They do not concern the offset, so the position stays (UnknownTopicId as well: the
        # topic may only be new to this broker).
        Reaction.REFRESH: "NotLeaderForPartition ReplicaNotAvailable KafkaStorage "
        "FencedLeaderEpoch OffsetNotAvailable UnknownTopicOrPartition UnknownTopicId "
        "InconsistentTopicId",
        Reaction.RETRY: "UnknownLeaderEpoch Unknown",
        Reaction.RESET: "OffsetOutOfRange",
        Reaction.RAISE: "TopicAuthorizationFailed CorruptRecord",
    },
}


def test_every_request_has_its_expectations() -> None:
    assert EXPECTED.keys() == TABLES.keys()


@pytest.mark.parametrize(
    ("name", "reaction", "error"),
    [
        (name, reaction, error)
        for name, expected in EXPECTED.items()
        for reaction, errors_ in expected.items()
        for error in errors_.split()
    ],
)
def test_errors_have_the_reactions_that_the_protocol_requires(
    name: str, reaction: Reaction, error: str
) -> None:
    kind = getattr(errors, f"{error}Error", None) or getattr(own_errors, f"{error}Error")
    assert reaction_to(TABLES[name], kind) is reaction
    assert reaction_to(TABLES[name], kind("what")) is reaction


@pytest.mark.parametrize("name", TABLES)
def test_no_table_has_an_unexpected_entry(name: str) -> None:
    expected = " ".join(EXPECTED[name].values()).split()
    for error in TABLES[name]:
        assert issubclass(error, KafkaError)
        assert error.__name__.removesuffix("Error") in expected


@pytest.mark.parametrize("name", TABLES)
def test_an_error_in_no_table_is_retried_only_if_retriable(name: str) -> None:
    class PassingError(KafkaError):
        retriable = True

    assert reaction_to(TABLES[name], PassingError()) is Reaction.RETRY
    others = TABLES[name].get(KafkaError, Reaction.FAIL)
    assert reaction_to(TABLES[name], KafkaError()) is others
    assert reaction_to(TABLES[name], ValueError()) is others


@pytest.mark.parametrize("name", ["COORDINATOR", "MEMBERSHIP", "GROUP_HEARTBEAT"])
@pytest.mark.parametrize("code", [-23552, -1, 176])
def test_an_unknown_error_code_ends_no_membership(name: str, code: int) -> None:
    assert reaction_to(TABLES[name], errors.for_code(code)) is Reaction.RAISE


def test_a_subclass_has_the_reaction_of_its_base_class() -> None:
    class LocalError(errors.NotCoordinatorError):
        pass

    assert reaction_to(reactions.COMMIT, LocalError) is Reaction.REDISCOVER


@pytest.mark.parametrize("name", TABLES)
def test_what_is_raised_can_be_imported(name: str) -> None:
    raised = {e for e, r in TABLES[name].items() if r in {Reaction.FAIL, Reaction.RAISE}}
    assert {each.__name__ for each in raised} - {*own_errors.__all__} == set()
