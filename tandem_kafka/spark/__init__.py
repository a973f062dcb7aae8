"""Kafka for PySpark, without a JAR: `spark.read.format("tandem_kafka")`.

Spark finds the source by itself if it searches the Python in which this package is installed.
If it does not, register the source:

    from tandem_kafka.spark import TandemKafkaDataSource
    spark.dataSource.register(TandemKafkaDataSource)

Needs `pip install tandem-kafka[spark]`. See docs/reference/spark.md.

`source.py` is what Spark registers. `batch.py` and `stream.py` plan in the driver, `reading.py` and
`sink.py` run in the workers. `python -m tandem_kafka.spark warm` is `warming.py`.
"""

from tandem_kafka.spark.needs import check_pyspark

check_pyspark()

from tandem_kafka.spark.source import TandemKafkaDataSource  # noqa: E402 - PySpark is checked first

__all__ = ["TandemKafkaDataSource"]
