"""Groups and their offsets, as a stand-in for the client of administration describes them."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import CoordinatorNotAvailableError, GroupIdNotFoundError, NotCoordinatorError
from kafka.protocol.admin import DescribeGroupsRequest

from packages.cli.tests.commands import Run
from tandem_kafka import KafkaConsumer, ShareConsumer
from tandem_kafka.errors import GroupAuthorizationFailedError, KafkaError
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tandem_kafka.wire.messages import (
    ConsumerGroupDescribeRequest,
    FindCoordinatorRequest,
    ShareGroupDescribeRequest,
)
from tandem_kafka_cli import administration as administration_module
from tandem_kafka_cli.groups import DEAD, Group, ListedGroup, Member
from tandem_kafka_testing.laboratory import SimulatedKafka
from tandem_kafka_testing.served import ServedKafka

BILLING = ListedGroup("billing", "classic", "consumer", "STABLE")


class Administration:
    """Knows one group."""

    def __init__(self, _: object) -> None: ...

    def close(self) -> None: ...

    def groups(self) -> list[ListedGroup]:
        return [BILLING]

    def coordinator(self, _: str) -> int:
        return 0

    def describe(self, _: Any) -> list[Group]:
        return [Group("billing", "classic", "STABLE", assignor="range\x1b[2J")]

    def committed(self, _: str) -> dict[TopicPartition, OffsetAndMetadata]:
        epochs = [0, 7, -1]
        return {
            TopicPartition("orders", number): OffsetAndMetadata(5, "", epoch)
            for number, epoch in enumerate(epochs)
        }


class Joining(Administration):
    """A member joins the group after the first look."""

    def __init__(self, _: object) -> None:
        self.looks = 0

    def groups(self) -> list[ListedGroup]:
        self.looks += 1
        return [replace(BILLING, state="EMPTY" if self.looks == 1 else "STABLE")]

    def describe(self, _: Any) -> list[Group]:
        return [Group("billing", "classic", "STABLE", "", members=(Member("m", "app", "host"),))]


def test_a_reset_looks_again_for_members_before_it_commits(
    run: Run, cluster: SimulatedKafka
) -> None:
    arguments = ("offsets", "reset", "-g", "billing", "-t", "orders", "--to", "earliest", "--yes")
    ran = run(*arguments, administration=Joining)
    assert ran.code == 1
    assert "has 1 member (app)" in ran.err
    assert cluster.cluster.committed("billing", TopicPartition("orders", 0)) is None


@pytest.mark.parametrize(
    "command",
    [
        ("lag",),
        ("groups",),
        ("rebalances",),
        ("offsets", "show"),
        ("offsets", "delete", "-t", "orders"),
        ("offsets", "reset", "-t", "orders", "--to", "group:secret", "--dry-run"),
    ],
)
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (GroupAuthorizationFailedError, "not authorized: this user may not describe the group"),
        (CoordinatorNotAvailableError, "the group 'secret' does not exist"),
        (None, "the group 'secret' does not exist"),
    ],
)
def test_a_group_that_no_broker_lists(
    run: Run, command: tuple[str, ...], error: type[KafkaError] | None, text: str
) -> None:
    """The list leaves out groups that the user may not describe; the coordinator says so."""

    class Closed(Administration):
        def coordinator(self, _: str) -> int:
            if error is not None:
                raise error
            return 0

        def committed(self, _: str) -> dict[TopicPartition, OffsetAndMetadata]:
            return {}

    ran = run(*command, "-g", "secret", administration=Closed)
    assert ran.code == 1
    assert ran.err.startswith(f"tandem-kafka: {text}")
    allowed = error is not GroupAuthorizationFailedError
    assert allowed or ran.err.endswith("User:... --operation Describe --group secret\n")


def test_the_epochs_of_offsets(run: Run) -> None:
    rows = run("offsets", "show", "-g", "billing", "-J", administration=Administration).rows
    assert [row["leader_epoch"] for row in rows] == [0, 7, None]


def test_the_names_that_members_choose_cannot_control_the_terminal(run: Run) -> None:
    ran = run("groups", "-g", "billing", administration=Administration)
    assert "assignor range\\x1b[2J" in ran.out
    assert "\x1b" not in ran.out


def test_a_log_line_cannot_control_the_terminal(run: Run) -> None:
    def refused(**_: object) -> object:
        logging.getLogger("tandem_kafka.network").warning("the broker says: %s", "no\x1b[2J")
        raise KeyboardInterrupt

    ran = run("tail", "-t", "orders", "--verbose", consumer=refused)
    assert "the broker says: no\\x1b[2J\n" in ran.err


def test_the_lag_of_an_offset_beyond_the_end_is_negative(run: Run, cluster: SimulatedKafka) -> None:
    """As kafka-consumer-groups.sh shows it. The total keeps the lag of other partitions."""
    cluster.produce("orders", *[b"record"] * 9, partition=0)
    rows = run("lag", "-g", "billing", "-J", administration=Administration).rows
    assert [(row["committed"], row["end"], row["lag"]) for row in rows] == [
        (5, 9, 4),
        (5, 0, -5),
        (5, None, None),
    ]
    ran = run("lag", "-g", "billing", "--limit", "3", administration=Administration)
    assert ran.out.splitlines()[2].split()[:5] == ["orders", "1", "5", "0", "-5"]
    assert ran.out.endswith(
        "total 4, unknown in 1 partition, committed beyond the end of 1 partition\n"
    )
    assert ran.code == 1


@pytest.mark.parametrize(
    ("error", "code"), [(NotCoordinatorError, 130), (GroupAuthorizationFailedError, 1)]
)
def test_the_lag_is_watched_while_the_coordinator_moves(
    run: Run, error: type[KafkaError], code: int
) -> None:
    class Moving(Administration):
        def describe(self, groups: Any) -> list[Group]:
            if looks.pop():
                raise error
            return super().describe(groups)

    def sleep(_: float) -> None:
        if not looks:
            raise KeyboardInterrupt

    looks = [False, True, False]
    ran = run("lag", "-g", "billing", "-w", "-J", administration=Moving, sleep_ms=sleep)
    assert ran.code == code
    assert len(ran.rows) == (6 if code == 130 else 3)


def test_a_share_group_of_a_feature_that_is_disabled(run: Run) -> None:
    """The other groups are listed."""

    class Disabled(Administration):
        def groups(self) -> list[ListedGroup]:
            return [BILLING, ListedGroup("jobs", "share", "share", "Empty")]

        def describe(self, groups: Any) -> list[Group]:
            if any(each.protocol == "share" for each in groups):
                raise administration_module.NoShareGroupsError
            return super().describe(groups)

    rows = run("groups", "-J", administration=Disabled).rows
    assert [(row["group"], row["state"], row["members"]) for row in rows] == [
        ("billing", "STABLE", 0),
        ("jobs", "Empty", None),
    ]
    ran = run("groups", "-g", "jobs", administration=Disabled)
    assert "the cluster has no share groups (KIP-932); they need Kafka 4.2" in ran.err


@pytest.mark.parametrize(
    ("protocol", "command", "text"),
    [
        ("streams", "groups", "'billing' is a streams group, which has no consumers"),
        ("streams", "lag", "'billing' is a streams group, which has no consumers"),
        (
            "share",
            "rebalances",
            "'billing' is a share group, which does not rebalance",
        ),
    ],
)
def test_a_group_for_which_a_command_is_not_made(
    run: Run, protocol: str, command: str, text: str
) -> None:
    class Other(Administration):
        def groups(self) -> list[ListedGroup]:
            return [replace(BILLING, protocol=protocol)]

    ran = run(command, "-g", "billing", administration=Other)
    assert ran.code == 1
    assert ran.err.startswith(f"tandem-kafka: {text}")


def test_the_command_in_a_message_takes_any_name_of_a_group(run: Run) -> None:
    class Other(Administration):
        def groups(self) -> list[ListedGroup]:
            return [replace(BILLING, group_id="my jobs", protocol="share")]

    ran = run("rebalances", "-g", "my jobs", administration=Other)
    assert "`tandem-kafka groups -g 'my jobs'` shows them" in ran.err


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (CoordinatorNotAvailableError, CoordinatorNotAvailableError),
        (NotCoordinatorError, NotCoordinatorError),
        (GroupIdNotFoundError, None),
    ],
)
def test_the_error_of_a_group_that_is_not_described(
    error: type[KafkaError], raised: type[KafkaError] | None
) -> None:
    """kafka-python's client returns it as text; a group that does not exist is dead."""
    described = {
        "group_id": "billing",
        "group_state": "Dead",
        "protocol_data": "",
        "members": [],
        "error": str(error()),
    }
    administration = object.__new__(administration_module.Administration)
    administration._client = SimpleNamespace(
        describe_groups=lambda _: {"billing": described},
        _find_coordinator_ids=lambda names: dict.fromkeys(names, 1),
        _manager=SimpleNamespace(
            cluster=SimpleNamespace(_coordinators={}), run=lambda call, *given: call(*given)
        ),
    )
    with nullcontext() if raised is None else pytest.raises(raised):
        assert administration.describe([BILLING])[0].state == DEAD


@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
@pytest.mark.parametrize("at", ["the description", "the lookup of the coordinator"])
def test_a_listed_group_that_this_user_may_not_describe(run: Run, protocol: str, at: str) -> None:
    """A user that may describe the cluster sees all groups in the list."""
    names = ["a", "secret", "z"]
    with ServedKafka() as kafka:
        kafka.create_topic("orders")
        options = {"bootstrap_servers": kafka.bootstrap}
        members = [_member(protocol, group_id=name, **options) for name in names]
        while not _all_members_in(options, names):
            for each in members:
                each.poll(50)
        asked = _DESCRIPTIONS[protocol] if at == "the description" else FindCoordinatorRequest
        kafka.perform(lambda cluster: cluster.script(asked, *[_without_access] * 20))

        def administration(_: object) -> administration_module.Administration:
            return administration_module.Administration(options)

        rows = {
            row["group"]: row for row in run("groups", "-J", administration=administration).rows
        }
        assert [rows[name]["members"] for name in names] == [1, None, 1]
        assert rows["secret"]["state"] == "not authorized"
        for command in ("groups", "lag"):
            ran = run(command, "-g", "secret", administration=administration)
            assert ran.err.startswith(
                "tandem-kafka: not authorized: this user may not describe the group 'secret'; "
                "grant it: kafka-acls.sh "
            )
        for each in members:
            each.close()


_DESCRIPTIONS: Any = {
    "classic": DescribeGroupsRequest,
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
}


def _member(protocol: str, **options: Any) -> Any:
    if protocol == "share":
        return ShareConsumer("orders", **options)
    return KafkaConsumer("orders", group_protocol=protocol, **options)


def _all_members_in(options: dict[str, Any], names: list[str]) -> bool:
    administration = administration_module.Administration(options)
    try:
        found = administration.describe(administration.groups())
    finally:
        administration.close()
    return [each.group_id for each in found if each.members] == names


def _without_access(call: Any) -> Any:
    response = call.default()
    for each in getattr(response, "groups", ()):
        if each.group_id == "secret":
            each.error_code, each.members = GroupAuthorizationFailedError.errno, []
    for each in getattr(response, "coordinators", ()):
        if each.key == "secret":
            each.error_code = GroupAuthorizationFailedError.errno
    return response
