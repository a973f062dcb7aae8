"""What `KeyedWorkers` and `AsyncKeyedWorkers` share: the progress of partitions."""

from __future__ import annotations

from tandem_kafka.logs import ClientNames
from tandem_kafka.runtime import Runtime
from tandem_kafka.types import TopicPartition
from tandem_kafka.workers.control import Control
from tandem_kafka.workers.progress import PartitionProgress, as_metrics
from tandem_kafka.workers.runs import Runs
from tandem_kafka.workers.settings import WorkerSettings


class KeyedRuns(Runs[Control]):
    """Keeps track of the runs, and tells how far the present one is."""

    def __init__(self, settings: WorkerSettings, runtime: Runtime, client: ClientNames) -> None:
        super().__init__(runtime, client)
        self._settings = settings

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
