"""Three brokers behind proxies, a steady stream of records, and one reader per client."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from types import TracebackType
from typing import IO, Self

from benchmarks.outages.streaming import Stream
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.ports import free_ports
from tandem_kafka_testing.kafka.proxy import Proxy
from tandem_kafka_testing.kafka.security import PASSWORD
from tandem_kafka_testing.kafka.settings import BrokerAddress

__all__ = ["PARTITIONS", "Outages"]

PARTITIONS = 6
_LISTENER = "SASL_PLAINTEXT"
_PATIENCE_S = 120.0


class LeakyProxy(Proxy):
    """A proxy whose connections can become half open: both ends stay open, but no bytes pass."""

    def __init__(self, target: str) -> None:
        self._frozen: set[object] = set()
        super().__init__(target)

    def freeze(self) -> None:
        """Discard everything sent on existing connections from now on."""
        self._frozen = set(self._pairs)

    def passes(self, pair: object) -> bool:
        """Return whether bytes pass through a connection."""
        return pair not in self._frozen


class ReaderProcess:
    """The process of a reader, and the times of its reads by partition."""

    def __init__(self, client: str, bootstrap: str, topic: str) -> None:
        arguments = (client, bootstrap, topic, str(PARTITIONS), PASSWORD)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.outages.reader", *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        #: By partition: times of reads, and when the last record of each read was produced.
        self.reads: dict[int, list[tuple[int, int]]] = defaultdict(list)
        if self._process.stdout is None:
            raise RuntimeError("no pipe from the reader")
        threading.Thread(target=self._follow, args=(self._process.stdout,), daemon=True).start()

    def _follow(self, output: IO[str]) -> None:
        with output:
            for line in output:
                partition, produced_ms, read_ns = map(int, line.split())
                self.reads[partition].append((read_ns, produced_ms * 1_000_000))

    def silence_s(self, begin_ns: int, end_ns: int) -> float:
        """Return the longest time within a span in which a partition was not read."""
        return max(self._silence_ns(n, begin_ns, end_ns) for n in range(PARTITIONS)) / 1e9

    def _silence_ns(self, partition: int, begin_ns: int, end_ns: int) -> int:
        times = (read_ns for read_ns, _ in tuple(self.reads[partition]))
        moments = [begin_ns, *(t for t in times if begin_ns < t < end_ns), end_ns]
        return max(late - early for early, late in itertools.pairwise(moments))

    def back_s(self, since_ns: int) -> float | None:
        """Return the time until all partitions were read again after a moment; None if not yet.

        Only records produced after that moment count, not those in flight.
        """
        firsts = [self._first_younger(n, since_ns) for n in range(PARTITIONS)]
        found = [first for first in firsts if first is not None]
        return (max(found) - since_ns) / 1e9 if len(found) == PARTITIONS else None

    def _first_younger(self, partition: int, since_ns: int) -> int | None:
        reads = tuple(self.reads[partition])
        return next((read for read, produced in reads if produced > since_ns), None)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


class Outages:
    """A context manager with the cluster, the stream and the readers."""

    def __init__(self, clients: Iterable[str]) -> None:
        self.proxies: dict[int, LeakyProxy] = {}
        self._targets: dict[int, str] = {}
        self.cluster = RealKafka(brokers=3, advertise=self._behind_a_proxy)
        self._clients = tuple(clients)
        self.readers: dict[str, ReaderProcess] = {}
        self._stream: Stream | None = None

    def _behind_a_proxy(self, address: BrokerAddress) -> dict[str, int]:
        self._targets[address.node_id] = f"127.0.0.1:{address.ports[_LISTENER]}"
        proxy = self.proxies[address.node_id] = LeakyProxy(self._targets[address.node_id])
        return {_LISTENER: proxy.port}

    def __enter__(self) -> Self:
        self.cluster.start()
        topic = self.cluster.admin.create_topic("outages", PARTITIONS, replicas=3)
        self._stream = Stream(self.cluster.bootstrap(), topic, PARTITIONS, pause_s=0.05)
        self._stream.__enter__()
        bootstrap = ",".join(proxy.address for proxy in self.proxies.values())
        self.readers = {c: ReaderProcess(c, bootstrap, topic) for c in self._clients}
        self.wait_until_all_read(time.time_ns())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for reader in self.readers.values():
            reader.end()
        if self._stream is not None:
            self._stream._stopped.set()  # noqa: SLF001 - remaining records need not be delivered
        for proxy in self.proxies.values():
            proxy.close()
        self.cluster.close()

    def wait_until_all_read(self, since_ns: int) -> dict[str, float]:
        """Wait until each reader has read each partition; return the time of each."""
        end = time.monotonic() + _PATIENCE_S
        while True:
            back = {client: reader.back_s(since_ns) for client, reader in self.readers.items()}
            found = {client: took for client, took in back.items() if took is not None}
            if len(found) == len(back):
                return found
            if time.monotonic() > end:
                raise TimeoutError(f"not all partitions are read again: {back}")
            time.sleep(0.05)

    def shut(self) -> None:
        """Disconnect the proxies from the brokers: they accept connections and close them."""
        (nowhere,) = free_ports(1)
        for proxy in self.proxies.values():
            proxy.lead_to(f"127.0.0.1:{nowhere}")
            proxy.cut()

    def open(self) -> None:
        """Connect the proxies to the brokers again."""
        for node_id, proxy in self.proxies.items():
            proxy.lead_to(self._targets[node_id])
