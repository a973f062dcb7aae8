"""What all workers have: one run at a time, its end, and what is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from tandem_kafka.errors import IllegalStateError
from tandem_kafka.logs import ClientNames, LinesOf
from tandem_kafka.runtime import Runtime
from tandem_kafka.workers.run import Run

R = TypeVar("R", bound=Run)


class Runs(Generic[R]):
    """Keeps track of the runs."""

    def __init__(self, runtime: Runtime, client: ClientNames) -> None:
        self._runtime = runtime
        self._client = client
        self._control: R | None = None
        self._in_progress = self._stop_requested = False
        #: Records done in earlier runs.
        self._done_before = 0

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Note that a run is in progress.

        Raises:
            IllegalStateError: Another one is.
        """
        if self._in_progress:
            raise IllegalStateError("run() is already in progress; call it again after it returns")
        self._in_progress = True
        try:
            if self._control is not None:
                self._control.give_back()  # if an interrupt has ended that
            self._done_before, self._control = self.done, None
            with LinesOf(self._client):
                yield
        finally:
            self._in_progress = self._stop_requested = False

    def _begin(self, control: R) -> None:
        self._control = control
        if self._stop_requested:  # before there was anything to stop
            control.stop()

    def stop(self) -> None:
        """End ``run()`` after a drain. Any thread, handler or signal handler may call this.

        Before ``run()``, this ends the next run as soon as it begins.
        """
        self._stop_requested = True
        control = self._control
        if control is not None:
            control.stop()

    @property
    def done(self) -> int:
        """Number of records done in all runs of this object, with those that were skipped.

        Those of a share group were accepted. What a commit of another run marks does not count.
        """
        control = self._control
        return self._done_before + (0 if control is None else control.done)
