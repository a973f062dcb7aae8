"""Kafka for PySpark, without a JAR: `spark.read.format("tandem_kafka")`.

Spark finds the source by itself if it searches the Python in which this package is installed: it
imports packages named `pyspark_*`, and registers their `DefaultSource`. If it does not, register
the source:

    from pyspark_tandem_kafka import TandemKafkaDataSource
    spark.dataSource.register(TandemKafkaDataSource)

See docs/reference/spark.md.

`source.py` is what Spark registers. `batch.py` and `stream.py` plan in the driver, `reading.py` and
`sink.py` run in the workers. `python -m pyspark_tandem_kafka warm` is `warming.py`.
"""

from pyspark_tandem_kafka.needs import check_pyspark

check_pyspark()

from pyspark_tandem_kafka.source import TandemKafkaDataSource  # noqa: E402 - PySpark is checked first

__all__ = ["DefaultSource", "TandemKafkaDataSource"]

#: The name that Spark looks for.
DefaultSource = TandemKafkaDataSource
