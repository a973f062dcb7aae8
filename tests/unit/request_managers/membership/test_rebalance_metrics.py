"""Metrics of a membership, with a simulated clock."""

from __future__ import annotations

import math

import pytest
from kafka import errors

from tandem_kafka.metrics import AGES, COORDINATOR, SENSORS
from tests.unit.request_managers.membership.kip848_member import (
    INTERVAL_MS,
    ConsumerMember,
    beat_response,
)
from tests.unit.request_managers.membership.member import (
    Member,
    heartbeat_response,
    joined_response,
    synced_response,
)
from tests.unit.request_managers.world import World

#: Names of the Java client, which kafka-python uses as well.
EVERYWHERE = {
    "commit-latency-avg",
    "commit-latency-max",
    "commit-rate",
    "commit-total",
    "failed-rebalance-rate-per-hour",
    "failed-rebalance-total",
    "heartbeat-rate",
    "heartbeat-response-time-max",
    "heartbeat-total",
    "join-rate",
    "join-time-avg",
    "join-time-max",
    "join-total",
    "last-heartbeat-seconds-ago",
    "last-rebalance-seconds-ago",
    "partition-assigned-latency-avg",
    "partition-assigned-latency-max",
    "partition-lost-latency-avg",
    "partition-lost-latency-max",
    "partition-revoked-latency-avg",
    "partition-revoked-latency-max",
    "rebalance-latency-avg",
    "rebalance-latency-max",
    "rebalance-latency-total",
    "rebalance-rate-per-hour",
    "rebalance-total",
    "sync-rate",
    "sync-time-avg",
    "sync-time-max",
    "sync-total",
}


def measured(world: World, *names: str) -> list[float]:
    values = world.context.metrics.values()
    assert values is not None
    return [values["consumer-coordinator-metrics"][name] for name in names]


def wait(world: World, duration_ms: int) -> None:
    world.clock.advance_to(world.now_ms + duration_ms)


def rebalances(world: World) -> list[float]:
    """The number of completed rebalances, their total time, and the number of failed ones."""
    return measured(world, "rebalance-total", "rebalance-latency-total", "failed-rebalance-total")


def test_the_names_are_those_of_other_clients() -> None:
    sensors = (each for each in SENSORS.values() if each.group == COORDINATOR)
    named = {name for each in sensors for name in each.statistics}
    named |= {name for name, age in AGES.items() if age.group == COORDINATOR}
    own = {"last-commit-seconds-ago", "last-heartbeat-accepted-seconds-ago"}
    assert named == EVERYWHERE | own


@pytest.mark.parametrize("world", [Member().world, ConsumerMember().world])
def test_the_metrics_before_any_rebalance(world: World) -> None:
    assert rebalances(world) == [0, 0, 0]
    assert measured(world, "last-rebalance-seconds-ago", "last-heartbeat-seconds-ago") == [-1, -1]
    assert all(
        math.isnan(value) or value in (0, -math.inf)
        for value in measured(world, "rebalance-latency-avg", "rebalance-latency-max")
    )


def test_a_kip_848_rebalance_lasts_until_the_target_is_applied() -> None:
    member = ConsumerMember()
    world = member.world
    member.polls()
    joining = member.send()
    wait(world, 50)
    member.respond(joining, beat_response(1, (0, 1)))
    member.iterate()
    member.beat(beat_response(1))  # does not begin another one
    wait(world, 700)
    assert rebalances(world) == [0, 0, 0]
    member.apply_assignment()
    assert rebalances(world) == [1, 5_700, 0]
    member.respond(member.send(), beat_response(1))
    wait(world, 4_000)
    assert measured(world, "last-rebalance-seconds-ago", "last-heartbeat-seconds-ago") == [4, 4]
    member.beat(beat_response(2, (0,)))
    member.iterate()
    wait(world, 200)
    member.take_event()
    member.done()
    member.apply_assignment()
    assert rebalances(world) == [2, 5_900, 0]
    latencies = measured(world, "rebalance-latency-avg", "rebalance-latency-max")
    assert latencies == [2_950, 5_700]
    assert measured(world, "rebalance-rate-per-hour")[0] > 0
    assert measured(world, "last-rebalance-seconds-ago") == [0]


@pytest.mark.parametrize("end", ["fenced", "fatal", "leaves", "silent"])
def test_a_kip_848_rebalance_that_fails(end: str) -> None:
    member = ConsumerMember()
    member.settle()
    member.beat(beat_response(2, (0,)))
    match end:
        case "fenced":
            member.beat(beat_response(error=errors.UnknownMemberIdError))
        case "fatal":
            member.beat(beat_response(error=errors.InvalidRequestError))
        case "leaves":
            member.leaves()
        case _:
            member.send(after_ms=400_000)
    assert rebalances(member.world)[::2] == [1, 1]


def test_a_membership_that_ends_normally_has_no_failed_rebalance() -> None:
    member = ConsumerMember()
    member.settle()
    member.send(after_ms=INTERVAL_MS)
    member.leaves()
    assert rebalances(member.world) == [1, 0, 0]


def test_a_classic_rebalance_lasts_from_revocation_to_assignment() -> None:
    member = Member()
    world = member.world
    member.application_polls()
    join = member.send()
    wait(world, 300)
    member.respond(join, joined_response())
    member.respond(member.send(), synced_response())
    member.apply()
    wait(world, 40)
    assert rebalances(world) == [0, 0, 0]
    member.callback_done()
    assert rebalances(world) == [1, 340, 0]
    beat = member.send(after_ms=3_000)
    wait(world, 2_000)
    assert measured(world, "last-rebalance-seconds-ago", "last-heartbeat-seconds-ago") == [5, 2]
    member.respond(beat, heartbeat_response(errors.RebalanceInProgressError))
    assert member.quiet(), "the listener revokes everything first"
    wait(world, 1_000)
    member.take_numbered_event()
    member.callback_done()
    member.send()
    member.leave()
    assert rebalances(world) == [1, 340, 1]


def test_a_classic_member_removed_while_joining() -> None:
    member = Member()
    member.application_polls()
    member.respond(member.send(), joined_response(errors.UnknownMemberIdError))
    assert rebalances(member.world) == [0, 0, 1]
