"""PySpark's worker daemon, with the modules that workers need imported before the fork.

    spark.python.daemon.module=pyspark_tandem_kafka.daemon

Spark forks a worker for each core and ends workers that were idle for a minute. Each new worker
imports pyarrow, PySpark and this package; this daemon imports them once. No import starts a Python
thread or connects: a worker creates its consumer after the fork.

Planning does not benefit. Spark always plans in children of PySpark's own daemon, and a stream in
a separate process (observed in 4.3.0).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys
from typing import Final

__all__ = ["BEFORE_FORK", "main"]

#: Spark ships a reader as a function of its planning module that wraps one of ours.
BEFORE_FORK: Final = (
    "pyspark.worker",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark_tandem_kafka.batch",
    "pyspark_tandem_kafka.stream",
    "pyspark_tandem_kafka.consumers",
)


def main() -> None:
    """Import, then run PySpark's daemon, with its arguments."""
    # The JVM reads a port number from stdout: nothing else may be printed to it.
    with contextlib.redirect_stdout(sys.stderr):
        for name in BEFORE_FORK:
            # Ignore missing modules: the worker that needs one reports the error to the user.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        from pyspark import daemon  # noqa: PLC0415 - after the rest
    gc.collect()
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
