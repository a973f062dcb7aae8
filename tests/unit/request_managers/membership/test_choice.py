"""The protocol that group_protocol='auto' chooses."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors

from tandem_kafka.assignors import PartitionAssignor
from tandem_kafka.request_managers.membership.classic.membership import ClassicMembership
from tandem_kafka.request_managers.membership.kip848.membership import Kip848Membership
from tandem_kafka.wire.messages import JoinGroupRequest
from tests.unit.request_managers.membership.kip848_member import ConsumerMember


class Nobody(PartitionAssignor):
    name = "nobody"

    def assign(self, members: Any, topics: Any) -> Any:  # noqa: ARG002 - the interface
        return {name: [] for name in members}


def test_auto_falls_back_to_classic_permanently() -> None:
    member = ConsumerMember(group_protocol="auto")
    member.polls()
    member.send().future.fail(errors.UnsupportedVersionError("no such request"))
    assert not member.world.raised()
    assert isinstance(member.manager._membership, ClassicMembership)
    assert isinstance(member.send().message, JoinGroupRequest), "it joins immediately"


def test_the_replaced_membership_is_ignored() -> None:
    member = ConsumerMember(group_protocol="auto")
    old = member.chosen
    member.polls()
    member.send().future.fail(errors.UnsupportedVersionError("no such request"))
    member.world.identity.callback = 5
    old._fail(errors.GroupAuthorizationFailedError("readers"))
    assert member.world.identity.callback == 5, (
        "the replaced manager leaves the new one's callback alone"
    )
    assert not member.world.raised()


@pytest.mark.behaviour(53)
def test_auto_does_not_fall_back_with_a_subscription_pattern() -> None:
    member = ConsumerMember(group_protocol="auto")
    subscription = member.world.subscription
    subscription.unsubscribe()
    subscription.subscribe_regex("orders.*")
    member.polls()
    member.send().future.fail(errors.UnsupportedVersionError("no such request"))
    (error,) = member.world.raised()
    assert isinstance(error, errors.UnsupportedVersionError)
    assert "SubscriptionPattern" in str(error)
    for _ in range(2):
        assert member.world.identity.fatal is error
        assert member.quiet()
        member.polls()
    assert isinstance(member.manager._membership, Kip848Membership)
    member.leaves()
    subscription.unsubscribe()
    subscription.subscribe(["orders"])
    member.polls()
    assert member.manager.resolves_regex
    member.send().future.fail(errors.UnsupportedVersionError("no such request"))
    assert not member.world.raised()
    assert isinstance(member.send().message, JoinGroupRequest), (
        "the classic protocol sends topic names"
    )
    assert not member.manager.resolves_regex


@pytest.mark.parametrize(
    ("options", "supported", "message"),
    [
        ({}, True, ["uses 'consumer' (KIP-848) if the cluster supports it"]),
        ({}, False, ["uses 'consumer'", "the cluster does not support"]),
        ({"group_local_assignors": [Nobody]}, True, ["(KIP-848), because group_local_"]),
    ],
)
def test_the_log_has_the_choice_and_its_reason(
    options: dict[str, Any], supported: bool, message: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    member = ConsumerMember(group_protocol="auto", **options)
    member.polls()
    if supported:
        member.join()
    else:
        member.send().future.fail(errors.UnsupportedVersionError("no such request"))
    lines = [each for each in caplog.messages if "group_protocol='auto'" in each]
    assert len(lines) == len(message)
    assert all(part in line for part, line in zip(message, lines, strict=True))
