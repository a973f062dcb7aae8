"""A member's process. `Member.java` takes the same arguments and prints the same lines of JSON.

`first` measures the time to the first record several times, and prints it. `watch` creates the
consumer, prints that it is ready, and subscribes at the first line from stdin. It prints its
partitions whenever they change, and at the second line the times of records by partition.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import Literal

from benchmarks.groups.clients import PYTHON_CLIENTS, GroupMember
from benchmarks.groups.membership import Membership

__all__: list[str] = []

_POLL_S = 1.0
_PATIENCE_S = 30.0


def first(make: Callable[[], GroupMember], rounds: int) -> None:
    """Join a new group as its only member, `rounds` times."""
    for _ in range(rounds):
        begun = time.monotonic_ns()
        member = make()
        subscribing = time.monotonic_ns()
        member.subscribe()
        while not member.poll(_POLL_S):
            if time.monotonic_ns() - subscribing > _PATIENCE_S * 1e9:
                raise TimeoutError("no record")
        end = time.monotonic_ns()
        _print_entry(
            first_record_ms=(end - subscribing) / 1e6,
            with_construction_ms=(end - begun) / 1e6,
        )
        member.close()


def watch(member: GroupMember) -> None:
    """Read from the first line of stdin until the second."""
    _print_entry(ready=True)
    sys.stdin.readline()
    subscribed = time.monotonic_ns()
    member.subscribe()
    ended = _second_line()
    polls: dict[int, list[int]] = defaultdict(list)
    owned: list[int] = []
    while not ended.is_set():
        records = member.poll(_POLL_S)
        now = time.monotonic_ns()
        for partition in records:
            polls[partition].append(now)
        if records and (seen := member.owned()) != owned:
            owned = seen
            _print_entry(owned=owned)
    _print_entry(subscribed=subscribed, polls=polls)
    member.close()


def _second_line() -> threading.Event:
    """Return an event that is set when the next line arrives."""
    arrived = threading.Event()

    def listen() -> None:
        sys.stdin.readline()
        arrived.set()

    threading.Thread(target=listen, daemon=True).start()
    return arrived


def _print_entry(**entry: object) -> None:
    print(json.dumps(entry), flush=True)


def main() -> None:
    """Run as `python -m benchmarks.groups.member`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=list(PYTHON_CLIENTS))
    for name in ("bootstrap", "topic", "protocol", "task", "argument"):
        parser.add_argument(name)
    given = parser.parse_args()
    reset: Literal["earliest", "latest"] = "earliest" if given.task == "first" else "latest"

    def make(group: str | None = None) -> GroupMember:
        group = group or f"first-{uuid.uuid4().hex}"
        membership = Membership(given.bootstrap, given.topic, group, given.protocol, reset)
        return PYTHON_CLIENTS[given.client](membership)

    if given.task == "first":
        first(make, int(given.argument))
    else:
        watch(make(given.argument))


if __name__ == "__main__":
    main()
