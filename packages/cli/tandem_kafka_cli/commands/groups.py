"""`tandem-kafka groups`: the groups of a cluster, and the members of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

from tandem_kafka.foreign_text import visible
from tandem_kafka_cli import flags
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.output import Column, counted, json_line, print_table, show, table
from tandem_kafka_cli.records.filters import compiled

if TYPE_CHECKING:
    from tandem_kafka_cli.administration import Administration
    from tandem_kafka_cli.connection import Connection
    from tandem_kafka_cli.groups import Group, ListedGroup, Member


_GROUPS: Final = (
    Column("group"),
    Column("protocol"),
    Column("state"),
    Column("members", number=True),
    Column("epoch", number=True),
    Column("assignor"),
)
_MEMBERS: Final = (
    Column("client"),
    Column("host"),
    Column("instance"),
    Column("epoch", number=True),
    Column("topics"),
    Column("partitions"),
    Column("target"),
    Column("member", "member id"),
)


@click.command()
@click.argument("pattern", required=False)
@flags.GROUP
@flags.JSON
@flags.connected
def command(connection: Connection, pattern: str | None, group: str | None, as_json: bool) -> None:
    """List the groups whose name matches PATTERN, a regular expression; with -g, show one.

    A group of the protocol `consumer` (KIP-848) has an epoch, and a target assignment while it
    differs from what a member owns. Members of a share group (KIP-932) may share partitions.
    """
    with connection.administration() as administration:
        if group is not None:
            _show_one(
                described(administration, found_group(administration, group)), as_json=as_json
            )
            return
        wanted = None if pattern is None else compiled(pattern, "PATTERN")
        listed = [
            each
            for each in administration.groups()
            if wanted is None or wanted.search(each.group_id.encode())
        ]
        found = _described(administration, listed)
    show(_GROUPS, _group_rows(listed, found), as_json=as_json)


def _described(administration: Administration, listed: Iterable[ListedGroup]) -> list[Group]:
    """Describe the groups of consumers; no share group that the cluster has from earlier days."""
    from tandem_kafka.errors import UnsupportedVersionError

    of_consumers = [each for each in listed if each.of_consumers]
    found = administration.describe([each for each in of_consumers if each.protocol != "share"])
    with suppress(UnsupportedVersionError):
        found += administration.describe(
            [each for each in of_consumers if each.protocol == "share"]
        )
    return found


def described(administration: Administration, listed: ListedGroup) -> Group:
    """Return a group with its members.

    Raises:
        CommandError: This user may not describe it.
        KafkaError: Its coordinator does not describe it.
    """
    from tandem_kafka_cli.groups import DENIED

    (group,) = administration.describe([listed])
    if group.state == DENIED:
        raise CommandError(_denied(group.group_id))
    return group


def _denied(group_id: str, more: str = "") -> str:
    from tandem_kafka.errors import acl_command

    return (
        f"not authorized: this user may not describe the group {group_id!r}{more}; grant it: "
        f"{acl_command('Describe', 'group', group_id)}"
    )


def found_group(administration: Administration, group_id: str) -> ListedGroup:
    """Return the group with a name.

    Raises:
        CommandError: No coordinator has the group, this user may not describe it, or its members
            are no consumers.
    """
    from difflib import get_close_matches

    groups = {each.group_id: each for each in administration.groups()}
    found = groups.get(group_id)
    if found is None:
        require_access(administration, group_id)
        near = get_close_matches(group_id, groups, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`tandem-kafka groups` lists the groups"
        raise CommandError(f"the group {group_id!r} does not exist; {hint}")
    if found.protocol not in {"classic", "consumer", "share"}:
        raise CommandError(f"{group_id!r} is a {found.protocol} group, which has no consumers")
    return found


def require_access(administration: Administration, group_id: str) -> None:
    """Ask the coordinator: the list of groups leaves out those that this user may not describe.

    Raises:
        CommandError: This user may not describe the group.
    """
    from kafka.errors import CoordinatorNotAvailableError

    from tandem_kafka.errors import GroupAuthorizationFailedError

    try:
        with suppress(CoordinatorNotAvailableError):  # a new cluster has none, and no group
            administration.coordinator(group_id)
    except GroupAuthorizationFailedError:
        raise CommandError(_denied(group_id, ", and cannot see whether it exists")) from None


def _group_rows(listed: Iterable[ListedGroup], found: Iterable[Group]) -> Iterator[dict[str, Any]]:
    from tandem_kafka_cli.groups import DENIED

    details = {each.group_id: each for each in found}
    for each in listed:
        group = details.get(each.group_id)
        yield {
            "group": each.group_id,
            "protocol": each.protocol,
            "state": group.state if group else each.state,
            "members": len(group.members) if group and group.state != DENIED else None,
            "epoch": group.epoch if group else None,
            "assignor": (group.assignor or None) if group else None,
        }


def _show_one(group: Group, *, as_json: bool) -> None:
    if as_json:
        print(json_line(_as_json(group)))
        return
    count = counted(len(group.members), "member")
    facts = [group.state, count, f"protocol {group.protocol}"]
    if group.assignor:
        facts.append(f"assignor {group.assignor}")
    if group.epoch is not None:
        facts.append(f"epoch {group.epoch}")
    if group.assignment_epoch != group.epoch:
        facts.append(f"assignment of epoch {group.assignment_epoch}")
    print(visible(f"{group.group_id}: {', '.join(facts)}"))  # members name the assignor
    if group.members:
        members = sorted(group.members, key=lambda each: (each.client_id, each.member_id))
        print_table(table(_MEMBERS, map(_member_row, members)))


def _member_row(member: Member) -> dict[str, Any]:
    from tandem_kafka_cli.groups import shown_partitions

    moving = member.target is not None and member.target != member.assigned
    return {
        "client": member.client_id,
        "host": member.host,
        "instance": member.instance_id,
        "epoch": member.epoch,
        "topics": member.topics,
        "partitions": shown_partitions(member.assigned) or None,
        "target": (shown_partitions(member.target or ()) or "none") if moving else None,
        "member": member.member_id,
    }


def _as_json(group: Group) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "protocol": group.protocol,
        "state": group.state,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "members": [
            {
                "member": each.member_id,
                "client": each.client_id,
                "host": each.host,
                "instance": each.instance_id,
                "epoch": each.epoch,
                "topics": each.topics,
                "assignment": [list(tp) for tp in each.assigned],
                "target": None if each.target is None else [list(tp) for tp in each.target],
            }
            for each in group.members
        ],
    }
