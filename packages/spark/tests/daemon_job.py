"""A job with the daemon of this package: it prints the records read, and the workers' commands.

python -m packages.spark.tests.daemon_job SERVERS TOPIC
"""

from __future__ import annotations

import json
import os
import sys

from benchmarks.spark.processes import commands
from packages.spark.tests.session import start


def main() -> None:
    """Read a topic twice: the second time with existing workers."""
    servers, topic = sys.argv[1:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = start(**{"spark.python.daemon.module": "pyspark_tandem_kafka.daemon"})
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    rows = spark.read.format("tandem_kafka").options(**options)
    counts = [rows.load().count() for _ in range(2)]
    # Each command is: python -m DAEMON WORKER
    daemons = {
        (each[2], each[3]) for each in commands() if each[2:3] and each[2].endswith("daemon")
    }
    print(json.dumps({"counts": counts, "daemons": sorted(daemons)}))
    spark.stop()


if __name__ == "__main__":
    main()
