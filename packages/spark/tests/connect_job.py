"""A job that uses Spark Connect: it reads, streams and writes, and prints the results.

connect_job.py <bootstrap> <topic> <target> <folder> [register]
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main() -> None:
    """Read a topic, stream it into files, and write a second topic in transactions."""
    bootstrap, topic, target, folder, *more = sys.argv[1:]
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    if more:
        from pyspark_tandem_kafka import TandemKafkaDataSource

        spark.dataSource.register(TandemKafkaDataSource)
    given = {"kafka.bootstrap.servers": bootstrap}
    source = {**given, "subscribe": topic, "startingOffsets": "earliest"}
    rows = spark.read.format("tandem_kafka").options(**source).load()
    print("read:", rows.count())
    stream = spark.readStream.format("tandem_kafka").options(**source).load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{folder}/log")
    query = writer.option("path", f"{folder}/out").trigger(availableNow=True).start()
    query.awaitTermination(120)
    print("streamed:", spark.read.parquet(f"{folder}/out").count())
    transactional = {**given, "topic": target, "tandem.transactionalIdPrefix": target}
    numbers = spark.range(10).selectExpr("string(id) value").write.format("tandem_kafka")
    numbers.mode("append").options(**transactional).save()
    written = spark.read.format("tandem_kafka").options(**given, subscribe=target).load()
    print("written:", written.selectExpr("int(string(value)) v").agg({"v": "sum"}).first()[0])
    try:
        spark.read.format("tandem_kafka").options(**given, subscribe="no-such-topic").load().count()
    except Exception as error:  # noqa: BLE001 - prints what users see
        print("error:", " ".join(str(error).split()))
    spark.stop()


if __name__ == "__main__":
    main()
