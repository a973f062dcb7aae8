"""Column functions that decode Kafka keys and values.

    from tandem_kafka.spark.decoding import from_avro, from_json, from_protobuf

    rows.select(from_avro("value", registry={"url": url}, schema=schema).alias("order"))

Avro needs `pip install tandem-kafka[spark-avro]`, Protobuf `tandem-kafka[spark-protobuf]`.
"""

from tandem_kafka.spark.decoding.framing import DecodingError
from tandem_kafka.spark.decoding.functions import from_avro, from_json, from_protobuf
from tandem_kafka.spark.decoding.registry import RegistryError

__all__ = ["DecodingError", "RegistryError", "from_avro", "from_json", "from_protobuf"]
