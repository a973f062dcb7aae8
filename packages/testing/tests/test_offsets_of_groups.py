"""Offsets of a group: transactions and retention; limits of the settings."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors

from packages.testing.tests.driven import Driven, assignment_of, subscription
from tandem_kafka_testing.coordinator.requests import LeaveGroup
from tandem_kafka_testing.coordinator.settings import GroupSettings

HOUR_MS = 3_600_000
RETENTION: dict[str, Any] = {
    "offsets_retention_ms": 2 * HOUR_MS,
    "offsets_retention_check_interval_ms": HOUR_MS,
    "classic_session_limits_ms": (1, 100 * HOUR_MS),
    "session_limits_ms": (1, 100 * HOUR_MS),
}


# --- transactions --------------------------------------------------------------------------------


def test_a_later_commit_outside_the_transaction_wins() -> None:
    driven = Driven()
    driven.commit("", -1, producer_id=7, p0=8, p1=8)
    driven.commit("", -1, p0=5)
    driven.fail_over()
    driven.end(7, committed=True)
    assert driven.committed() == {0: 5, 1: 8}


def test_the_next_coordinator_knows_of_open_transactions() -> None:
    driven = Driven()
    driven.commit("", -1, producer_id=7, p0=8)
    driven.commit("", -1, producer_id=9, p1=9)
    driven.end(9, committed=True)
    driven.fail_over()
    assert (driven.committed(), driven.unstable()) == ({1: 9}, {0})
    driven.end(7, committed=True)
    driven.fail_over()
    assert (driven.committed(), driven.unstable()) == ({0: 8, 1: 9}, set())


# --- retention -----------------------------------------------------------------------------------


def test_offsets_of_a_simple_consumer_expire_after_the_last_commit() -> None:
    driven = Driven(**RETENTION)
    driven.commit("", -1, p0=3)
    driven.sleep(HOUR_MS + 1)
    driven.commit("", -1, p1=4)
    driven.sleep(HOUR_MS)
    assert driven.committed() == {1: 4}
    driven.fail_over()
    assert driven.committed() == {1: 4}
    driven.sleep(2 * HOUR_MS)
    assert driven.committed() == {}
    assert not driven.coordinator.log.partitions(object)  # type: ignore[type-var]


def test_offsets_of_an_empty_classic_group_expire() -> None:
    driven = Driven(**RETENTION)
    classic = driven.results[driven.join("", session_ms=50 * HOUR_MS)].member_id
    driven.sync(classic, 1, **{classic: assignment_of(0)})
    driven.commit(classic, 1, p0=3)
    driven.sleep(10 * HOUR_MS)
    assert driven.committed() == {0: 3}, "the topic has a subscriber"
    driven.ask(LeaveGroup(member_id=classic))
    driven.fail_over()
    driven.sleep(HOUR_MS)
    assert driven.committed() == {0: 3}
    driven.sleep(HOUR_MS)
    assert driven.committed() == {}
    assert driven.coordinator.classic.generation == 0, "there is no such group any more"


def test_offsets_of_a_topic_without_subscribers_expire() -> None:
    driven = Driven(**RETENTION)
    said = subscription(topics=["more"])
    classic = driven.results[driven.join("", said, session_ms=50 * HOUR_MS)].member_id
    driven.sync(classic, 1, **{classic: b""})
    driven.commit(classic, 1, p0=3)
    driven.sleep(3 * HOUR_MS)
    assert driven.committed() == {}
    assert classic in driven.coordinator.classic.members


@pytest.mark.parametrize(
    ("fields", "kept"),
    [({}, True), ({"topics": frozenset(["more"])}, False), ({"regex": "ord.*"}, True)],
)
def test_offsets_of_a_kip_848_group_expire_unless_subscribed(fields: Any, kept: bool) -> None:
    driven = Driven(**RETENTION, session_timeout_ms=50 * HOUR_MS)
    driven.beat("m", 0, **{"topics": frozenset(), **fields} if fields else {})
    driven.commit("m", 1, p0=3)
    driven.sleep(3 * HOUR_MS)
    assert driven.committed() == ({0: 3} if kept else {})
    driven.beat("m", -1)
    driven.sleep(HOUR_MS)
    assert driven.committed() == {}


def test_offsets_that_a_transaction_may_change_do_not_expire() -> None:
    driven = Driven(**RETENTION)
    driven.commit("", -1, p0=3)
    driven.commit("", -1, producer_id=7, p0=8)
    driven.sleep(5 * HOUR_MS)
    assert driven.committed() == {0: 3}
    driven.end(7, committed=False)
    driven.sleep(HOUR_MS)
    assert driven.committed() == {}


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.design("001", "Broker Configurations")
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"heartbeat_interval_ms": 20_000}, "heartbeat_interval_ms=20000: must be from 100 to"),
        ({"session_timeout_ms": 10}, "session_timeout_ms=10: must be from 1000 to 1800000"),
        (
            {"session_timeout_ms": 2_000, "heartbeat_interval_ms": 2_000},
            "heartbeat_interval_ms=2000: must be below session_timeout_ms=2000",
        ),
        ({"migration_policy": "up"}, "migration_policy='up': must be one of disabled, upgrade"),
        ({"commit_epochs": "any"}, "commit_epochs='any': must be one of exact, assigned"),
    ],
)
def test_a_setting_beyond_its_limits_is_rejected(changes: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        GroupSettings(**changes)
    driven = Driven()
    before = driven.coordinator.settings
    with pytest.raises(ValueError, match=complaint):
        driven.coordinator.configure(**changes)
    assert driven.coordinator.settings is before


@pytest.mark.design("000", "Maximum session timeout")
@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_classic_session_has_limits(session_ms: int) -> None:
    driven = Driven()
    rejected = driven.join("", session_ms=session_ms)
    assert driven.results[rejected].error is errors.InvalidSessionTimeoutError
    driven.beat("m", 0)
    rejected = driven.join("", session_ms=session_ms)
    assert driven.results[rejected].error is errors.InvalidSessionTimeoutError


def test_a_classic_group_has_a_maximum_size() -> None:
    driven = Driven(classic_max_size=1)
    first = driven.alone()
    rejected = driven.join("")
    assert driven.results[rejected].error is errors.GroupMaxSizeReachedError
    assert driven.heartbeat(first, 1) is None
    driven.coordinator.configure(classic_max_size=2)
    second = driven.join("")
    third = driven.join("")
    assert third not in driven.results
    late = driven.results[driven.join(first)]
    assert late.error is errors.GroupMaxSizeReachedError, "those that come first have the room"
    assert second not in driven.results, "this causes no response"
    driven.sleep(60_000)
    assert driven.results[second].generation == driven.results[third].generation == 2


@pytest.mark.design("001", "GROUP_MAX_SIZE_REACHED")
def test_the_maximum_size_of_a_kip_848_group_includes_classic_members() -> None:
    driven = Driven(consumer_max_size=2)
    driven.beat("a", 0)
    driven.join("", new_id="c")
    assert set(driven.coordinator.consumer.members) == {"a", "c"}
    assert driven.beat("b", 0).error is errors.GroupMaxSizeReachedError
    rejected = driven.join("")
    assert driven.results[rejected].error is errors.GroupMaxSizeReachedError
    again = driven.join("c")
    assert driven.results[again].error is None


def test_a_group_too_big_for_the_other_protocol_is_not_converted() -> None:
    driven = Driven(consumer_max_size=1, classic_max_size=1)
    first = driven.alone()
    driven.coordinator.configure(classic_max_size=2)
    second = driven.join("")
    driven.join(first)
    assert driven.results[second].generation == 2
    assert driven.beat("m", 0).error is errors.GroupIdNotFoundError
    driven.coordinator.configure(consumer_max_size=3, classic_max_size=1)
    assert driven.beat("m", 0).error is None
    driven.beat("m", -1)
    assert len(driven.coordinator.consumer.members) == 2, "two are no classic group"
