"""Makes tandem-kafka visible to Spark, which searches installed packages `pyspark_*`."""

from tandem_kafka.spark.source import TandemKafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
