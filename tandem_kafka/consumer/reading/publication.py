"""Moves all positions at once, when a call returns its records.

An interrupt (Ctrl-C, `SystemExit` from a signal handler) can end poll() between any two
bytecodes. Records that were read but not returned must not be committed, and the next poll()
must return them. poll() therefore prepares the new position of each partition, and publishes all
of them with a single store directly before it returns.

An interrupt can also lose the result of a call before it is stored. A call that moves a cursor
therefore has one of three forms. C code stores its result (`OpenedChunk.read`). Or the item is
looked at first and removed later (`FetchBuffer.first`). Or the action is noted first, and can be
repeated (`FetchCollector._counting`). tests/unit/consumer/test_interrupts.py interrupts every
bytecode.
"""

from __future__ import annotations

from tandem_kafka.state.partition import Position


class Publication:
    """Whether the records of one call have been returned.

    Attributes:
        done: This store moves all positions. Writer: the application thread. Invariant: it is the
            last action of the public method, after the lock of the reader has been released.
    """

    __slots__ = ("done",)

    def __init__(self) -> None:
        self.done = False


class Handed:
    """The progress of a partition in one call; its `consumed` until the next call.

    Attributes:
        base: The position from which its records were fetched.
        before: The position until the publication is done.
        after: The position from then on.
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
        """The current position of the application."""
        return self.after if self.publication.done else self.before
