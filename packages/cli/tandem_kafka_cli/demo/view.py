"""The output of the demo: a live table on a terminal, otherwise plain lines."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tandem_kafka_cli.demo.ledger import Ledger
from tandem_kafka_cli.demo.member import Member

#: Colours of members, in the order in which they start.
_COLOURS = ("cyan", "magenta", "yellow", "blue")
_REDRAW_S = 0.2
_PLAIN_S = 1.0
#: Seconds over which the displayed speed is measured.
_SPEED_OVER_S = 2.0
#: The lag at which the bar is full.
_FULL_BAR = 1_000
_BAR_WIDTH = 24


class View:
    """Prints events, and below them, on a terminal, a table of all partitions.

    Args:
        ledger: The account that the table shows.
        members: The members started so far.
        console: Where to print; stdout by default.
    """

    def __init__(
        self, ledger: Ledger, members: Sequence[Member], console: Console | None = None
    ) -> None:
        self._ledger = ledger
        self._members = members
        self._console = console or Console(highlight=False, soft_wrap=True)
        self._begin = time.monotonic()
        self._next = 0.0
        self._read: deque[tuple[float, int]] = deque([(0.0, 0)])
        self._live: Live | None = None
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._begin

    def say(self, text: str, style: str = "") -> None:
        """Print an event."""
        line = Text(f"{self.elapsed_s:5.1f} s  ", style="dim")
        line.append(text, style=style)
        for member, colour in zip(self._members, _COLOURS, strict=False):
            line.highlight_words([member.name], colour)
        self._console.print(line)
        self._next = 0.0 if self._live else time.monotonic() + _PLAIN_S

    def refresh(self) -> None:
        """Show the current state, if the last one is old enough."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (_REDRAW_S if self._live else _PLAIN_S)
        self._read.append((self.elapsed_s, self._ledger.read_distinct))
        while self._read[-1][0] - self._read[0][0] > _SPEED_OVER_S:
            self._read.popleft()
        if self._live:
            self._live.update(self._table(), refresh=True)
        else:
            self.say(self._sentence())

    def finish(self) -> None:
        """Remove the table."""
        if self._live:
            self._live.stop()
            self._live = None

    def conclude(self, account: str, verdict: str, *, good: bool) -> None:
        """Print the final account and the verdict."""
        self.finish()
        self._console.print(f"\n{account}\n")
        self._console.print(Text(verdict, style="bold green" if good else "bold red"))
        if good and self._console.is_terminal:
            self._console.print(
                "\nTry next:\n"
                "  tandem-kafka serve                                 "
                "a cluster for your own program\n"
                "  tandem-kafka tail -F -t orders -b localhost:9092   the records that it gets"
            )

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2), header_style="dim")
        for name in ("partition", "written", "read", "committed"):
            table.add_column(name, justify="right")
        table.add_column("lag")
        table.add_column("owner")
        owners = self._owners()
        for number, account in enumerate(self._ledger.partitions):
            bar = ProgressBar(
                _FULL_BAR, min(account.behind, _FULL_BAR), width=_BAR_WIDTH, complete_style="red"
            )
            owner = owners.get(number, Text("-", style="dim"))
            counts = (len(account.produced), account.position, account.committed)
            table.add_row(str(number), *(f"{count:,}" for count in counts), bar, owner)
        table.caption = f"{self._records_per_second():,.0f} records/s read"
        table.caption_justify = "left"
        return table

    def _owners(self) -> dict[int, Text]:
        return {
            number: Text(member.name, style=colour)
            for member, colour in zip(self._members, _COLOURS, strict=False)
            for number in member.owns
        }

    def _records_per_second(self) -> float:
        (begin, before), (end, now) = self._read[0], self._read[-1]
        return (now - before) / max(end - begin, 0.1)

    def _sentence(self) -> str:
        ledger = self._ledger
        owners = [f"  {each.name}: {each.owned}" for each in self._members if not each.gone]
        return (
            f"written {ledger.produced_total:6,}  read {ledger.read_distinct:6,}  "
            f"committed {ledger.committed_total:6,}{''.join(owners)}"
        )
