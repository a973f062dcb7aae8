"""Transactional producers of a story: records, and offsets that members commit through them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandem_kafka.testing.stories.books import Work

if TYPE_CHECKING:
    from tandem_kafka.testing.stories.members import Members

__all__ = ["Producers"]

#: So many transactions may be open at once.
MOST_OPEN = 3


class Producers:
    """Begins transactions and ends them; brokers keep readers from what is not decided."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._simulation = members.simulation
        self._cluster = members.simulation.cluster
        self._random = members.simulation.random
        self._books = members.books

    def transact(self) -> None:
        """A transaction with records, offsets or both, which is over after a while."""
        if len(self._books.open) >= MOST_OPEN:
            return
        random, work = self._random, self._books.begin()
        for _ in range(random.randrange(3)):
            tp = random.choice(self._members.partitions)
            self._books.produce(tp, random.randrange(1, 4), work)
        if random.random() < 0.5:
            self._commit_in(work)
        commit = random.random() < 0.6
        delay_ms = random.choice([10, 500, 3_000, 12_000])
        self._simulation.after(delay_ms, lambda: self.end(work, commit=commit))

    def _commit_in(self, work: Work) -> None:
        """What a member has been handed out is committed together with what was made of it."""
        members = self._members
        member = self._random.choice(list(members.listeners))
        offsets = members.invariants.handed_out_to(members.listeners[member])
        if offsets:
            name = member.group_metadata()
            self._cluster.commit_in_transaction(
                members.group_id,
                work.transaction.producer_id,
                offsets,
                name.member_id,
                name.generation_id,
            )

    def end(self, work: Work, *, commit: bool) -> None:
        """End a transaction, unless it is over already."""
        if work in self._books.open:
            self._books.end(work, commit=commit)
            self._cluster.end_transaction(
                self._members.group_id, work.transaction.producer_id, commit=commit
            )

    def end_all(self) -> None:
        """Nobody waits for the end of a transaction any more."""
        for work in list(self._books.open):
            self.end(work, commit=True)
