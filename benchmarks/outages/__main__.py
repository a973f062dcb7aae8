"""Measures how soon reading resumes: `python -m benchmarks.outages` compares both clients."""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Callable

from benchmarks.outages.cluster import Outages
from benchmarks.outages.reader import CLIENTS

#: A pause after each fault, so that its effects are not attributed to the next one.
_REST_S = 8.0


def killed_leader(world: Outages, turn: int) -> dict[str, float]:
    """Kill a broker: the longest time without records of a partition, until all are read again."""
    node_id = 1 + turn % 3
    begin_ns = time.time_ns()
    world.cluster.kill(node_id)
    time.sleep(15.0)
    silence = _silences(world, begin_ns)
    world.cluster.start_again(node_id)
    return silence


def hung_broker(world: Outages, turn: int) -> dict[str, float]:
    """Stop a broker's process; measured like `killed_leader`."""
    node_id = 1 + turn % 3
    begin_ns = time.time_ns()
    world.cluster.pause(node_id)
    time.sleep(40.0)
    world.cluster.resume(node_id)
    world.wait_until_all_read(time.time_ns())
    return _silences(world, begin_ns)


def half_open(world: Outages, _turn: int) -> dict[str, float]:
    """Make all existing connections half open: the time until all partitions are read again."""
    begin_ns = time.time_ns()
    for proxy in world.proxies.values():
        proxy.freeze()
    return world.wait_until_all_read(begin_ns)


def outage(world: Outages, _turn: int) -> dict[str, float]:
    """Make all brokers unreachable for a minute: the time from then until all are read again."""
    world.shut()
    time.sleep(60.0)
    world.open()
    return world.wait_until_all_read(time.time_ns())


FAULTS: dict[str, Callable[[Outages, int], dict[str, float]]] = {
    "killed-leader": killed_leader,
    "hung-broker": hung_broker,
    "half-open": half_open,
    "outage": outage,
}


def _silences(world: Outages, begin_ns: int) -> dict[str, float]:
    world.wait_until_all_read(time.time_ns())
    end_ns = time.time_ns()
    return {client: each.silence_s(begin_ns, end_ns) for client, each in world.readers.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outages", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--rounds", type=int, default=3, help="of each fault (default: 3)")
    arguments = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with Outages(CLIENTS) as world:
        for turn in range(arguments.rounds):
            for name in arguments.only:
                time.sleep(_REST_S)
                for client, seconds in FAULTS[name](world, turn).items():
                    found[name][client].append(seconds)
                    print(f"{name:14} {client:10} {seconds:6.1f} s", flush=True)
    print(f"\n{'medians':14} " + " ".join(f"{client:>10}" for client in CLIENTS) + "      ratio")
    for name, by_client in found.items():
        medians = {client: statistics.median(each) for client, each in by_client.items()}
        ratio = medians["tandem"] / medians["confluent"]
        columns = " ".join(f"{medians[client]:8.1f} s" for client in CLIENTS)
        print(f"{name:14} {columns} {ratio:10.2f}")


if __name__ == "__main__":
    main()
