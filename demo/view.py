"""What the demo shows: on a terminal a small table that is kept fresh, elsewhere plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from demo.ledger import Ledger
from demo.member import Member

__all__ = ["View"]

_REDRAW_S = 0.2
_PLAIN_S = 1.0
_UP_AND_CLEAR = "\033[{}F\033[J"


class View:
    """Prints what happens above a table of how things stand."""

    def __init__(self, ledger: Ledger, members: Sequence[Member]) -> None:
        self._ledger = ledger
        self._members = members
        self._begin = time.monotonic()
        self._live = sys.stdout.isatty()
        self._drawn = 0
        self._next = 0.0

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._begin

    def say(self, text: str) -> None:
        """Something happened."""
        self._erase()
        print(f"{self.elapsed_s:5.1f} s  {text}", flush=True)
        self._next = 0.0 if self._live else time.monotonic() + _PLAIN_S

    def refresh(self) -> None:
        """Show how things stand, if it is time to."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (_REDRAW_S if self._live else _PLAIN_S)
        if self._live:
            self._erase()
            table = self._table()
            print("\n".join(table), flush=True)
            self._drawn = len(table)
        else:
            print(f"{self.elapsed_s:5.1f} s  {self._sentence()}", flush=True)

    def finish(self) -> None:
        """Take the table away."""
        self._erase()
        self._live = False

    def _erase(self) -> None:
        if self._drawn:
            sys.stdout.write(_UP_AND_CLEAR.format(self._drawn))
            self._drawn = 0

    def _table(self) -> list[str]:
        owners = {number: member.name for member in self._members for number in member.owns}
        lines = [
            "",
            f"  {self.elapsed_s:4.1f} s       written      read  committed  to read  owned by",
        ]
        for number, account in enumerate(self._ledger.partitions):
            lines.append(
                f"  partition {number}  {len(account.produced):7,}   {account.position:7,}"
                f"    {account.committed:7,}  {account.behind:7,}  {owners.get(number, '-')}"
            )
        return lines

    def _sentence(self) -> str:
        ledger = self._ledger
        owners = [f"  {each.name}: {each.owned}" for each in self._members if not each.gone]
        return (
            f"written {ledger.produced_total:6,}  read {ledger.read_distinct:6,}  "
            f"committed {ledger.committed_total:6,}{''.join(owners)}"
        )
