"""Where each leader's part of a log begins (KIP-101), and so where the one before it ends."""

from __future__ import annotations

__all__ = ["NO_EPOCH", "LeaderEpochs"]

#: Nothing is known; in place of an epoch and of an offset.
NO_EPOCH = -1


class LeaderEpochs:
    """Epochs and the offsets they begin at; both grow."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}

    def begin(self, epoch: int, offset: int) -> None:
        """A leader's part begins, unless it has begun; one that got no record has been none."""
        if epoch <= max(self._starts, default=NO_EPOCH):
            return
        self.truncate(offset)
        self._starts[epoch] = offset

    def truncate(self, offset: int) -> None:
        """The log ends at an offset."""
        self._starts = {e: start for e, start in self._starts.items() if start < offset}

    def delete_before(self, offset: int) -> None:
        """The log begins at an offset."""
        older = [epoch for epoch, start in self._starts.items() if start <= offset]
        for epoch in older[:-1]:
            del self._starts[epoch]
        if older:
            self._starts[older[-1]] = offset

    def first(self, log_start: int) -> int:
        """Return the epoch that the log begins with."""
        epoch, start = next(iter(self._starts.items()), (NO_EPOCH, log_start))
        return epoch if start <= log_start else NO_EPOCH

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the newest epoch not above `epoch`, and where it ends.

        Of an epoch that is older than all there is, its own number and where the others begin;
        of one that is newer nothing is known.
        """
        if not self._starts or epoch > max(self._starts):
            return NO_EPOCH, NO_EPOCH
        if epoch == max(self._starts):
            return epoch, log_end
        behind = min(start for each, start in self._starts.items() if each > epoch)
        return max((each for each in self._starts if each <= epoch), default=epoch), behind
