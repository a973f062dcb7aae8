"""`tandem-kafka offsets`: the committed offsets of a group, and how to reset them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from tandem_kafka.cli import flags
from tandem_kafka.cli.commands.groups import found_group
from tandem_kafka.cli.failures import CommandError
from tandem_kafka.cli.output import Column, counted, show

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer
    from tandem_kafka.cli.administration import Administration
    from tandem_kafka.cli.connection import Connection
    from tandem_kafka.types import OffsetAndMetadata, TopicPartition


_SHOWN: Final = (
    Column("topic"),
    Column("partition", "#", number=True),
    Column("offset", number=True),
    Column("leader_epoch", "epoch", number=True),
    Column("metadata"),
)
_RESET: Final = (
    Column("topic"),
    Column("partition", "#", number=True),
    Column("old", number=True),
    Column("new", number=True),
    Column("change", number=True),
)
#: States in which a group has no members.
_WITHOUT_MEMBERS: Final = frozenset({"EMPTY", "DEAD"})


@click.group()
def command() -> None:
    """Show or reset the offsets of a group."""


@command.command("show")
@flags.GROUP
@click.option("-t", "--topic", metavar="TOPIC", help="Only this topic.")
@flags.JSON
@flags.connected
def shown(connection: Connection, group: str | None, topic: str | None, as_json: bool) -> None:
    """Show the committed offsets of a group."""
    from tandem_kafka.types import epoch_of

    group_id = connection.group(group)
    with connection.administration() as administration:
        committed = administration.committed(group_id)
        if not committed:
            found_group(administration, group_id)
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "offset": each.offset,
            "leader_epoch": epoch if (epoch := epoch_of(each)) >= 0 else None,
            "metadata": each.metadata or None,
        }
        for tp, each in committed.items()
        if topic in {None, tp.topic}
    ]
    show(_SHOWN, rows, as_json=as_json)


@command.command()
@flags.GROUP
@click.option("-t", "--topic", metavar="TOPIC", help="The topic; by default, all with offsets.")
@flags.PARTITIONS
@click.option(
    "--to", required=True, metavar="WHERE",
    help="earliest, latest, an offset, -N before the end, s@TIME, or group:NAME.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Show the change, and change nothing.")
@flags.YES
@flags.JSON
@flags.connected
def reset(
    connection: Connection,
    group: str | None,
    topic: str | None,
    partitions: tuple[int, ...],
    to: str,
    **given: Any,
) -> None:
    """Move the committed offsets of a group without members.

    WHERE `s@TIME` is the first record from a time on: s@15m (ago), s@2026-05-01T12:00 (UTC).
    `group:NAME` copies the offsets of another group. Shows the change, and asks before it acts.
    """
    group_id = connection.group(group)
    if partitions and topic is None:
        raise CommandError("-p needs -t TOPIC", usage=True)
    with (
        connection.administration() as administration,
        connection.consumer(group_id=group_id) as consumer,
    ):
        _refuse_members(administration, group_id)
        old = administration.committed(group_id)
        chosen = _chosen(consumer, old, topic, partitions)
        new = _new_offsets(connection, (administration, consumer), chosen, to)
        show(_RESET, _changes(old, new), as_json=given["as_json"])
        if given["dry_run"]:
            return
        if not given["yes"]:
            question = f"Move {counted(len(new), 'offset')} of the group {group_id!r}?"
            if not _confirmed(question):
                raise CommandError("nothing is changed")
        # A member may have joined meanwhile. The coordinator rejects the commit then, too.
        _refuse_members(administration, group_id)
        consumer.commit(new)
    click.echo(f"{counted(len(new), 'offset')} of {group_id!r} committed", err=True)


def _confirmed(question: str) -> bool:
    """Ask; fail if nobody can answer."""
    try:
        return click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise CommandError(
                "stdin has no answer, so nothing is changed: use --yes to act without a question",
                usage=True,
            ) from None
        raise


def _refuse_members(administration: Administration, group_id: str) -> None:
    listed = {each.group_id: each for each in administration.groups()}.get(group_id)
    if listed is None or listed.state.upper() in _WITHOUT_MEMBERS:
        return
    (group,) = administration.describe([listed])
    if group.members:
        clients = ", ".join(sorted({each.client_id for each in group.members})[:3])
        members = counted(len(group.members), "member")
        raise CommandError(
            f"the group {group_id!r} has {members} ({clients}); stop them first: they would "
            "overwrite the new offsets"
        )


def _chosen(
    consumer: KafkaConsumer,
    old: Mapping[TopicPartition, object],
    topic: str | None,
    partitions: tuple[int, ...],
) -> list[TopicPartition]:
    from tandem_kafka.cli.connection import partitions_of

    if topic is not None:
        return partitions_of(consumer, topic, partitions)
    if not old:
        raise CommandError("the group has no offsets yet: choose a topic with -t", usage=True)
    return [tp for name in sorted({tp.topic for tp in old}) for tp in partitions_of(consumer, name)]


def _new_offsets(
    connection: Connection,
    clients: tuple[Administration, KafkaConsumer],
    chosen: Sequence[TopicPartition],
    to: str,
) -> dict[TopicPartition, OffsetAndMetadata]:
    from tandem_kafka.cli.records.selection import bounds_of
    from tandem_kafka.types import UNKNOWN_EPOCH, OffsetAndMetadata

    administration, consumer = clients
    kind, _, other = to.partition(":")
    if kind != "group":
        now_ms = connection.environment.clock.wall_ms()
        found = bounds_of(consumer, chosen, now_ms).at("--to", to)
        return {tp: OffsetAndMetadata(at, "", UNKNOWN_EPOCH) for tp, at in found.items()}
    committed = administration.committed(other)
    copied = {tp: committed[tp] for tp in chosen if tp in committed}
    if not copied:
        found_group(administration, other)
        raise CommandError(f"the group {other!r} has no offsets of these partitions")
    return copied


def _changes(
    old: Mapping[TopicPartition, OffsetAndMetadata], new: Mapping[TopicPartition, OffsetAndMetadata]
) -> Iterable[dict[str, Any]]:
    for tp, at in new.items():
        before = old[tp].offset if tp in old else None
        yield {
            "topic": tp.topic,
            "partition": tp.partition,
            "old": before,
            "new": at.offset,
            "change": None if before is None else at.offset - before,
        }
