"""Mistakes in planning, in a task and in the sink: our message is the first line that Spark shows.

`test_query_errors` and `test_query_sink` have every message.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from packages.spark.tests.mistakes import first_line, run_script, without
from packages.spark.tests.session import SPARK, Tables
from tandem_kafka_testing.kafka import RealKafka
from tests.machine import slowness

DOWN = {"kafka__bootstrap__servers": "127.0.0.1:1", "kafka__bootstrap__timeout__ms": "2000"}
NO_BROKER = (
    r"no broker of kafka\.bootstrap\.servers=127\.0\.0\.1:1 responded within 2000 ms "
    r"\(kafka\.bootstrap\.timeout\.ms\): check the addresses"
)

#: The options and the message of each mistake; `{topic}` is an existing topic.
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown topic": (
        {"subscribe": "{topic}x"},
        (
            r"subscribe: there is no {topic}x-0, because there is no topic {topic}x at "
            r"kafka\.bootstrap\.servers=\S+; did you mean {topic}.*\? If not, create it or correct"
        ),
    ),
    "typo in an option": (
        {"subscribe": "{topic}", "startingOffset": "earliest"},
        (
            r"there is no option 'startingoffset' \(did you mean startingOffsets\?\); there are "
            r"subscribe, .*minPartitions, .*kafka\.\*"
        ),
    ),
    "broker down": ({"subscribe": "{topic}", **DOWN}, NO_BROKER),
    "data lost": (
        {"subscribe": "{topic}", "startingOffsets": '{{"{topic}": {{"0": 0}}}}'},
        (
            r"{topic}-0 \[0, 20\) cannot be read completely: offset 0 is gone: {topic}-0 has "
            r"\[10, 20\)\. .* set failOnDataLoss to false"
        ),
    ),
}


@pytest.fixture
def lost(kafka: RealKafka, topic: str) -> str:
    """A topic with twenty records, of which ten are deleted."""
    kafka.admin.produce(topic, [b"%d" % n for n in range(20)])
    kafka.admin.delete_records(topic, {0: 10})
    return topic


#: Each mistake, in a batch and in a stream.
each_mistake = pytest.mark.parametrize(
    ("name", "streaming"),
    [
        pytest.param(name, streaming, id=f"{name}-{'stream' if streaming else 'batch'}")
        for name in MISTAKES
        for streaming in (False, True)
    ],
)


def failure(tables: Tables, lost: str, name: str, streaming: bool) -> str:
    """Make the mistake; returns what Spark shows."""
    given = {key: value.format(topic=lost) for key, value in MISTAKES[name][0].items()}
    read = (
        (lambda: tables.finish(tables.stream(**given)))
        if streaming
        else (lambda: tables.read(**given).collect())
    )
    with pytest.raises(Exception) as error:  # noqa: PT011 - Spark's are many
        read()
    return str(error.value)


@each_mistake
def test_reading(tables: Tables, lost: str, name: str, streaming: bool) -> None:
    said = MISTAKES[name][1]
    expected = said.replace("{topic}", re.escape(lost)).replace("{{", "{").replace("}}", "}")
    text = failure(tables, lost, name, streaming)
    shown = first_line(text)
    assert re.search(f"tandem_kafka: {expected}", shown), text[:3_000]
    assert "Traceback" not in shown


@pytest.mark.full("it measures how long a mistake takes")
@each_mistake
def test_reading_fails_soon(tables: Tables, lost: str, name: str, streaming: bool) -> None:
    began = time.monotonic()
    failure(tables, lost, name, streaming)
    assert time.monotonic() - began < 100 * slowness()


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (
            "id value",
            {"topic": "t"},
            (
                r"the column value must be binary or string, not bigint: cast it with "
                r"col\('value'\)\.cast\('string'\)"
            ),
        ),
        (
            "string(id) value",
            {"topic": "t", **DOWN, "tandem__flushTimeoutMs": "2000"},
            (
                r"1 rows were not delivered within 2000 ms: no broker of "
                r"kafka\.bootstrap\.servers=127\.0\.0\.1:1 responds; check the addresses.*"
                r"\(last error: .*Connection refused"
            ),
        ),
    ],
    ids=["wrong column type", "broker down"],
)
def test_writing(tables: Tables, columns: str, options: dict[str, str], said: str) -> None:
    given = {key: value for key, value in options.items() if "timeout__ms" not in key}
    with pytest.raises(Exception) as error:  # noqa: PT011 - Spark's are many
        tables.write(tables.spark.range(1).selectExpr(columns), **given)
    shown = first_line(error.value)
    assert re.search(f"tandem_kafka: {said}", shown), str(error.value)[:3_000]


SCRIPT = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
orders = (
    spark.read.format("tandem_kafka")
    .option("kafka.bootstrap.servers", "127.0.0.1:1")
    .option("subscribe", "orders")
    .load()
)
"""


@pytest.mark.parametrize("package", ["pyarrow", "pyspark"])
def test_a_package_is_missing(tmp_path: Path, package: str) -> None:
    """Without pyarrow a job fails; without PySpark the import of the source fails."""
    script = tmp_path / "job.py"
    script.write_text(SCRIPT if package == "pyarrow" else "import pyspark_tandem_kafka")
    ran = run_script(script, environment=without(tmp_path, package))
    assert ran.returncode != 0
    said = {
        "pyarrow": r"tandem_kafka: pyarrow is not installed for \S+, which Spark runs as its "
        r"worker: run \S+ -m pip install 'tandem-kafka\[spark\]', or set PYSPARK_PYTHON",
        "pyspark": r"pyspark_tandem_kafka needs PySpark: run \S+ -m pip install",
    }
    errors = [
        line for line in ran.stderr.splitlines() if re.match(r"[\w.]+(Exception|Error)", line)
    ]
    assert re.search(said[package], errors[0]), ran.stderr[-3_000:]


def test_spark_3(tmp_path: Path) -> None:
    folder = tmp_path / "pyspark"
    folder.mkdir()
    (folder / "__init__.py").write_text('__version__ = "3.5.6"')
    script = tmp_path / "job.py"
    script.write_text("import pyspark_tandem_kafka")
    ran = run_script(script, environment=without(tmp_path))
    assert re.search(
        r"needs Spark 4\.0 or newer; PySpark 3\.5\.6 .*pip install 'pyspark>=4\.0'",
        ran.stderr.splitlines()[-1],
    )


@pytest.mark.skipif(SPARK >= (4, 2), reason="rate limits need Spark 4.2")
def test_a_feature_of_a_newer_spark(tables: Tables, topic: str) -> None:
    with pytest.raises(Exception, match=r"need Spark 4\.2") as error:
        tables.finish(tables.stream(topic, maxOffsetsPerTrigger=5))
    assert "tandem_kafka: maxOffsetsPerTrigger" in first_line(error.value)
