"""PySpark's daemon of the workers that run tasks, with what they need imported before a fork.

    spark.python.daemon.module=tandem_kafka.spark.daemon

Spark forks a worker for each core and ends those that were idle for a minute; each new one imports
pyarrow, PySpark and this package. Here the daemon has done so once. Nothing that is imported starts
a thread of Python's or connects: a worker makes its consumer after the fork.

Planning is not helped: whatever the setting says, Spark plans in children of PySpark's own daemon,
and a stream in a process of its own (seen in 4.3.0).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from typing import Final

__all__ = ["BEFORE_FORK", "main"]

#: A reader is a function of Spark's module of planning, around one of ours.
BEFORE_FORK: Final = (
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "tandem_kafka.spark.batch",
    "tandem_kafka.spark.stream",
)


def main() -> None:
    """Import, then run PySpark's daemon, with its arguments."""
    # The JVM reads a port from the standard output: nothing else may be printed there.
    with contextlib.redirect_stdout(sys.stderr):
        for name in BEFORE_FORK:
            # What is missing is an error of the worker that needs it: it can tell the user.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        from pyspark import daemon  # noqa: PLC0415 - after the rest
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
