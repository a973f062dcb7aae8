"""Connect with TLS and a login.

The options below are for a user and a password. Other ways to log in:

- Client certificates: security_protocol="SSL", ssl_certfile="client.pem", ssl_keyfile="client.key".
- Tokens of an OpenID provider: sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_endpoint_url,
  sasl_oauthbearer_client_id and sasl_oauthbearer_client_secret.
- IAM of Amazon MSK: sasl_mechanism="AWS_MSK_IAM", after `pip install botocore`.

If it fails, `tandem-kafka doctor` finds the step: address, TLS, login, or permissions.

    pip install tandem-kafka
    KAFKA_USER=alice KAFKA_PASSWORD=... BOOTSTRAP_SERVERS=kafka.example.com:9094 python tls_sasl.py
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import CommitFailedError, KafkaTimeoutError

OPTIONS: dict[str, Any] = {
    "bootstrap_servers": os.environ.get("BOOTSTRAP_SERVERS", "localhost:9094"),
    "security_protocol": "SASL_SSL",
    # PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, as the cluster has it.
    "sasl_mechanism": os.environ.get("SASL_MECHANISM", "SCRAM-SHA-512"),
    "sasl_plain_username": os.environ.get("KAFKA_USER"),
    "sasl_plain_password": os.environ.get("KAFKA_PASSWORD"),
    # A file with the authority that signed the certificates of the brokers. None: the authorities
    # of the system, which is right for most providers.
    "ssl_cafile": os.environ.get("KAFKA_CA"),
}

stopping = threading.Event()


def stop(number: int, _frame: object) -> None:
    """Let the loop finish its batch. A second signal ends the process at once."""
    stopping.set()
    signal.signal(number, signal.SIG_DFL)


def main() -> None:
    """Read, process, commit, until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    with KafkaConsumer(
        os.environ.get("TOPIC", "orders"),
        group_id=os.environ.get("GROUP", "example"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **OPTIONS,
    ) as consumer:
        while not stopping.is_set():
            for records in consumer.poll(timeout_ms=1_000).values():
                for record in records:
                    print(f"{record.partition} at {record.offset}: {record.value!r}")
            try:
                consumer.commit()
            except (CommitFailedError, KafkaTimeoutError) as error:
                print(f"not committed: {error}")  # the records may be handled again


if __name__ == "__main__":
    main()
