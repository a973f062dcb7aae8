"""A proxy that delays and corrupts bytes."""

from __future__ import annotations

import time

from tandem_kafka.runtime import Random
from tandem_kafka_testing.kafka.proxy import Proxy
from tests.histories.members import FILLER

__all__ = ["HarmfulProxy"]

#: What is changed: padding of a value, which the checksum of a batch covers.
_RUN = FILLER * 32


class HarmfulProxy(Proxy):
    """A proxy before one listener of a broker.

    Attributes:
        delay_s: The delay of each chunk.
        corrupt: The share of chunks to the client in which a byte of a value is changed.
        corrupted: The number of changed bytes.
    """

    def __init__(self, target: str, random: Random) -> None:
        self.delay_s = 0.0
        self.corrupt = 0.0
        self.corrupted = 0
        self._random = random
        super().__init__(target)

    def passed(self, data: bytes, *, to_client: bool) -> bytes:
        """Wait, and perhaps change a byte."""
        if self.delay_s:
            time.sleep(self.delay_s)
        if not to_client or not self.corrupt or self._random.random() >= self.corrupt:
            return data
        at = data.find(_RUN, self._random.randrange(len(data)))
        if at < 0:
            return data
        self.corrupted += 1
        return data[: at + 16] + b"?" + data[at + 17 :]
