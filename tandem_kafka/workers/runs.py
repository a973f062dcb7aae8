"""What `KeyedWorkers` and `AsyncKeyedWorkers` share: the present run, its end, its progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tandem_kafka.errors import IllegalStateError
from tandem_kafka.logs import ClientNames, LinesOf
from tandem_kafka.runtime import Runtime
from tandem_kafka.types import TopicPartition
from tandem_kafka.workers.control import Control
from tandem_kafka.workers.progress import PartitionProgress, as_metrics
from tandem_kafka.workers.settings import WorkerSettings


class Runs:
    """Keeps track of the runs."""

    def __init__(self, settings: WorkerSettings, runtime: Runtime, client: ClientNames) -> None:
        self._settings = settings
        self._runtime = runtime
        self._client = client
        self._control: Control | None = None
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

    def _begin(self, control: Control) -> None:
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

        Records that a commit of another run marks as done do not count.
        """
        control = self._control
        return self._done_before + (0 if control is None else control.done)

    def progress(self) -> dict[TopicPartition, PartitionProgress]:
        """Return the progress of each assigned partition; empty while ``run()`` is not running.

        Any thread may call this.
        """
        control = self._control
        return {} if control is None else control.progress()

    def metrics(self) -> dict[str, dict[str, float]]:
        """Return the figures of ``progress()`` by group and name, as the consumer's ``metrics()``.

        The group ``workers-metrics`` has the sums. Each partition has a separate group, for
        example ``workers-metrics.topic-orders.partition-0``. An unknown offset is -1. Ages are in
        milliseconds.
        """
        return as_metrics(self.progress())
