"""Records what the connector does, which the manual shows.

`python -m packages.spark.tests.parity record` runs everything with both; `compare` only this
source, beside what is recorded. `--only` limits the runs to some combinations.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.spark.connector import connector_version
from packages.spark.tests.parity.cases import cases
from packages.spark.tests.parity.dimensions import Case
from packages.spark.tests.parity.page import agree, recorded, write
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.jars import chosen_version
from tests.sources import PYTHONPATH


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="python -m packages.spark.tests.parity", description=__doc__
    )
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("--only", default="", help="a regular expression of names")
    given = parser.parse_args()
    _record(given.only, ours_only=given.action == "compare")


def _record(only: str, *, ours_only: bool) -> None:
    import pyspark

    from packages.spark.tests.parity.outcomes import CONNECTOR, OURS
    from packages.spark.tests.session import start

    if not ours_only and connector_version() is None:
        raise SystemExit("Spark's own connector could not be downloaded")
    before = recorded() if only or ours_only else {"versions": {}, "outcomes": {}}
    chosen = {name: case for name, case in cases().items() if re.search(only, name)}
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": PYTHONPATH}
    spark = start()
    if ours_only:
        versions = before["versions"]
        theirs = {name: before["outcomes"][name]["connector"] for name in chosen}
    else:
        versions = {
            "connector": str(connector_version()),
            "spark": pyspark.__version__,
            "kafka": chosen_version(),
        }
        theirs = _run_all(spark, CONNECTOR, chosen)
    ours = _run_all(spark, OURS, chosen)
    spark.stop()
    found = before["outcomes"] | {
        name: {"connector": there} | ({} if agree(ours[name], there) else {"here": ours[name]})
        for name, there in theirs.items()
    }
    write(versions, {name: found[name] for name in cases()})


def _run_all(spark: Any, by: str, chosen: Mapping[str, Case]) -> Mapping[str, Any]:
    """Run combinations with one source, on a cluster of its own."""
    from packages.spark.tests.parity.outcomes import Runner
    from packages.spark.tests.parity.topics import Topics

    found = {}
    with RealKafka() as kafka, tempfile.TemporaryDirectory() as folder:
        runner = Runner(spark, Topics(kafka), by, Path(folder))
        for number, (name, case) in enumerate(chosen.items(), 1):
            found[name] = runner.run(case)
            print(f"{by} {number}/{len(chosen)} {name}", flush=True)
    return found


if __name__ == "__main__":
    main()
