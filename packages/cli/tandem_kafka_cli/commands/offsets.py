"""`tandem-kafka offsets`: the offsets of a group, and how to reset or delete them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from tandem_kafka_cli import flags
from tandem_kafka_cli.commands.groups import described, found_group, require_access
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.output import Column, counted, show

if TYPE_CHECKING:
    from tandem_kafka import KafkaConsumer
    from tandem_kafka.types import OffsetAndMetadata, TopicPartition
    from tandem_kafka_cli.administration import Administration
    from tandem_kafka_cli.connection import Connection
    from tandem_kafka_cli.groups import ListedGroup

    #: Offsets by partition; None where a group has none yet.
    _Offsets = Mapping[TopicPartition, OffsetAndMetadata | None]


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
_DRY_RUN: Final = click.option(
    "--dry-run", is_flag=True, help="Show the change, and change nothing."
)
#: States in which a group has no members.
_WITHOUT_MEMBERS: Final = frozenset({"EMPTY", "DEAD"})


@click.group()
def command() -> None:
    """Show, reset or delete the offsets of a group."""


@command.command("show", short_help="Show the offsets of a group.")
@flags.GROUP
@click.option("-t", "--topic", metavar="TOPIC", help="Only this topic.")
@flags.JSON
@flags.connected
def shown(connection: Connection, group: str | None, topic: str | None, as_json: bool) -> None:
    """Show the committed offsets of a group, or the start offsets of a share group."""
    group_id = connection.group(group)
    with connection.administration() as administration:
        offsets = _offsets(administration, group_id, _listed(administration, group_id))
        if not offsets:
            found_group(administration, group_id)
    show(_SHOWN, _shown_rows(offsets, topic), as_json=as_json)


def _shown_rows(offsets: _Offsets, topic: str | None) -> Iterable[dict[str, Any]]:
    from tandem_kafka.types import epoch_of

    for tp, each in offsets.items():
        if topic in {None, tp.topic}:
            epoch = epoch_of(each) if each is not None else -1
            yield {
                "topic": tp.topic,
                "partition": tp.partition,
                "offset": each.offset if each is not None else None,
                "leader_epoch": epoch if epoch >= 0 else None,
                "metadata": (each.metadata or None) if each is not None else None,
            }


@command.command(short_help="Move the offsets of a group without members.")
@flags.GROUP
@click.option("-t", "--topic", metavar="TOPIC", help="The topic; by default, all with offsets.")
@flags.PARTITIONS
@click.option(
    "--to", required=True, metavar="WHERE",
    help="earliest, latest, an offset, -N before the end, s@TIME, or group:NAME.",
)  # fmt: skip
@click.option(
    "--share", is_flag=True, help="Make a share group, if there is no group of this name."
)
@_DRY_RUN
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
    """Move the committed offsets of a group without members, or the start offsets of a share group.

    WHERE `s@TIME` is the first record from a time on: s@15m (ago), s@2026-05-01T12:00 (UTC).
    `group:NAME` copies the offsets of another group, of either kind. A share group also forgets
    which records from there on are done. Shows the change, and asks before it acts.
    """
    group_id = connection.group(group)
    if partitions and topic is None:
        raise CommandError("-p needs -t TOPIC", usage=True)
    with (
        connection.administration() as administration,
        connection.consumer(group_id=group_id) as consumer,
    ):
        found = _without_members(administration, group_id)
        shared = _is_shared(found, group_id, wanted=given["share"])
        old = _offsets(administration, group_id, found)
        chosen = _chosen(consumer, old, topic, partitions)
        new = _new_offsets(connection, (administration, consumer), chosen, to)
        show(_RESET, _changes(old, new), as_json=given["as_json"])
        if given["dry_run"]:
            return
        _ask(f"Move {counted(len(new), 'offset')} of the group {group_id!r}?", yes=given["yes"])
        # A member may have joined meanwhile. The coordinator rejects the change then, too.
        _without_members(administration, group_id)
        if shared:
            administration.move_start_offsets(group_id, {tp: at.offset for tp, at in new.items()})
        else:
            consumer.commit(new)
    click.echo(f"{counted(len(new), 'offset')} of {group_id!r} moved", err=True)


@command.command()
@flags.GROUP
@flags.TOPIC
@_DRY_RUN
@flags.YES
@flags.JSON
@flags.connected
def delete(connection: Connection, group: str | None, topic: str, **given: Any) -> None:
    """Delete the offsets of a topic, of a group without members.

    The next members begin by auto_offset_reset, or by share.auto.offset.reset of a share group.
    Shows the offsets, and asks before it acts.
    """
    group_id = connection.group(group)
    with connection.administration() as administration:
        found_group(administration, group_id)
        found = _without_members(administration, group_id)
        offsets = _offsets(administration, group_id, found)
        chosen = [tp for tp in offsets if tp.topic == topic]
        if not chosen:
            topics = ", ".join(sorted({tp.topic for tp in offsets})) or "no topic"
            raise CommandError(
                f"the group {group_id!r} has no offsets of {topic!r}; it has those of {topics}"
            )
        show(_SHOWN, _shown_rows(offsets, topic), as_json=given["as_json"])
        if given["dry_run"]:
            return
        _ask(f"Delete the offsets of {topic!r} in the group {group_id!r}?", yes=given["yes"])
        if found is not None and found.protocol == "share":
            administration.delete_start_offsets(group_id, topic)
        else:
            administration.delete_committed(group_id, chosen)
    click.echo(f"{counted(len(chosen), 'offset')} of {group_id!r} deleted", err=True)


def _ask(question: str, *, yes: bool) -> None:
    """Ask, unless the answer is given; fail if it is no, or if nobody can answer."""
    if not yes and not _confirmed(question):
        raise CommandError("nothing is changed")


def _confirmed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, EOFError):
            raise CommandError(
                "stdin has no answer, so nothing is changed: use --yes to act without a question",
                usage=True,
            ) from None
        raise


def _listed(administration: Administration, group_id: str) -> ListedGroup | None:
    """Return the group, None if it does not exist.

    Raises:
        CommandError: This user may not describe it.
    """
    for each in administration.groups():
        if each.group_id == group_id:
            return each
    require_access(administration, group_id)
    return None


def _is_shared(found: ListedGroup | None, group_id: str, *, wanted: bool) -> bool:
    """Tell whether a group is a share group, or is to be one."""
    if found is None:
        return wanted
    if wanted and found.protocol != "share":
        raise CommandError(
            f"--share: {group_id!r} is a {found.protocol} group; choose another name, or leave out "
            "--share",
            usage=True,
        )
    return found.protocol == "share"


def _offsets(administration: Administration, group_id: str, found: ListedGroup | None) -> _Offsets:
    """Return the offsets of a group of either kind; None where a share group has none yet."""
    from tandem_kafka.types import OffsetAndMetadata

    if found is None or found.protocol != "share":
        return administration.committed(group_id)
    return {
        tp: None if each.offset is None else OffsetAndMetadata(each.offset, "", each.leader_epoch)
        for tp, each in administration.start_offsets(group_id).items()
    }


def _without_members(administration: Administration, group_id: str) -> ListedGroup | None:
    """Return the group, None if it does not exist.

    Raises:
        CommandError: It has members.
    """
    listed = _listed(administration, group_id)
    if listed is None or listed.state.upper() in _WITHOUT_MEMBERS:
        return listed
    group = described(administration, listed)
    if group.members:
        clients = ", ".join(sorted({each.client_id for each in group.members})[:3])
        members = counted(len(group.members), "member")
        raise CommandError(
            f"the group {group_id!r} has {members} ({clients}); stop them first: offsets "
            "change only while it has none"
        )
    return listed


def _chosen(
    consumer: KafkaConsumer,
    old: Mapping[TopicPartition, object],
    topic: str | None,
    partitions: tuple[int, ...],
) -> list[TopicPartition]:
    from tandem_kafka_cli.connection import partitions_of

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
    from tandem_kafka.types import UNKNOWN_EPOCH, OffsetAndMetadata
    from tandem_kafka_cli.records.selection import bounds_of

    administration, consumer = clients
    kind, _, other = to.partition(":")
    if kind != "group":
        now_ms = connection.environment.clock.wall_ms()
        found = bounds_of(consumer, chosen, now_ms).at("--to", to)
        return {tp: OffsetAndMetadata(at, "", UNKNOWN_EPOCH) for tp, at in found.items()}
    offsets = _offsets(administration, other, _listed(administration, other))
    copied = {tp: at for tp in chosen if (at := offsets.get(tp)) is not None}
    if not copied:
        found_group(administration, other)
        raise CommandError(f"the group {other!r} has no offsets of these partitions")
    return copied


def _changes(
    old: _Offsets, new: Mapping[TopicPartition, OffsetAndMetadata]
) -> Iterable[dict[str, Any]]:
    for tp, at in new.items():
        known = old.get(tp)
        before = known.offset if known is not None else None
        yield {
            "topic": tp.topic,
            "partition": tp.partition,
            "old": before,
            "new": at.offset,
            "change": None if before is None else at.offset - before,
        }
