"""Transactional producers: they write records, and commit offsets of members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.scenarios.history import OpenTransaction

if TYPE_CHECKING:
    from tests.scenarios.members import Members

__all__ = ["MAX_OPEN", "Producers"]

MAX_OPEN = 3


class Producers:
    """Begins transactions, and commits or aborts them later."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._simulation = members.simulation
        self._cluster = members.simulation.cluster
        self._random = members.simulation.random
        self._history = members.history

    def transact(self) -> None:
        """Begin a transaction with records, offsets or both; it ends after a while."""
        if len(self._history.open) >= MAX_OPEN:
            return
        random, opened = self._random, self._history.begin()
        for _ in range(random.randrange(3)):
            tp = random.choice(self._members.partitions)
            self._history.produce(tp, random.randrange(1, 4), opened)
        if random.random() < 0.5:
            self._commit_offsets(opened)
        commit = random.random() < 0.6
        delay_ms = random.choice([10, 500, 3_000, 12_000])
        self._simulation.after(delay_ms, lambda: self.end(opened, commit=commit))

    def _commit_offsets(self, opened: OpenTransaction) -> None:
        """Commit the offsets behind the records handed out to one member."""
        members = self._members
        member = self._random.choice(list(members.listeners))
        offsets = members.invariants.handed_out_to(members.listeners[member])
        if offsets:
            name = member.group_metadata()
            self._cluster.commit_in_transaction(
                members.group_id,
                opened.transaction.producer_id,
                offsets,
                name.member_id,
                name.generation_id,
            )

    def end(self, opened: OpenTransaction, *, commit: bool) -> None:
        """Commit or abort a transaction, unless it has ended already."""
        if opened in self._history.open:
            self._history.end(opened, commit=commit)
            self._cluster.end_transaction(
                self._members.group_id, opened.transaction.producer_id, commit=commit
            )

    def end_all(self) -> None:
        """Commit every open transaction."""
        for opened in list(self._history.open):
            self.end(opened, commit=True)
