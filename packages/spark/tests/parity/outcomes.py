"""Runs a combination with one of the two sources, and describes what came of it."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, spark_partition_id
from pyspark.sql.functions import sum as total

from packages.spark.tests.parity.dimensions import Batch, Case, Sink, Stream
from packages.spark.tests.parity.topics import PREFIX, Topics, numbered
from packages.spark.tests.query import read
from tandem_kafka.errors import KafkaError
from tests.waiting import PATIENCE_S, until

__all__ = ["CONNECTOR", "OURS", "Outcome", "Runner"]

CONNECTOR: Final = "kafka"
OURS: Final = "tandem_kafka"

#: What the page and `connector.json` show of a run; plain JSON.
Outcome = dict[str, Any]

#: Records of a stream's own topic before the first run, and those of each step `produce`.
_FIRST: Final = 12
_MORE: Final = 10
_PARTITIONS_OF_SINK: Final = 3
#: Some words of an error, with its kind; the first that occur count.
_KINDS: Final = {
    "start after end": r"greater than the (resolved )?end offset|starts at \d+ and ends at",
    "data loss": r'set failOnDataLoss|"failOnDataLoss" to|may have been lost|OffsetOutOfRange',
    "missing topic": (
        r"UnknownTopicOrPartition|there is no (topic|parity)|not present in metadata|"
        r"Unknown (topic or )?partition"
    ),
    "timeout": r"TimeoutException|arrived within",
}

QUERIES: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "count": lambda rows: rows.agg(count("*").alias("count")),
    "columns in another order": lambda rows: rows.select("offset", "headers", "value", "topic"),
    "filter on the offset": lambda rows: rows.where("offset >= 5 and offset < 9"),
    "filter on the partition": lambda rows: rows.where("partition = 1"),
    "filter on the time": lambda rows: rows.where("timestamp >= timestamp_millis(1700000010000)"),
    "filter on the value": lambda rows: rows.where("string(value) like '%3%'").select("key"),
    "null values": lambda rows: rows.where("value is null or key is null"),
    "limit after a filter": lambda rows: rows.where("partition = 0 and offset < 3").limit(100),
    "sums by topic": lambda rows: rows.groupBy("topic").agg(
        total("offset").alias("offsets"), count("value").alias("values")
    ),
    "strings": lambda rows: rows.selectExpr("string(key) key", "length(value) length"),
}


class Runner:
    """Runs combinations on one cluster, in one session.

    Args:
        by: The format of the source and the sink: `OURS` or `CONNECTOR`.
        folder: For checkpoints; each combination has its own.
    """

    def __init__(self, spark: SparkSession, topics: Topics, by: str, folder: Path) -> None:
        self.spark = spark
        self._topics = topics
        self._by = by
        self._folder = folder
        rows = folder / "rows"
        rows.mkdir()
        (rows / "1.json").write_text("\n".join(json.dumps({"id": n}) for n in range(5)))
        stream = spark.readStream.schema("id long").json(str(rows))
        stream.createOrReplaceTempView("parity_rows")

    def run(self, case: Case) -> Outcome:
        """Return what came of a combination; an error is an outcome, too."""
        if "compacted" in case.name:
            self._topics.wait_for_the_log_cleaner()
        if isinstance(case, Stream):
            return self._stream(case)
        try:
            if isinstance(case, Sink):
                return self._sink(case)
            assert isinstance(case, Batch)
            return self._batch(case)
        except Exception as error:  # noqa: BLE001 - of Spark, of Java, or of the source
            return self.failed(case, error)

    def without_spark(self, case: Batch) -> Outcome:
        """Plan and read a batch query here; return the error, or the number of rows."""
        servers = self._topics.kafka.bootstrap()
        try:
            rows = read(servers, **{"kafka.fetch.max.wait.ms": "20", **case.options})
        except KafkaError as error:
            return self.failed(case, error)
        return {"rows": len(rows)}

    def reader(self, builder: Any, options: Mapping[str, str]) -> Any:
        """Return a reader; Java's consumer waits half a second at the end of a log by default."""
        quick = {"kafka.fetch.max.wait.ms": "20"} | dict(options)
        return self.to_cluster(builder.format(self._by), quick)

    def to_cluster(self, builder: Any, options: Mapping[str, str]) -> Any:
        """Return a reader or writer with the options of a combination."""
        servers = self._topics.kafka.bootstrap()
        return builder.option("kafka.bootstrap.servers", servers).options(**options)

    # --- batch queries -------------------------------------------------------------------------

    def _batch(self, case: Batch) -> Outcome:
        frame = self.reader(self.spark.read, case.options).load()
        if case.query == "all columns":
            tasks = frame.select("*", spark_partition_id().alias("task"))
            planned = tasks._jdf.queryExecution().toRdd().getNumPartitions()
            rows = tasks.collect()
            return {
                **self.table(frame, [row[:-1] for row in rows]),
                "tasks": planned,
                "ranges": _ranges(rows),
            }
        if case.query.startswith("column "):
            asked = frame.select(case.query.removeprefix("column "))
        else:
            asked = QUERIES[case.query](frame)
        return self.table(asked, asked.collect())

    def table(self, frame: DataFrame, rows: Iterable[Sequence[Any]]) -> Outcome:
        """Return the number of rows, and a digest of each column, by its name and type."""
        plain = sorted(([self._plain(value) for value in row] for row in rows), key=json.dumps)
        columns = {
            _described(field): _digest([row[number] for row in plain])
            for number, field in enumerate(frame.schema.fields)
        }
        return {"rows": len(plain), "columns": columns}

    def _plain(self, value: Any) -> Any:
        """Return a value as JSON; the time of writing becomes `now`."""
        if isinstance(value, (bytes, bytearray)):
            return f"b{bytes(value).hex()}"
        if isinstance(value, datetime):
            at_us = round(value.timestamp() * 1_000_000)
            began_us = self._topics.began_ms * 1_000 - 60_000_000
            return "now" if began_us < at_us < time.time() * 1_000_000 + 60_000_000 else at_us
        if isinstance(value, (list, tuple)):
            return [self._plain(each) for each in value]
        return value

    # --- the sink ------------------------------------------------------------------------------

    def _sink(self, case: Sink) -> Outcome:
        self._topics.create(case.topic, _PARTITIONS_OF_SINK)
        rows = self.spark.sql(case.rows)
        if case.streaming:
            checkpoint = str(self._folder / case.topic)
            writer = rows.writeStream.format(self._by).option("checkpointLocation", checkpoint)
            query = self.to_cluster(writer, case.options).trigger(availableNow=True).start()
            assert query.awaitTermination(PATIENCE_S)
        else:
            moded = rows.write.format(self._by)
            if case.mode is not None:
                moded = moded.mode(case.mode)
            self.to_cluster(moded, case.options).save()
        options = {"subscribe": PREFIX + case.topic, "includeHeaders": "true"}
        frame = self.reader(self.spark.read, options).load()
        return self.table(frame, frame.collect())

    # --- streams -------------------------------------------------------------------------------

    def _stream(self, case: Stream) -> Outcome:
        name = hashlib.sha256(case.id.encode()).hexdigest()[:12]
        run = _Run(self, case, str(self._folder / name))
        for topic, partitions in case.setup.items():
            self._topics.create(topic, partitions)
            self._topics.produce(topic, numbered(range(_FIRST), partitions))
        for step in case.steps:
            action, _, rest = step.partition(" ")
            getattr(self, f"_step_{action}")(run, *rest.split())
        return {"runs": run.outcomes, **run.table()}

    def _step_run(self, run: _Run, trigger: str) -> None:
        run.once({trigger: True})

    def _step_begin(self, run: _Run) -> None:
        run.begin()

    def _step_end(self, run: _Run) -> None:
        run.end()

    def _step_produce(self, _: _Run, topic: str, partitions: str) -> None:
        self._topics.produce(topic, numbered(range(_FIRST, _FIRST + _MORE), int(partitions)))

    def _step_partitions(self, _: _Run, topic: str, total_count: str) -> None:
        self._topics.kafka.admin.add_partitions(PREFIX + topic, int(total_count))

    def _step_create(self, _: _Run, topic: str, partitions: str) -> None:
        self._topics.create(topic, int(partitions))

    def _step_delete(self, _: _Run, topic: str, before: str) -> None:
        self._topics.kafka.admin.delete_records(PREFIX + topic, {0: int(before)})

    # --- errors --------------------------------------------------------------------------------

    def failed(self, case: Case, error: Exception) -> Outcome:
        text = str(error)
        kind = next((kind for kind, words in _KINDS.items() if re.search(words, text)), "mistake")
        named = bool(case.about) and case.about.lower() in text.lower()
        return {"error": kind, "named": named, "text": _sentence(text)}


class _Run:
    """The runs of a stream with one checkpoint."""

    def __init__(self, runner: Runner, case: Stream, checkpoint: str) -> None:
        self._runner = runner
        self._case = case
        self._checkpoint = checkpoint
        self._rows: list[Any] = []
        self._frame: DataFrame | None = None
        self._counts: dict[int, list[Any]] = {}
        self._query: Any = None
        self.outcomes: list[Any] = []

    def _start(self, trigger: dict[str, Any]) -> Any:
        self._counts = {}
        reader = self._runner.spark.readStream
        self._frame = self._runner.reader(reader, self._case.options).load()
        writer = self._frame.writeStream.foreachBatch(self._take)
        return writer.option("checkpointLocation", self._checkpoint).trigger(**trigger).start()

    def _take(self, batch: DataFrame, number: int) -> None:
        rows = batch.collect()
        self._rows += rows
        self._counts[number] = rows

    def once(self, trigger: dict[str, Any]) -> None:
        """Run until everything is read; note the offsets and the rows of each batch."""
        try:
            query = self._start(trigger)
        except Exception as error:  # noqa: BLE001 - an outcome
            self.outcomes.append(self._runner.failed(self._case, error))
            return
        try:
            assert query.awaitTermination(PATIENCE_S)
        except Exception as error:  # noqa: BLE001
            before = self._batches(query)
            self.outcomes += [before] if before else []
            self.outcomes.append(self._runner.failed(self._case, error))
        else:
            self.outcomes.append(self._batches(query))
        finally:
            query.stop()

    def begin(self) -> None:
        """Start a stream that goes on, and wait for its first batch."""
        self._query = self._start({"processingTime": "0 seconds"})
        query = self._query
        for _ in until(lambda: query.lastProgress is not None, "the first batch"):
            assert query.isActive, query.exception()
            time.sleep(0.02)

    def end(self) -> None:
        """Wait for all records, and stop; the batches, which depend on time, count as one."""
        self._query.processAllAvailable()
        found = self._batches(self._query)
        self._query.stop()
        rows = sum(count for _, _, count in found)
        self.outcomes.append([[found[0][0], found[-1][1], rows]])

    def _batches(self, query: Any) -> list[list[Any]]:
        """Return the start, the end and the number of rows of each batch."""
        found = []
        for each in query.recentProgress:
            source = each["sources"][0]
            start, end = (_offsets(source[name]) for name in ("startOffset", "endOffset"))
            found.append([start, end, len(self._counts.get(each["batchId"], ()))])
        return found

    def table(self) -> Outcome:
        """Return the digest of all rows."""
        if not self._rows or self._frame is None:
            return {"rows": 0}
        return self._runner.table(self._frame, self._rows)


def _offsets(text: str | None) -> Any:
    """Return offsets of a progress; without the notes of our source."""
    offsets = json.loads(text or "null")
    if offsets is None:
        return None
    return {
        topic.removeprefix(PREFIX): dict(sorted(parts.items()))
        for topic, parts in sorted(offsets.items())
        if " " not in topic
    }


def _described(field: Any) -> str:
    text = f"{field.name} {field.dataType.simpleString()}"
    return text if field.nullable else f"{text} not null"


def _digest(values: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:6]


def _ranges(rows: Iterable[Any]) -> list[str]:
    """Return what each task has read: its partition, its first and last offset, and its rows."""
    found: dict[tuple[int, str, int], list[int]] = {}
    for row in rows:
        found.setdefault((row.task, row.topic, row.partition), []).append(row.offset)
    return sorted(
        f"{topic.removeprefix(PREFIX)}-{partition} {min(offsets)}..{max(offsets)} {len(offsets)}"
        for (_, topic, partition), offsets in found.items()
    )


def _sentence(text: str) -> str:
    """Return what an error says, short and without what differs from run to run."""
    ours = re.search(r"^.*?tandem_kafka: (.*)", text, re.MULTILINE)
    causes = re.findall(r"\b(\w+(?:Exception|Error)): (\S[^\n]*)", text)
    found = ours[1] if ours else ": ".join(causes[-1]) if causes else text.strip().split("\n")[0]
    found = found.replace(PREFIX, "")
    found = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}(-\d+-(driver|executor)(-\d+)?)?", "...", found)
    found = re.sub(r"127\.0\.0\.1:\d+", "...", found)
    return found if len(found) <= 160 else found[:157] + "..."
