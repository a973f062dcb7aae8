"""Groups and their offsets, as a stand-in for the client of administration describes them."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from tandem_kafka.cli.groups import Group, ListedGroup, Member
from tandem_kafka.testing.laboratory import SimulatedKafka
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tests.commands import Run

BILLING = ListedGroup("billing", "classic", "consumer", "STABLE")


class Administration:
    """Knows one group."""

    def __init__(self, _: object) -> None: ...

    def close(self) -> None: ...

    def groups(self) -> list[ListedGroup]:
        return [BILLING]

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
