"""What the invariants of stories find, where a broken consumer would be a long story."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tandem_kafka import KafkaConsumer
from tandem_kafka.events.completable import NO_DEADLINE_MS
from tandem_kafka.request_managers.base import ANY_NODE, FOREVER_MS, UnsentRequest
from tandem_kafka.testing import Simulation
from tandem_kafka.testing.stories import SCENARIOS, Violation
from tandem_kafka.testing.stories.invariants import WAITING
from tandem_kafka.testing.stories.members import Members
from tandem_kafka.testing.stories.numbered import create_topic
from tandem_kafka.wire.messages import MetadataRequest


@pytest.fixture
def members() -> Iterator[Members]:
    """One member that has joined, and no faults."""
    scenario = SCENARIOS["consumer"]
    with Simulation() as simulation:
        partitions = create_topic(simulation, "orders", 2)
        options = {**scenario.options, "max_in_flight_requests_per_connection": 100}
        members = Members(simulation, scenario, options, partitions)
        members.join()
        members.settle(20_000)
        members.hostile = True
        yield members
        simulation.cluster.start(1)


def put(member: KafkaConsumer, count: int) -> None:
    """Have a request put into the queue of the network thread so many times."""
    for _ in range(count):
        request = UnsentRequest(MetadataRequest(), ANY_NODE, FOREVER_MS, NO_DEADLINE_MS)
        member._core.link.loop._client.add(request, 0)
    member._core.link.loop._transport.wakeup()


def test_requests_that_cannot_be_sent_may_not_pile_up(members: Members) -> None:
    (member,) = members.listeners
    members.simulation.cluster.stop(1)
    members.simulation.sleep(1_000)
    put(member, WAITING - 5)
    members.invariants.check()
    put(member, 6)
    with pytest.raises(Violation, match=r"requests pile up: unsent=3\d"):
        members.invariants.check()


def test_requests_that_are_not_answered_may_not_pile_up(members: Members) -> None:
    (member,) = members.listeners
    put(member, 1)
    members.poll(member, 500)  # there is a connection for them
    members.simulation.network.silent.add(members.simulation.cluster.brokers[1].address)
    put(member, WAITING - 5)
    members.poll(member, 10)
    put(member, 6)
    with pytest.raises(Violation, match=r"requests pile up: unsent=0, in_flight=3\d"):
        members.poll(member, 10)


def test_commits_that_wait_for_a_coordinator_may_not_pile_up(members: Members) -> None:
    (member,) = members.listeners
    members.simulation.cluster.stop(1)
    members.simulation.sleep(1_000)
    for _ in range(WAITING):
        member.commit_async()
        members.poll(member, 10)
    member.commit_async()
    with pytest.raises(Violation, match=f"commits={WAITING + 1}"):
        members.poll(member, 10)
