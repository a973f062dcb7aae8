"""Several members of a share group: one that is killed, and a hundred that have little to do."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, Final, Protocol

from benchmarks.usage import cpu_s, memory_mb
from tandem_kafka_testing.kafka.admin import ClusterAdmin, Record

__all__: list[str] = []

_MEMBERS: Final = 100
_POLL_S: Final = 0.2
#: Until all members have joined, and know their partitions.
_SETTLED_S: Final = 12.0
_IDLE_S: Final = 10.0
_PATIENCE_S: Final = 90.0

#: A partition and an offset.
Place = tuple[int, int]


class Member(Protocol):
    """One member, with explicit acknowledgement."""

    def take(self, timeout_s: float, *, accept: bool) -> list[Place]: ...

    def close(self) -> None: ...


class _Tandem:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from tandem_kafka import ShareConsumer  # noqa: PLC0415 - only what is measured

        self._consumer: Any = ShareConsumer(
            topic, group_id=group, bootstrap_servers=bootstrap, acknowledgement="explicit"
        )
        self.close = self._consumer.close

    def take(self, timeout_s: float, *, accept: bool) -> list[Place]:
        found = []
        for batch in self._consumer.poll(timeout_s * 1_000).values():
            for record in batch:
                if accept:
                    record.accept()
                found.append((record.partition, record.offset))
        return found


class _Confluent:
    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        from confluent_kafka import ShareConsumer  # noqa: PLC0415 - only what is measured

        options = {"share.acknowledgement.mode": "explicit", "log_level": "0"}
        self._consumer: Any = ShareConsumer(
            {"bootstrap.servers": bootstrap, "group.id": group, **options}
        )
        self._consumer.subscribe([topic])
        self.close = self._consumer.close

    def take(self, timeout_s: float, *, accept: bool) -> list[Place]:
        found = []
        for message in self._consumer.poll(timeout_s):
            if accept:
                self._consumer.acknowledge(message)
            found.append((message.partition(), message.offset()))
        return found


_CLIENTS: Final[dict[str, Callable[..., Member]]] = {"tandem": _Tandem, "confluent": _Confluent}


def _produce(bootstrap: str, topic: str, count: int) -> None:
    admin = ClusterAdmin(bootstrap)
    partitions = len(admin.client.list_topics(topic).topics[topic].partitions)
    records = (Record(b"0" * 100, partition=number % partitions) for number in range(count))
    admin.produce(topic, records, {"batch.num.messages": 10})


def _hold(client: str, bootstrap: str, topic: str, group: str) -> None:
    """Take records once, print their places, and keep them until killed.

    confluent's consumer raises when it is polled before they are acknowledged.
    """
    member = _CLIENTS[client](bootstrap, topic, group)
    while not (places := member.take(_POLL_S, accept=False)):
        pass
    print(json.dumps(places), flush=True)
    signal.pause()


def _killed(client: str, bootstrap: str, topic: str, group: str, count: int) -> dict[str, float]:
    """Kill a member that holds records, and measure until another one has them."""
    arguments = [client, "hold", bootstrap, topic, group, "0"]
    command = [sys.executable, "-m", "benchmarks.share.members", *arguments]
    victim = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    held: set[Place] = set()
    lines = threading.Thread(target=lambda: held.update(_places(victim)))
    lines.start()
    try:
        with closing(_CLIENTS[client](bootstrap, topic, group)) as member:
            _until(time.monotonic() + _SETTLED_S, lambda: member.take(_POLL_S, accept=True))
            _produce(bootstrap, topic, count)
            time.sleep(2.0)
            killed_s = time.monotonic()
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            lines.join()
            left, first_s = set(held), 0.0
            while left and time.monotonic() < killed_s + _PATIENCE_S:
                if before := left & set(member.take(_POLL_S, accept=True)):
                    first_s = first_s or time.monotonic()
                    left -= before
            if left or not held:
                raise RuntimeError(f"{len(left)} of {len(held)} records did not come again")
            last_s = time.monotonic()
    finally:
        victim.kill()
    return {
        "held": len(held),
        "first_record_ms": (first_s - killed_s) * 1_000,
        "last_record_ms": (last_s - killed_s) * 1_000,
    }


def _places(process: subprocess.Popen[str]) -> Iterator[Place]:
    for line in process.stdout or ():
        if line.endswith("\n"):
            yield from ((number, offset) for number, offset in json.loads(line))


def _until(deadline_s: float, action: Callable[[], object]) -> None:
    while time.monotonic() < deadline_s:
        action()


def _crowd(client: str, bootstrap: str, topic: str, group: str, count: int) -> dict[str, float]:
    """Let a hundred members, each with a thread, wait for records and then share them."""
    taken = [0] * _MEMBERS
    ended = threading.Event()
    with ExitStack() as stack:
        members = [
            stack.enter_context(closing(_CLIENTS[client](bootstrap, topic, group)))
            for _ in range(_MEMBERS)
        ]

        def read(number: int) -> None:
            while not ended.is_set():
                taken[number] += len(members[number].take(_POLL_S * 5, accept=True))
                time.sleep(0.002)  # its work

        threads = [threading.Thread(target=read, args=[number]) for number in range(_MEMBERS)]
        for thread in threads:
            thread.start()
        try:
            time.sleep(2 * _SETTLED_S)
            before_s = cpu_s()
            time.sleep(_IDLE_S)
            idle = (cpu_s() - before_s) / _IDLE_S
            memory = memory_mb()
            began_s = time.monotonic()
            _produce(bootstrap, topic, count)
            while sum(taken) < count:
                if time.monotonic() > began_s + _PATIENCE_S:
                    raise TimeoutError(f"{sum(taken)} of {count} records came")
                time.sleep(0.05)
            took_s = time.monotonic() - began_s
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    return {
        "cpu_percent": idle * 100,
        "members_with_records": sum(map(bool, taken)),
        "records_per_s": count / took_s,
        "memory_mb": memory,
    }


def main() -> None:
    """Run as `members.py <client> <way> <bootstrap> <topic> <group> <records>`."""
    client, way, bootstrap, topic, group, records = sys.argv[1:]
    if way == "hold":
        _hold(client, bootstrap, topic, group)
    run = _crowd if way == "crowd" else _killed
    print(json.dumps(run(client, bootstrap, topic, group, int(records))), flush=True)


if __name__ == "__main__":
    main()
