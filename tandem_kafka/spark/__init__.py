"""Kafka for PySpark, without a JAR: `spark.read.format("tandem_kafka")`.

Spark finds the source by itself where this package is installed; elsewhere it is registered:

    from tandem_kafka.spark import TandemKafkaDataSource
    spark.dataSource.register(TandemKafkaDataSource)

Needs `pip install tandem-kafka[spark]`. See docs/reference/spark.md.
"""

from tandem_kafka.spark.needs import check_pyspark

check_pyspark()

from tandem_kafka.spark.source import TandemKafkaDataSource  # noqa: E402 - what it needs is there

__all__ = ["TandemKafkaDataSource"]
