"""Changes of a group between refreshes: members, partitions that move, rebalances."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tandem_kafka.foreign_text import visible
from tandem_kafka.types import TopicPartition
from tandem_kafka_cli.groups import DEAD, Group, Member, shown_partitions
from tandem_kafka_cli.output import counted

#: States of a group that does not rebalance.
_SETTLED: Final = frozenset({"Stable", "Empty", DEAD})
#: Names that are remembered after their members have gone.
_REMEMBERED: Final = 1_000


class Name(str):
    """The name of a member within a line; a terminal shows it in the colour of the member."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Event:
    """A change, as a line and as JSON.

    Attributes:
        kind: `group`, `member`, `joined`, `gone`, `rebalancing`, `moved`, `rebalanced`, `state`,
            `unavailable`, `available` or `summary`.
        line: The parts of the line.
        fields: What JSON has in addition to time and kind.
    """

    kind: str
    line: tuple[str, ...]
    fields: dict[str, Any] = field(default_factory=dict)


class Names:
    """A name for each member, which a member that starts again gets back.

    It is the instance id or the client id. If several members have the same, the second one is
    `billing #2`.
    """

    def __init__(self) -> None:
        self._holders: dict[str, str | None] = {}

    def of(self, member: Member) -> Name:
        """Return the name of a new member."""
        base = visible(member.instance_id or member.client_id or member.member_id, keep="")
        name, number = base, 1
        while self._holders.get(name) is not None:
            number += 1
            name = f"{base} #{number}"
        self._holders[name] = member.member_id
        return Name(name)

    def free(self, name: Name) -> None:
        """Give the name to the next member with the same id of instance or client."""
        self._holders.pop(name)
        self._holders[name] = None
        if len(self._holders) > _REMEMBERED:
            oldest = next((each for each, holder in self._holders.items() if holder is None), name)
            del self._holders[oldest]


class Rebalances:
    """Compares each look at a group with the one before, and counts rebalances.

    A description has no generation of a classic group, and does not say why a member is gone.
    Between two refreshes, a rebalance shows only in its effects.

    Attributes:
        members: The names of the members by member id.
        owners: The last known owner of each partition.
        state: The state of the group.
        first_ms: When the first look was; None before.
        count: The rebalances so far.
        total_ms: The time in which the group was seen rebalancing.
        causes: In how many rebalances each member joined or went.
    """

    def __init__(self) -> None:
        self.members: dict[str, Name] = {}
        self.owners: dict[TopicPartition, Name] = {}
        self.count = 0
        self.total_ms = 0
        self.causes: Counter[Name] = Counter()
        self._names = Names()
        self.state = ""
        self._epoch: int | None = None
        self.first_ms: int | None = None
        self._begun_ms: int | None = None
        self._changed: set[Name] = set()

    @property
    def running(self) -> bool:
        """Whether the group rebalances."""
        return self._begun_ms is not None

    def add(self, now_ms: int, group: Group) -> list[Event]:
        """Return the changes since the last look.

        Args:
            now_ms: The monotonic time of this look.
            group: The group as it is now.
        """
        group = replace(group, members=tuple(sorted(group.members, key=_order)))
        first, settled = self.first_ms is None, group.state in _SETTLED
        events = list(self._membership(group))
        # A classic group has no reliable assignment until it is stable again.
        if settled or group.protocol == "consumer":
            events += self._moves(group, settled=settled)
        if first:
            self.first_ms, self._changed = now_ms, set()
            events = list(self._beginning(group))
        changed = not first and (bool(events) or group.epoch != self._epoch)
        if self._begun_ms is None and (changed or not settled):
            self.count += 1
            self._begun_ms = now_ms
            if not settled:
                fields = {"state": group.state, "epoch": group.epoch}
                events.append(Event("rebalancing", (f"rebalancing: {group.state}",), fields))
        elif self._begun_ms is None and not first and group.state != self.state:
            events.append(Event("state", (f"state {group.state}",), {"state": group.state}))
        if self._begun_ms is not None and settled:
            events.append(self._end(now_ms - self._begun_ms, group))
        self.state, self._epoch = group.state, group.epoch
        return events

    def _beginning(self, group: Group) -> Iterator[Event]:
        facts = [group.state, counted(len(group.members), "member"), f"protocol {group.protocol}"]
        if group.epoch is not None:
            facts.append(f"epoch {group.epoch}")
        fields = {"state": group.state, "protocol": group.protocol, "epoch": group.epoch}
        yield Event("group", (f"{visible(group.group_id)}: {', '.join(facts)}",), fields)
        for each in group.members:
            name, owned = self.members[each.member_id], shown_partitions(each.assigned)
            line = (name, f" has {visible(owned) or 'no partition'}")
            partitions = {"partitions": [list(tp) for tp in each.assigned]}
            yield Event("member", line, {**_identity(name, each), **partitions})

    def _membership(self, group: Group) -> Iterator[Event]:
        now = {each.member_id: each for each in group.members}
        for member_id in [*self.members]:
            if member_id not in now:
                name = self.members.pop(member_id)
                self._names.free(name)
                self._changed.add(name)
                fields = {"member": name, "id": member_id}
                yield Event("gone", (name, " is gone: it left or was expelled"), fields)
        for member_id, member in now.items():
            if member_id not in self.members:
                name = self.members[member_id] = self._names.of(member)
                self._changed.add(name)
                host = f" from {visible(member.host)}" if member.host else ""
                yield Event("joined", (name, f" joined{host}"), _identity(name, member))

    def _moves(self, group: Group, *, settled: bool) -> Iterator[Event]:
        now = {tp: self.members[each.member_id] for each in group.members for tp in each.assigned}
        moved: dict[tuple[Name | None, Name | None], list[TopicPartition]] = defaultdict(list)
        # In a KIP-848 group, a partition has no owner between its revocation and its next owner.
        for tp in {*self.owners, *now} if settled else now:
            if self.owners.get(tp) != now.get(tp):
                moved[self.owners.pop(tp, None), now.get(tp)].append(tp)
        self.owners.update(now)
        for (before, after), partitions in sorted(moved.items(), key=lambda item: min(item[1])):
            source: tuple[str, ...] = () if before is None else (" from ", before)
            line = (visible(shown_partitions(partitions)), *source, " to ", after or "nobody")
            numbers = [list(tp) for tp in sorted(partitions)]
            yield Event("moved", line, {"partitions": numbers, "from": before, "to": after})

    def _end(self, duration_ms: int, group: Group) -> Event:
        self._begun_ms = None
        self.total_ms += duration_ms
        self.causes.update(self._changed)
        if len(self.causes) > _REMEMBERED:
            self.causes = Counter(dict(self.causes.most_common(_REMEMBERED // 2)))
        self._changed = set()
        took = f"after {duration_ms / 1000:.1f} s" if duration_ms else "since the last refresh"
        epoch = "" if group.epoch is None else f", epoch {group.epoch}"
        fields = {"state": group.state, "duration_ms": duration_ms, "epoch": group.epoch}
        return Event("rebalanced", (f"rebalanced {took}: {group.state}{epoch}",), fields)

    def summary(self, now_ms: int) -> Event:
        """Return the last line; `now_ms` is the monotonic time."""
        watched_ms = now_ms - (now_ms if self.first_ms is None else self.first_ms)
        total_ms = self.total_ms + (0 if self._begun_ms is None else now_ms - self._begun_ms)
        most = (self.causes + Counter(self._changed)).most_common()
        count = counted(self.count, "rebalance")
        line = [f"{count}, {total_ms / 1000:.1f} of {watched_ms / 1000:.0f} s"]
        for index, (name, number) in enumerate(most[:3]):
            line += [", " if index else "; causes: ", name, f" ({number})"]
        fields = {"rebalances": self.count, "rebalancing_ms": total_ms, "watched_ms": watched_ms}
        return Event("summary", tuple(line), {**fields, "causes": dict(most)})


def _order(member: Member) -> tuple[str, str]:
    return member.client_id, member.member_id


def _identity(name: Name, member: Member) -> dict[str, Any]:
    return {
        "member": name,
        "id": member.member_id,
        "client": member.client_id,
        "instance": member.instance_id,
        "host": member.host,
    }
