"""Query the last day of a topic of Avro with DuckDB; nothing is stored or committed.

pip install 'tandem-kafka[arrow]' 'confluent-kafka[avro,schemaregistry]' duckdb
TOPIC=payments REGISTRY_URL=http://localhost:8081 python yesterday_duckdb.py
"""

from __future__ import annotations

import os
import signal

import duckdb
from confluent_kafka.schema_registry import SchemaRegistryClient

from tandem_kafka import read
from tandem_kafka.tables import Avro

#: What the query needs of the writers' schemas. Without it, a day without payments has no columns.
PAYMENT = {"type": "record", "name": "Payment", "fields": [{"name": "id", "type": "long"}]}
#: DuckDB finds the reader by the name of the variable, and takes one batch after the other.
QUERY = """
    SELECT date_trunc('hour', timestamp) AS hour, count(id) AS payments, count(error) AS unreadable
    FROM payments GROUP BY ALL ORDER BY hour
"""


def main() -> None:
    """Print the payments of each hour."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C needs no clean end: nothing is open
    url = os.environ.get("REGISTRY_URL", "http://localhost:8081")
    registry = SchemaRegistryClient.new_client({"url": url})
    with read(
        os.environ.get("TOPIC", "payments"),
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        start="-1d",
        columns=["timestamp"],
        value=Avro(PAYMENT, registry=registry, errors="null", flatten=True),
    ) as payments:  # noqa: F841 - the query reads it
        print(duckdb.sql(QUERY))


if __name__ == "__main__":
    main()
