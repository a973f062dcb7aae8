"""Features that need a newer Spark raise clear errors; tests remove the newer parts of Spark."""

from __future__ import annotations

import pytest

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark
from tandem_kafka.errors import InvalidArgumentError

from pyspark.sql import functions  # isort: skip
from pyspark.sql.datasource import DataSourceReader  # isort: skip
from pyspark_tandem_kafka import stream  # isort: skip
from pyspark_tandem_kafka.source import TandemKafkaDataSource  # isort: skip

GIVEN = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "a"}


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "minOffsetsPerTrigger"])
def test_rate_limits(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(stream, "ReadMaxRows", None)
    source = TandemKafkaDataSource({**GIVEN, name: "5"})
    with pytest.raises(InvalidArgumentError, match=r"OffsetsPerTrigger need Spark 4\.2"):
        source.streamReader(source.schema())
    without = TandemKafkaDataSource(GIVEN)
    assert without.streamReader(without.schema()) is not None


def test_pushed_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(DataSourceReader, "pushFilters", raising=False)
    source = TandemKafkaDataSource({**GIVEN, "tandem.filterPushdown": "true"})
    with pytest.raises(InvalidArgumentError, match=r"tandem\.filterPushdown needs Spark 4\.1"):
        source.reader(source.schema())
    without = TandemKafkaDataSource(GIVEN)
    assert without.reader(without.schema()) is not None


@pytest.mark.parametrize("name", ["from_avro", "from_protobuf"])
def test_decoding(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("google.protobuf")
    from google.protobuf.timestamp_pb2 import Timestamp

    from pyspark_tandem_kafka import decoding

    monkeypatch.delattr(functions, "arrow_udf", raising=False)
    monkeypatch.setattr("pyspark.__version__", "4.0.9")
    given = {"from_avro": {"schema": '"long"'}, "from_protobuf": {"message": Timestamp}}
    decode = getattr(decoding, name)
    with pytest.raises(InvalidArgumentError, match=rf"{name} needs Spark 4\.1 .*, this is 4\.0\.9"):
        decode("value", registry={"url": "http://localhost:1"}, **given[name])
