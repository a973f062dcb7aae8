"""Three real brokers, two groups that read the same topic, and one fault after the other."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.runtime import Random
from tests.chaos.books import Books
from tests.chaos.faults import Fault, World, draw
from tests.chaos.member import PROTOCOLS
from tests.chaos.members import MemberProcess
from tests.chaos.proxy import FILLER, HarmfulProxy
from tests.integration.streaming import Stream
from tests.kafka.broker import KafkaCluster
from tests.kafka.settings import BrokerAddress

__all__ = ["Chaos"]

_PARTITIONS = 6
_PATIENCE_S = 150.0
_LISTENER = "SASL_PLAINTEXT"


class Chaos:
    """One run; used with `with`, it ends what it started.

    Args:
        seed: Decides about the faults; what comes of them is up to the machine.
        members: Of each group.
        say: Takes a line of the report.

    Attributes:
        faults: How many were survived.
        worst: The longest time in which some group did not read some partition, and why.
    """

    def __init__(self, seed: int, members: int, say: Callable[[str], None]) -> None:
        self._random = Random(seed)
        self._size = members
        self._say = say
        self._proxies: dict[int, HarmfulProxy] = {}
        self._books = {protocol: Books(_PARTITIONS) for protocol in PROTOCOLS}
        self._running: list[MemberProcess] = []
        self._topic = f"chaos-{uuid.uuid4().hex[:8]}"
        self._cluster = KafkaCluster(brokers=3, advertise=self._behind_a_proxy)
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
        """Do harm for so long, then see that everything is well; return how much was read.

        Raises:
            AssertionError: Something does not hold that must.
        """
        with self._cluster as cluster:
            cluster.admin.create_topic(self._topic, _PARTITIONS, replicas=3)
            bootstrap = cluster.bootstrap()
            padding = FILLER * 1_000
            with Stream(
                bootstrap, self._topic, _PARTITIONS, pause_s=0.02, padding=padding
            ) as stream:
                self._begin()
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    self._survive(self._draw())
                stream.stop()
            self._finish(stream.sent)
            return stream.sent * _PARTITIONS * len(PROTOCOLS)

    def _begin(self) -> None:
        begun = time.monotonic()
        for protocol in PROTOCOLS:
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
        silence_s = max(books.longest_silence(begin, end) for books in self._books.values())
        self.faults += 1
        self.worst = max(self.worst, (silence_s, fault.what))
        self._say(f"{fault.what}: some partition was not read for {silence_s:.1f} s")
        self._check()

    def _finish(self, sent: int) -> None:
        """See that all was read and committed; end the members and look at it all once more."""
        everything = dict.fromkeys(range(_PARTITIONS), sent)
        for protocol in PROTOCOLS:
            end = time.monotonic() + _PATIENCE_S
            while (committed := self._committed(protocol)) != everything:
                assert time.monotonic() < end, f"{protocol}: {committed} of {sent} are committed"
                time.sleep(0.2)
        for member in self._running:
            member.ask_to_end()
        for member in self._running:
            member.wait_ended()
        for protocol, books in self._books.items():
            for number, offsets in books.read().items():
                missing = set(range(sent)) - offsets
                assert not missing, f"{protocol}, partition {number}: {sorted(missing)[:5]} missing"
        self._check()

    @property
    def repeated(self) -> int:
        """How many records were handed out more than once."""
        return sum(books.repeated() for books in self._books.values())

    @property
    def corrupted(self) -> int:
        """How many bytes were changed on their way."""
        return sum(proxy.corrupted for proxy in self._proxies.values())

    # --- members -------------------------------------------------------------------------------

    def _start(self, protocol: str) -> None:
        books = self._books[protocol]
        bootstrap = ",".join(proxy.address for proxy in self._proxies.values())
        commits = self._random.choice(["automatic", "by hand"])
        name = f"{protocol} member {len(books.members) + 1}"
        member = MemberProcess(name, [bootstrap, self._topic, protocol, commits])
        books.members.append(member)
        self._running.append(member)

    def _replace(self, member: MemberProcess) -> None:
        self._running.remove(member)
        self._start(member.protocol)

    # --- what must hold ------------------------------------------------------------------------

    def _wait_for_records(self, since: float, what: str) -> float:
        """Wait until both groups have read every partition; return when they had."""
        last = since
        for protocol, books in self._books.items():
            while True:
                for member in self._running:
                    member.check()
                read = books.first_read_after(since)
                if len(read) == _PARTITIONS:
                    last = max(last, *read.values())
                    break
                waited_s = time.monotonic() - since
                assert waited_s < _PATIENCE_S, f"{protocol}: only {sorted(read)} after {what}"
                time.sleep(0.05)
        return last

    def _check(self) -> None:
        for protocol, books in self._books.items():
            try:
                self._check_commits(protocol)
                books.check_order()
                books.check_owners()
            except AssertionError as error:
                error.add_note(f"in the group of {protocol} members")
                raise

    def _check_commits(self, protocol: str) -> None:
        committed, end = self._committed(protocol), time.monotonic() + 10.0
        while True:
            try:
                self._books[protocol].check_commits(committed)
            except AssertionError:  # the line that a record was read may be on its way
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return

    def _committed(self, protocol: str) -> dict[int, int]:
        """What a group has committed, without a proxy; nothing while there is no coordinator."""
        with KafkaConsumer(
            bootstrap_servers=self._cluster.bootstrap(), group_id=f"{self._topic}-{protocol}"
        ) as onlooker:
            tps = [TopicPartition(self._topic, number) for number in range(_PARTITIONS)]
            try:
                return {tp.partition: onlooker.committed(tp, timeout_ms=5_000) or 0 for tp in tps}
            except KafkaTimeoutError:
                return {}
