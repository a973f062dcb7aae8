"""Two declared tables: the orders of a topic, and what each customer has ordered."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import sum as sum_of

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """Each order of the topic, once."""
    source = spark.readStream.format("tandem_kafka").options(
        **{"kafka.bootstrap.servers": os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")},
        subscribe=os.environ.get("TOPIC", "orders"),
        startingOffsets="earliest",
    )
    order = "from_json(string(value), 'customer STRING, amount DOUBLE') AS order"
    return source.load().selectExpr("timestamp", order).select("timestamp", "order.*")


@dp.materialized_view
def totals() -> DataFrame:
    """The sum of each customer."""
    return spark.read.table("orders").groupBy("customer").agg(sum_of("amount").alias("amount"))
