"""How Spark finds tandem-kafka: it looks into every installed package `pyspark_*` for this name."""

from tandem_kafka.spark.source import TandemKafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
