"""The offsets at which the leader epochs of a log begin (KIP-101)."""

from __future__ import annotations

#: In place of an unknown epoch or offset.
NO_EPOCH = -1


class LeaderEpochs:
    """Epochs and their first offsets, both in ascending order."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}

    def begin(self, epoch: int, offset: int) -> None:
        """Begin an epoch, unless it has begun; an epoch without records is dropped."""
        if epoch <= max(self._starts, default=NO_EPOCH):
            return
        self.truncate(offset)
        self._starts[epoch] = offset

    def truncate(self, offset: int) -> None:
        """Forget the epochs that begin at or after the new end of the log."""
        self._starts = {e: start for e, start in self._starts.items() if start < offset}

    def delete_before(self, offset: int) -> None:
        """Forget the epochs before the new start of the log."""
        older = [epoch for epoch, start in self._starts.items() if start <= offset]
        for epoch in older[:-1]:
            del self._starts[epoch]
        if older:
            self._starts[older[-1]] = offset

    def first(self, log_start: int) -> int:
        """Return the epoch of the first record."""
        epoch, start = next(iter(self._starts.items()), (NO_EPOCH, log_start))
        return epoch if start <= log_start else NO_EPOCH

    def end_of(self, epoch: int, log_end: int) -> tuple[int, int]:
        """Return the newest epoch not above `epoch`, and where it ends.

        An epoch older than all known ones ends where those begin. A newer one is unknown.
        """
        if not self._starts or epoch > max(self._starts):
            return NO_EPOCH, NO_EPOCH
        if epoch == max(self._starts):
            return epoch, log_end
        behind = min(start for each, start in self._starts.items() if each > epoch)
        return max((each for each in self._starts if each <= epoch), default=epoch), behind
