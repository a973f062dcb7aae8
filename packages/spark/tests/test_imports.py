"""What the Python processes of a query import of ours, and what they leave alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark

#: Every process that plans imports the source, and one of the others if its step needs it.
PLANNED = {
    "pyspark.sql.worker.lookup_data_sources": "pyspark_tandem_kafka",
    "pyspark.sql.worker.create_data_source": "pyspark_tandem_kafka.source",
    "pyspark.sql.worker.plan_data_source_read": "pyspark_tandem_kafka.stream",
    "pyspark.sql.worker.write_into_data_source": "pyspark_tandem_kafka.sink",
    "pyspark.sql.worker.commit_data_source_write": "pyspark_tandem_kafka.sink",
}
SLOW = {
    *("_ssl", "asyncio", "confluent_kafka", "cramjam", "crc32c", "http", "numpy", "pandas"),
    *("kafka.admin", "kafka.consumer.group", "kafka.producer", "pyarrow", "pyarrow.compute"),
    *("tandem_kafka.config.config", "tandem_kafka.consumer"),
}
READER = (
    "import sys, pyspark.sql.worker.plan_data_source_read\n"
    "from pyspark import cloudpickle\n"
    "from pyspark_tandem_kafka.{kind} import {kind}_reader as make\n"
    "from pyspark_tandem_kafka.schema import full_schema\n"
    "given = {{'kafka.bootstrap.servers': 'localhost:9092', 'subscribe': 'orders'}}\n"
    "cloudpickle.dumps(make(given, full_schema(headers=False)))\n"
)
SINK = (
    "import sys\n"
    "from pyspark.sql.types import BinaryType, StructField, StructType\n"
    "from pyspark_tandem_kafka.sink import StreamWriter\n"
    "given = {'kafka.bootstrap.servers': 'localhost:9092', 'topic': 'orders'}\n"
    "schema = StructType([StructField('value', BinaryType())])\n"
    "writer = StreamWriter(given, schema, overwrite=False)\n"
)
#: A program that plans, and what it must not import. A stream plans its sink for each micro-batch.
PLANS = {
    "stream": (READER.format(kind="stream"), {"kafka.admin", "tandem_kafka.consumer"}),
    "batch": (READER.format(kind="batch"), {"kafka.admin", "tandem_kafka.consumer"}),
    "sink": (f"{SINK}writer.__reduce__()\n", {"kafka.admin", "confluent_kafka", "pyarrow"}),
}


def run(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("spark", PLANNED)
def test_planning_imports_only_what_it_uses(spark: str) -> None:
    """All of kafka-python alone takes longer than everything of ours that planning uses."""
    found = run(
        f"import sys, {spark}\n"
        "before = set(sys.modules)\n"
        f"import {PLANNED[spark]}\n"
        f"print(sorted((set(sys.modules) - before) & {SLOW!r}))"
    )
    assert found == "[]"


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_imports_no_client(plan: str) -> None:
    """Spark makes a reader or a sink in a process that only pickles it."""
    program, clients = PLANS[plan]
    assert run(f"{program}print({clients!r} & set(sys.modules))") == "set()"


MAKES = {
    "create": "TandemKafkaDataSource({})",
    "unpickle": "cloudpickle.loads(made)",
}


@pytest.mark.parametrize("step", MAKES)
@pytest.mark.parametrize("planning", [True, False])
def test_only_planning_excludes_its_modules_from_garbage_collection(
    step: str, planning: bool
) -> None:
    """Spark collects garbage after each step; in a driver, the application decides."""
    made = (
        "from pyspark import cloudpickle\n"
        "from pyspark_tandem_kafka.source import TandemKafkaDataSource\n"
        "print(cloudpickle.dumps(TandemKafkaDataSource({})))"
    )
    found = run(
        "import gc\n"
        "from pyspark import SparkFiles, cloudpickle\n"
        "from pyspark_tandem_kafka.source import TandemKafkaDataSource\n"
        f"made = {run(made)}\n"
        f"SparkFiles._is_running_on_worker = {planning}\n"
        f"{MAKES[step]}\n"
        "first = gc.get_freeze_count()\n"
        f"{MAKES[step]}\n"
        "print(first > 10_000, gc.get_freeze_count() <= first)"
    )
    assert found == f"{planning} True"


def test_a_client_of_spark_connect_needs_no_other_pyspark() -> None:
    """`pyspark-client` lacks what needs a JVM; with this variable, so does any PySpark."""
    found = run(
        "import pyspark\n"
        "from pyspark import cloudpickle\n"
        "from pyspark_tandem_kafka import TandemKafkaDataSource, __main__, decoding, progress\n"
        "print(hasattr(pyspark, 'SparkContext'), TandemKafkaDataSource.name())\n"
        "made = cloudpickle.loads(cloudpickle.dumps(TandemKafkaDataSource))({})\n"
        "print(len(made.schema().fields))",
        SPARK_SKIP_CONNECT_COMPAT_TESTS="1",
    )
    assert found.split() == ["False", "tandem_kafka", "7"]


def test_classes_of_kafka_python_are_pickled_by_name() -> None:
    """cloudpickle copies a class if `sys.modules` lacks its module."""
    found = run(
        "from tandem_kafka.types import TopicPartition\n"
        "from pyspark import cloudpickle\n"
        "print(len(cloudpickle.dumps(TopicPartition('orders', 0))))"
    )
    assert int(found) < 100


def test_a_worker_without_the_producer_says_what_to_install() -> None:
    found = run(
        "import sys\n"
        "sys.modules['confluent_kafka'] = None\n"
        f"{SINK}"
        "try:\n"
        "    writer.write(iter(()))\n"
        "except ImportError as error:\n"
        "    print(error)"
    )
    assert found.startswith("confluent_kafka is not installed on the worker ")
    assert ": install tandem-kafka[spark] there" in found
