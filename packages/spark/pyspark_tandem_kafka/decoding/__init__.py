"""Column functions that decode Kafka keys and values.

    from pyspark_tandem_kafka.decoding import from_avro, from_json, from_protobuf

    rows.select(from_avro("value", registry={"url": url}, schema=schema).alias("order"))

Avro needs `pip install tandem-kafka[spark-avro]`, Protobuf `tandem-kafka[spark-protobuf]`; both
need the native extension.
"""

from pyspark_tandem_kafka.decoding.functions import from_avro, from_json, from_protobuf
from pyspark_tandem_kafka.decoding.registered import DecodingError

__all__ = ["DecodingError", "from_avro", "from_json", "from_protobuf"]
