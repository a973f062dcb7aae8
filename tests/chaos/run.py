"""Three real brokers, two groups that read the same topic, a share group with another one, and one
fault after the other.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path

from benchmarks.outages.streaming import Stream
from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.runtime import Random
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.settings import BrokerAddress
from tests.chaos.faults import Fault, World, draw
from tests.chaos.member import PROTOCOLS
from tests.chaos.members import MemberProcess
from tests.chaos.proxy import HarmfulProxy
from tests.chaos.sharing import SHARE, SHARE_PROPERTIES, Sharing
from tests.histories.anomalies import anomalies
from tests.histories.ledger import GroupLedger, Reads
from tests.histories.members import FILLER, KINDS
from tests.histories.operations import to_lines
from tests.waiting import until

__all__ = ["Chaos"]

_PARTITIONS = 6
#: Each group has members of these kinds in turn.
_KINDS = tuple(KINDS)
_PATIENCE_S = 150.0
_LISTENER = "SASL_PLAINTEXT"


class Chaos:
    """One run; `close` ends everything that it started.

    Args:
        seed: Determines the faults; their effects depend on the machine.
        members: The number of members of each group.
        say: Prints a line of the report.
        protocols: Of the groups that run beside the share group.

    Attributes:
        faults: The number of faults that were survived.
        worst: The longest time in which a group did not read a partition, and its fault.
    """

    def __init__(
        self,
        seed: int,
        members: int,
        say: Callable[[str], None],
        protocols: Collection[str] = tuple(PROTOCOLS),
    ) -> None:
        self._random = Random(seed)
        self._first_kind = seed % len(_KINDS)
        self._size = members
        self._say = say
        self._proxies: dict[int, HarmfulProxy] = {}
        self._ledgers = {protocol: GroupLedger(_PARTITIONS) for protocol in protocols}
        self._running: list[MemberProcess] = []
        self._topic = f"chaos-{uuid.uuid4().hex[:8]}"
        self._cluster = RealKafka(
            brokers=3, properties=SHARE_PROPERTIES, advertise=self._behind_a_proxy
        )
        self._sharing = Sharing(self._cluster, f"{self._topic}-{SHARE}", seed)
        self.faults = 0
        self.worst = (0.0, "nothing")

    def _behind_a_proxy(self, address: BrokerAddress) -> dict[str, int]:
        proxy = HarmfulProxy(f"127.0.0.1:{address.ports[_LISTENER]}", Random(self._random.random()))
        self._proxies[address.node_id] = proxy
        return {_LISTENER: proxy.port}

    def close(self) -> None:
        """End every process."""
        for member in self._running:
            if member.running:
                member.kill()
        for proxy in self._proxies.values():
            proxy.close()
        self._cluster.close()

    # --- the run -------------------------------------------------------------------------------

    def run(self, seconds: float) -> int:
        """Inject faults for `seconds`, then check everything; return the number of records read.

        Raises:
            AssertionError: An invariant is violated.
        """
        with self._cluster as cluster:
            cluster.admin.create_topic(self._topic, _PARTITIONS, replicas=3)
            bootstrap = cluster.bootstrap()
            padding = FILLER * 1_000
            with (
                Stream(
                    bootstrap, self._topic, _PARTITIONS, pause_s=0.02, padding=padding
                ) as stream,
                self._sharing.streaming(),
            ):
                self._begin()
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    self._survive(self._draw())
                stream.stop()
            self._finish(stream.sent)
            return stream.sent * _PARTITIONS * len(self._ledgers)

    def _begin(self) -> None:
        begun = time.monotonic()
        for protocol in (*self._ledgers, SHARE):
            for _ in range(self._size):
                self._start(protocol)
        self._wait_for_records(begun, "the start")

    def _draw(self) -> Fault:
        world = World(self._random, self._cluster, self._proxies, self._running, self._replace)
        return draw(world)

    def _survive(self, fault: Fault) -> None:
        begin = time.monotonic()
        fault.begin()
        time.sleep(fault.lasts_s)
        fault.end()
        end = self._wait_for_records(time.monotonic(), fault.what)
        ledgers: list[Reads] = [*self._ledgers.values(), self._sharing.ledger]
        silence_s = max(ledger.longest_silence(begin, end) for ledger in ledgers)
        self.faults += 1
        self.worst = max(self.worst, (silence_s, fault.what))
        self._say(f"{fault.what}: a partition was not read for {silence_s:.1f} s")
        self._check()

    def _finish(self, sent: int) -> None:
        """Check that everything was read and committed, end the members, and check again."""
        for member in self._running:
            member.end_faults()
        everything = dict.fromkeys(range(_PARTITIONS), sent)
        for protocol in self._ledgers:
            for _ in until(
                lambda protocol=protocol: self._committed(protocol) == everything,
                lambda protocol=protocol: f"{protocol}: {self._committed(protocol)} of {sent}",
            ):
                time.sleep(0.2)
        self._sharing.wait_until_done()
        for member in self._running:
            member.ask_to_end()
        for member in self._running:
            member.wait_ended()
        self._sharing.conclude()
        self._check(sent)

    @property
    def repeated(self) -> int:
        """The number of records that were returned more than once."""
        return sum(ledger.repeated() for ledger in self._ledgers.values())

    @property
    def shared(self) -> str:
        """The account of the share group."""
        return self._sharing.ledger.account()

    @property
    def corrupted(self) -> int:
        """The number of bytes that were changed in transit."""
        return sum(proxy.corrupted for proxy in self._proxies.values())

    # --- members -------------------------------------------------------------------------------

    def _start(self, protocol: str) -> None:
        bootstrap = ",".join(proxy.address for proxy in self._proxies.values())
        if protocol == SHARE:
            self._running.append(self._sharing.start(bootstrap))
            return
        ledger = self._ledgers[protocol]
        commits = self._random.choice(["automatic", "by hand"])
        kind = _KINDS[(len(ledger.members) + self._first_kind) % len(_KINDS)]
        name = f"{protocol} {kind} {len(ledger.members) + 1}"
        arguments = [kind, name, bootstrap, self._topic, protocol, commits]
        member = MemberProcess(name, protocol, arguments)
        ledger.members.append(member)
        self._running.append(member)

    def _replace(self, member: MemberProcess) -> None:
        self._running.remove(member)
        self._start(member.protocol)

    # --- invariants ----------------------------------------------------------------------------

    def _wait_for_records(self, since: float, what: str) -> float:
        """Wait until all groups have read every partition; return that time."""
        last = since
        ledgers: dict[str, Reads] = {**self._ledgers, SHARE: self._sharing.ledger}
        for protocol, ledger in ledgers.items():
            while True:
                for member in self._running:
                    member.check()
                read = ledger.first_read_after(since)
                if len(read) == ledger.partitions:
                    last = max(last, *read.values())
                    break
                waited_s = time.monotonic() - since
                assert waited_s < _PATIENCE_S, f"{protocol}: only {sorted(read)} after {what}"
                time.sleep(0.05)
        return last

    def _check(self, sent: int = 0) -> None:
        """Check the histories so far, and that everything `sent` is in them."""
        self._sharing.check()
        for protocol, ledger in self._ledgers.items():
            committed, end = self._committed(protocol), time.monotonic() + 10.0
            while found := anomalies(history := ledger.history(committed, sent)):
                # The report of a read may still be in transit.
                if time.monotonic() > end:
                    path = Path(tempfile.mkdtemp("chaos")) / f"{protocol}.jsonl"
                    path.write_text("\n".join(to_lines(history)), encoding="utf-8")
                    what = f"{len(found)} anomalies in {path}, the first: {found[0]}"
                    raise AssertionError(what)
                time.sleep(0.1)

    def _committed(self, protocol: str) -> dict[int, int]:
        """Return the commits of a group, without a proxy; empty without a coordinator."""
        with KafkaConsumer(
            bootstrap_servers=self._cluster.bootstrap(), group_id=f"{self._topic}-{protocol}"
        ) as observer:
            tps = [TopicPartition(self._topic, number) for number in range(_PARTITIONS)]
            try:
                return {tp.partition: observer.committed(tp, timeout_ms=5_000) or 0 for tp in tps}
            except KafkaTimeoutError:
                return {}
