"""A job with secrets that prints everything Spark shows of a query; see test_secrets.py.

python -m packages.spark.tests.secret_job <folder>, with the options of both sides as JSON on stdin.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from packages.spark.tests.session import start


def show(place: str, what: Any) -> None:
    """Print a section."""
    print(f"== {place}\n{what}\n", flush=True)


def main() -> None:
    """Read, write and stream; Spark's log goes to stderr."""
    folder = Path(sys.argv[1])
    given = json.load(sys.stdin)
    topic = given.pop("topic")
    spark = start(**{"spark.jars": ""})
    spark.sparkContext.setLogLevel("INFO")
    reader = spark.read.format("tandem_kafka").options(**given)
    rows = reader.option("subscribe", topic).load().select("value")
    writer = rows.write.format("tandem_kafka").mode("append").options(**given)
    writer.option("topic", topic).save()
    show("repr of the source", repr(rows))
    show("plans of the source", rows._jdf.queryExecution().toString())
    streamed = spark.readStream.format("tandem_kafka").options(**given)
    stream = streamed.option("subscribe", topic).option("startingOffsets", "earliest").load()
    show("repr of the stream", repr(stream))
    show("plans of the stream", stream._jdf.queryExecution().toString())
    query = (
        stream.select("value")
        .writeStream.format("tandem_kafka")
        .options(**given)
        .option("topic", topic)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    show("plans of the query", query._jsq.explainInternal(True))
    show("progress of the query", "\n".join(str(each) for each in query.recentProgress))
    for each in (folder / "checkpoint").rglob("*"):
        if each.is_file() and each.suffix != ".crc":
            show(f"checkpoint {each.parent.name}", each.read_text())
    spark._jsc.sc().listenerBus().waitUntilEmpty()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    for number in range(executions.size()):
        execution = executions.apply(number)
        show("web page of a query", execution.physicalPlanDescription())
        show("web page of a query, settings", execution.modifiedConfigs().toString())
    spark.stop()


if __name__ == "__main__":
    main()
