"""The network client: from an address to responses.

`client.py` sends the requests of the managers over `pool.py`, whose connections speak the protocol
(`connection.py`). Below is a `Transport` with the sockets, native or Python. Logins, TLS, proxies
and lookups of host names have separate modules.
"""

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python
