"""`tandem-kafka rebalances`: watches who joins and leaves a group, and which partitions move."""

from __future__ import annotations

import math
import shlex
from collections import Counter, defaultdict, deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import click

from tandem_kafka.tables.times import duration_ms
from tandem_kafka_cli import flags
from tandem_kafka_cli.commands.groups import described, found_group
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.output import Colours, Column, console, json_line, on_terminal, table
from tandem_kafka_cli.times import shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.live import Live

    from tandem_kafka.runtime import Clock
    from tandem_kafka_cli.administration import Administration
    from tandem_kafka_cli.connection import Connection
    from tandem_kafka_cli.groups import Group
    from tandem_kafka_cli.rebalances import Event, Name, Rebalances

#: The looks that the timeline shows; with names and partitions, it fits into 80 columns.
_LOOKS: Final = 40
_TIMELINE: Final = (
    Column("member", of_member=True),
    Column("looks", "last looks", number=True, of_member=True),
    Column("partitions", of_member=True),
)
_NO_MEMBER: Final = -1
_SHORTEST_MS: Final = 100


@click.command()
@flags.GROUP
@click.option(
    "--interval", default="1s", metavar="TIME", show_default=True, help="How often to look."
)
@click.option("--for", "limit", metavar="TIME", help="End after this time; Ctrl-C by default.")
@flags.JSON
@flags.connected
def command(
    connection: Connection, group: str | None, interval: str, limit: str | None, as_json: bool
) -> None:
    """Watch a group: who joins and goes, which partitions move, how long it rebalances.

    The end, after --for or at Ctrl-C, is a summary. Brokers do not tell whether a member that is
    gone left or was expelled. Rebalances between two refreshes count as one.
    """
    from tandem_kafka_cli.rebalances import Rebalances

    environment, rebalances = connection.environment, Rebalances()
    clock, group_id = environment.clock, connection.group(group)
    interval_ms = max(duration_ms(interval), _SHORTEST_MS)
    limit_ms = math.inf if limit is None else duration_ms(limit)
    with connection.administration() as administration, ExitStack() as stack:
        source = _Source(administration, group_id)
        view = _View(group_id, clock, stack, as_json=as_json)
        stack.callback(view.end, rebalances)
        end_ms = clock.now_ms() + limit_ms
        view.show(source.look(rebalances, clock.now_ms()), rebalances)
        while (left_ms := end_ms - clock.now_ms()) > 0:
            environment.sleep_ms(min(left_ms, interval_ms))
            view.show(source.look(rebalances, clock.now_ms()), rebalances)


class _Source:
    """Describes the group, also after it has moved, has been deleted, or has changed protocol.

    Raises:
        CommandError: The group does not exist, or does not rebalance.
    """

    def __init__(self, administration: Administration, group_id: str) -> None:
        self._administration = administration
        self._listed = found_group(administration, group_id)
        if self._listed.protocol == "share":
            raise CommandError(
                f"{group_id!r} is a share group, which does not rebalance: its members do not wait "
                f"for each other; `tandem-kafka groups -g {shlex.quote(group_id)}` shows them"
            )
        self._failed = False

    def look(self, rebalances: Rebalances, now_ms: int) -> list[Event]:
        """Return what has changed.

        Raises:
            KafkaError: The coordinator rejects the request for good.
        """
        from tandem_kafka.errors import KafkaError
        from tandem_kafka_cli.rebalances import Event

        try:
            group = self._described()
        except KafkaError as error:
            if not error.retriable:
                raise
            failed, self._failed, name = self._failed, True, type(error).__name__
            line = ("the coordinator cannot describe the group now: ", name)
            return [] if failed else [Event("unavailable", line, {"error": name})]
        failed, self._failed = self._failed, False
        again = [Event("available", ("the coordinator describes the group again",))]
        return [*(again if failed else ()), *rebalances.add(now_ms, group)]

    def _described(self) -> Group:
        from tandem_kafka_cli.groups import DEAD

        group = described(self._administration, self._listed)
        if group.state == DEAD:  # deleted, or of the other protocol now
            for each in self._administration.groups():
                if each.group_id == group.group_id:
                    self._listed = each
        return group


class _View:
    """Prints events; on a terminal in colours, above a timeline of the members."""

    def __init__(self, group_id: str, clock: Clock, stack: ExitStack, *, as_json: bool) -> None:
        self._group_id, self._clock, self._as_json = group_id, clock, as_json
        self._colours = Colours()
        self._rebalancing: deque[bool] = deque(maxlen=_LOOKS)
        self._counts: dict[Name, deque[int]] = {}
        self._live: Live | None = None
        if on_terminal() and not as_json:
            from rich.live import Live

            live = Live(console=console(), auto_refresh=False, vertical_overflow="ellipsis")
            self._live = stack.enter_context(live)

    def show(self, events: list[Event], rebalances: Rebalances) -> None:
        """Show a look at the group and its events."""
        for event in events:
            self._print(event)
        if self._live is not None:
            ended = "rebalanced" in {event.kind for event in events}
            self._rebalancing.append(ended or rebalances.running)
            self._count(rebalances)
            self._live.update(table(_TIMELINE, self._rows(rebalances)), refresh=True)

    def end(self, rebalances: Rebalances) -> None:
        """Show the summary, unless the first look failed."""
        if rebalances.first_ms is not None:
            self._print(rebalances.summary(self._clock.now_ms()))

    def _print(self, event: Event) -> None:
        now_ms = self._clock.wall_ms()
        if self._as_json:
            row = {"timestamp": now_ms, "event": event.kind, **event.fields}
            print(json_line(row), flush=True)
        elif self._live is None:
            print(shown_time(now_ms), "".join(event.line), flush=True)
        else:
            from rich.text import Text

            from tandem_kafka_cli.rebalances import Name

            line = Text(f"{shown_time(now_ms)[11:19]}  ")
            for each in event.line:
                line.append(each, self._colours.of(each) if isinstance(each, Name) else None)
            self._live.console.print(line)

    def _count(self, rebalances: Rebalances) -> None:
        """Add the number of partitions of each member; -1 stands for no member."""
        owned, members = Counter(rebalances.owners.values()), {*rebalances.members.values()}
        for name in sorted({*self._counts, *members}):
            counts = self._counts.setdefault(name, deque(maxlen=_LOOKS))
            counts.append(owned[name] if name in members else _NO_MEMBER)
            if max(counts) == _NO_MEMBER:
                del self._counts[name]

    def _rows(self, rebalances: Rebalances) -> Iterator[dict[str, str]]:
        """Return the lines of the timeline: the group, then its members."""
        from tandem_kafka_cli.groups import shown_partitions

        bars = "".join("▒" if each else "─" for each in self._rebalancing)
        yield {"member": f"group {self._group_id}", "looks": bars, "partitions": rebalances.state}
        owned = defaultdict(list)
        for tp, name in rebalances.owners.items():
            owned[name].append(tp)
        most = max((max(counts) for counts in self._counts.values()), default=0)
        for name, counts in self._counts.items():
            yield {
                "member": name,
                "looks": "".join(_bar(each, most) for each in counts),
                "partitions": shown_partitions(owned[name]),
                "style": self._colours.of(name),
            }


def _bar(count: int, most: int) -> str:
    from tandem_kafka_cli.lags import sparkline

    return "·" if count == _NO_MEMBER else sparkline([count], most)
