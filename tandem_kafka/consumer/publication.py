"""When positions move: all of them at once, when a call returns its records.

An interrupt (Ctrl-C, `SystemExit` from a signal handler) can end poll() between any two
bytecodes. Records that were read but not returned must not be committed, and the next poll()
must return them. poll() therefore moves no position while it works: it prepares where each
partition will be, and one store publishes all of it, with nothing but the return behind it.
"""

from __future__ import annotations

from tandem_kafka.shared.partition import Position

__all__ = ["Handed", "Publication"]


class Publication:
    """Whether the records of one call have been returned.

    Attributes:
        done: Set last, by the method that the user called; by this one store all positions move.
    """

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = False


class Handed:
    """How far one call hands out a partition; a partition's `consumed` until the next call.

    Attributes:
        base: The position from which its records were fetched.
        before: Where the partition is until the publication is done.
        after: Where it is from then on.
    """

    __slots__ = ("after", "base", "before", "publication")

    def __init__(
        self, base: Position, before: Position, after: Position, publication: Publication
    ) -> None:
        self.base = base
        self.before = before
        self.after = after
        self.publication = publication

    @property
    def position(self) -> Position:
        """Where the application is."""
        return self.after if self.publication.done else self.before
