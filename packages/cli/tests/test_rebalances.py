"""`tandem-kafka rebalances` on groups of the simulated cluster, in its own time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.errors import GroupAuthorizationFailedError, NotCoordinatorError
from kafka.protocol.admin.groups import DescribeGroupsRequest

from packages.cli.tests.commands import Ran, Run
from packages.cli.tests.test_tables import Terminal
from tandem_kafka import KafkaConsumer
from tandem_kafka.types import TopicPartition
from tandem_kafka.wire.messages import ConsumerGroupDescribeRequest
from tandem_kafka_cli.groups import (
    DEAD,
    Group,
    ListedGroup,
    Member,
    classic_group,
    consumer_group,
)
from tandem_kafka_cli.rebalances import Names, Rebalances
from tandem_kafka_testing.cluster.apis import APIS
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.laboratory import SimulatedKafka

PROTOCOLS = ("classic", "consumer")
BILLING = "billing"


class Administration:
    """Describes a group as its simulated coordinator does, with the names of the clients."""

    def __init__(self, kafka: SimulatedKafka, protocol: str) -> None:
        self._kafka = kafka
        self._protocol = protocol
        #: What the next looks raise.
        self.errors: list[Exception] = []

    def close(self) -> None: ...

    def groups(self) -> list[ListedGroup]:
        return [ListedGroup(BILLING, self._protocol, "consumer", "Stable")]

    def coordinator(self, _: str) -> int:
        return 1

    def describe(self, _: Any) -> list[Group]:
        if self.errors:
            raise self.errors.pop(0)
        if self._protocol == "classic":
            response = self._ask(DescribeGroupsRequest(groups=[BILLING]), 5)
            client = object.__new__(KafkaAdminClient)
            group = classic_group(client._describe_groups_process_response(response)[BILLING])
        else:
            response = self._ask(ConsumerGroupDescribeRequest(group_ids=[BILLING]), 1)
            group = consumer_group(response.groups[0])
        names = {
            each.group_metadata().member_id: each.config["client_id"]
            for each in self._kafka.simulation.consumers
        }
        named = (replace(each, client_id=names.get(each.member_id, "")) for each in group.members)
        return [replace(group, members=tuple(named))]

    def _ask(self, request: Any, version: int) -> Any:
        cluster = self._kafka.cluster
        broker = cluster.brokers[cluster.coordinator_of(BILLING)]
        connection: Any = None
        call = Call(cluster, broker, connection, request.API_KEY, version, 0, request)
        return APIS[request.API_KEY].handle(call)


class World:
    """A group, and what happens to it while the command waits."""

    def __init__(self, kafka: SimulatedKafka, run: Run, protocol: str) -> None:
        self.kafka = kafka
        self.administration = Administration(kafka, protocol)
        self.protocol = protocol
        self._run = run
        self._members: list[KafkaConsumer] = []

    def join(self, name: str) -> KafkaConsumer:
        """Start a member."""
        member = self.kafka.consumer(
            "orders", group_id=BILLING, group_protocol=self.protocol, client_id=name
        )
        self._members.append(member)
        return member

    def leave(self, member: KafkaConsumer) -> None:
        """Close a member."""
        self._members.remove(member)
        member.close()

    def settle(self) -> None:
        """Wait until all partitions have owners among these members."""
        self.kafka.poll_until(lambda: all(each.assignment() for each in self._members))
        self._pass(5_000)

    def watch(self, *actions: Callable[[], object], arguments: tuple[str, ...] = ()) -> Ran:
        """Run the command; an action follows each look, and after the last one Ctrl-C."""
        left = iter(actions)

        def sleep(duration_ms: float) -> None:
            action = next(left, None)
            if action is None:
                raise KeyboardInterrupt
            action()
            self._pass(round(duration_ms))

        return self._run(
            "rebalances", "-g", BILLING, *arguments,
            administration=lambda _: self.administration, sleep_ms=sleep,
        )  # fmt: skip

    def _pass(self, duration_ms: int) -> None:
        until_ms = self.kafka.now_ms + duration_ms
        while self.kafka.now_ms < until_ms:
            self.kafka.advance(50)
            for member in self._members:
                member.poll(0)


@pytest.fixture(params=PROTOCOLS)
def world(request: pytest.FixtureRequest, cluster: SimulatedKafka, run: Run) -> World:
    return World(cluster, run, request.param)


def nothing() -> None: ...


def test_members_join_and_leave(world: World) -> None:
    world.join("billing-1")
    world.settle()
    second: list[KafkaConsumer] = []
    ran = world.watch(
        lambda: second.append(world.join("billing-2")),
        *[nothing] * 60,
        lambda: world.leave(second[0]),
        *[nothing] * 60,
        arguments=("--json", "--interval", "100ms"),
    )
    assert ran.code == 130
    rows = [row for row in ran.rows if row["event"] != "rebalancing"]
    begin = ["group", "member"]
    assert [row["event"] for row in rows] == [
        *begin, "joined", "moved", "rebalanced", "gone", "moved", "rebalanced", "summary"
    ]  # fmt: skip
    _, member, joined, taken, _, gone, back, last, summary = rows
    assert member["partitions"] == [["orders", 0], ["orders", 1]]
    assert (member["member"], joined["member"], gone["member"]) == (
        "billing-1", "billing-2", "billing-2"
    )  # fmt: skip
    assert (taken["from"], taken["to"]) == ("billing-1", "billing-2")
    assert (back["from"], back["to"]) == ("billing-2", "billing-1")
    assert taken["partitions"] == back["partitions"] != []
    assert (last["epoch"] is None) == (world.protocol == "classic")
    assert (summary["rebalances"], summary["causes"]) == (2, {"billing-2": 2})
    took_ms = sum(row.get("duration_ms", 0) for row in rows)
    assert summary["rebalancing_ms"] == took_ms
    assert rows[-1]["timestamp"] - rows[0]["timestamp"] == summary["watched_ms"]
    assert 500 < took_ms < 7_000, "until billing-1 has heard of it"


def test_an_expelled_member_gets_its_name_back(world: World) -> None:
    member = world.join("billing-1")
    world.settle()

    def expel() -> None:
        world.kafka.cluster.expel(BILLING, str(member.group_metadata().member_id))

    ran = world.watch(expel, *[nothing] * 90, arguments=("--json", "--interval", "100ms"))
    names = [(row["event"], row.get("member")) for row in ran.rows]
    assert names.index(("gone", "billing-1")) < names.index(("joined", "billing-1"))
    assert set(ran.rows[-1]["causes"]) == {"billing-1"}


def test_lines_for_people_and_an_end(world: World) -> None:
    world.join("billing-1")
    world.settle()
    begun_ms = world.kafka.now_ms
    ran = world.watch(*[nothing] * 9, arguments=("--for", "2500ms"))
    assert ran.code == 0
    assert 2_500 <= world.kafka.now_ms - begun_ms < 2_600
    lines = [line.partition(" ")[2] for line in ran.out.splitlines()]
    epoch = "" if world.protocol == "classic" else ", epoch 1"
    assert lines == [
        f"billing: Stable, 1 member, protocol {world.protocol}{epoch}",
        "billing-1 has orders:0-1",
        "0 rebalances, 0.0 of 2 s",
    ]


def test_a_coordinator_that_moves(world: World) -> None:
    world.join("billing-1")
    world.settle()
    errors = [NotCoordinatorError(), NotCoordinatorError()]
    ran = world.watch(lambda: world.administration.errors.extend(errors), *[nothing] * 4)
    lines = [line.partition(" ")[2] for line in ran.out.splitlines()]
    assert lines[2:] == [
        "the coordinator cannot describe the group now: NotCoordinatorError",
        "the coordinator describes the group again",
        "0 rebalances, 0.0 of 5 s",
    ]


def test_an_error_for_good_ends_it(world: World) -> None:
    world.administration.errors.append(GroupAuthorizationFailedError("billing"))
    ran = world.watch()
    assert (ran.code, ran.out) == (1, "")
    assert "needs the ACLs READ and DESCRIBE on the group" in ran.err


def test_a_group_that_does_not_exist(world: World) -> None:
    ran = world.watch(arguments=("-g", "biling"))
    assert ran.code == 1
    assert ran.err == "tandem-kafka: the group 'biling' does not exist; did you mean 'billing'?\n"


def test_the_timeline_on_a_terminal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members keep their colours, and each line fits into 80 columns."""
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    world.join("billing-1")
    world.settle()
    world.watch(*[nothing] * 4, lambda: world.join("billing-2"), *[nothing] * 50)
    last = stream.getvalue().rpartition("MEMBER")[2]
    assert "\x1b[36mbilling-1" in last
    assert "\x1b[35mbilling-2" in last
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    lines = [line.rstrip() for line in plain.splitlines()]
    assert max(map(len, lines)) <= 80
    after = lines[
        len(lines) - lines[::-1].index(next(it for it in lines[::-1] if "MEMBER" in it)) :
    ]
    assert after[0].split()[:2] == ["group", "billing"]
    assert after[0].split()[2] == "─" * 40


def member(number: int, name: str = "app") -> Member:
    return Member(f"id-{number}", name, "host")


def test_members_with_one_name_are_numbered() -> None:
    names = Names()
    first, second = names.of(member(1)), names.of(member(2))
    assert (first, second) == ("app", "app #2")
    names.free(first)
    assert names.of(member(3)) == "app"
    assert names.of(Member("id", "app\x1b[2J", "")) == "app\\x1b[2J"


def test_a_group_of_members_that_never_return_needs_bounded_memory() -> None:
    rebalances = Rebalances()
    for number in range(5_000):
        members = (member(number, f"app-{number}"),)
        rebalances.add(number, Group("billing", "classic", "Stable", "", members=members))
    assert rebalances.count == 4_999
    assert len(rebalances.causes) <= 1_001
    assert len(rebalances._names._holders) <= 1_001


def test_a_group_that_is_deleted_and_comes_back_with_the_other_protocol() -> None:
    first, second = (
        replace(member(number), assigned=(TopicPartition("orders", 0),)) for number in (1, 2)
    )
    looks = [
        Group(BILLING, "classic", "Stable", "", members=(first,)),
        Group(BILLING, "classic", "Empty", ""),
        Group(BILLING, "classic", DEAD, ""),
        Group(BILLING, "consumer", "Stable", "", 1, members=(second,)),
    ]
    rebalances = Rebalances()
    lines = [["".join(each.line) for each in rebalances.add(1_000, look)] for look in looks]
    assert lines[1:] == [
        [
            "app is gone: it left or was expelled",
            "orders:0 from app to nobody",
            "rebalanced since the last refresh: Empty",
        ],
        ["state Dead"],
        [
            "app joined from host",
            "orders:0 to app",
            "rebalanced since the last refresh: Stable, epoch 1",
        ],
    ]
