"""Does the cluster have share groups? Is this group one, and what are its settings?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tandem_kafka.errors import (
    TopicAuthorizationFailedError,
    UnsupportedVersionError,
    acl_command,
    reason_of,
)
from tandem_kafka_cli.doctor.finding import Finding, Step, failed, passed, warned
from tandem_kafka_cli.failures import SHARE_GROUPS
from tandem_kafka_cli.groups import DEAD
from tandem_kafka_cli.output import counted

if TYPE_CHECKING:
    from tandem_kafka_cli.administration import Administration


#: The settings that decide which records are delivered, and how often.
_SETTINGS: Final = (
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
)


def examine_share_group(
    administration: Administration, group_id: str, *, wanted: bool
) -> Iterator[Finding]:
    """Examine a share group; find nothing about another group, unless a share group is wanted."""
    try:
        group = administration.share_group(group_id)
    except UnsupportedVersionError as error:
        if wanted:
            yield failed(Step.SHARE_GROUP, group_id, reason_of(error), SHARE_GROUPS)
        return
    except TopicAuthorizationFailedError:
        yield warned(
            Step.SHARE_GROUP, group_id, "this user may not describe all topics of its members",
            acl_command("Describe", "topic", "..."),
        )  # fmt: skip
        return
    if group.state != DEAD:
        seen = f"{group.state}, {counted(len(group.members), 'member')}"
    elif not wanted:
        return
    else:
        seen = "it does not exist yet: its first member will make it"
        for each in administration.groups():
            if each.group_id == group_id:
                yield failed(
                    Step.SHARE_GROUP, group_id, f"it is a {each.protocol} group",
                    "use another group_id for ShareConsumer",
                )  # fmt: skip
                return
    yield passed(Step.SHARE_GROUP, group_id, seen)
    yield _settings(administration, group_id)


def _settings(administration: Administration, group_id: str) -> Finding:
    found = administration.share_settings(group_id)
    if not found:
        return warned(
            Step.SHARE_GROUP, group_id, "this user may not see the settings of the group",
            acl_command("DescribeConfigs", "group", group_id),
        )  # fmt: skip
    shown = ", ".join(f"{name}={found[name]}" for name in _SETTINGS if name in found)
    return passed(Step.SHARE_GROUP, group_id, shown)
