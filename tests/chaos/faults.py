"""Faults of brokers, members and connections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tandem_kafka.runtime import Random
from tandem_kafka_testing.kafka import RealKafka
from tests.chaos.members import MemberProcess
from tests.chaos.proxy import HarmfulProxy

__all__ = ["Fault", "World", "draw"]


@dataclass
class World:
    """The targets of faults.

    Attributes:
        brokers: The proxies of the brokers, by node id.
        members: The running members of all groups.
        replace: Starts another member for one that has ended.
    """

    random: Random
    cluster: RealKafka
    brokers: dict[int, HarmfulProxy]
    members: list[MemberProcess]
    replace: Callable[[MemberProcess], None]


@dataclass(frozen=True)
class Fault:
    """A fault, and how it ends.

    Attributes:
        what: Its description in the report.
        lasts_s: Its duration.
    """

    what: str
    lasts_s: float
    begin: Callable[[], object]
    end: Callable[[], object]


def draw(world: World) -> Fault:
    """Choose a fault."""
    return world.random.choice(_FAULTS)(world)


def _pause_member(world: World) -> Fault:
    member = world.random.choice(world.members)
    seconds = world.random.choice([1.0, 3.0, 10.0])
    what = f"{member.name} is paused for {seconds:.0f} s"
    return Fault(what, seconds, member.pause, member.resume)


def _kill_member(world: World) -> Fault:
    member = world.random.choice(world.members)
    return Fault(f"{member.name} is killed", 1.0, member.kill, lambda: world.replace(member))


def _restart_member(world: World) -> Fault:
    member = world.random.choice(world.members)

    def end() -> None:
        member.wait_ended()
        world.replace(member)

    return Fault(f"{member.name} is restarted", 1.0, member.ask_to_end, end)


def _kill_broker(world: World) -> Fault:
    node_id = world.random.choice(world.cluster.node_ids)
    return Fault(
        f"broker {node_id} is killed",
        3.0,
        lambda: world.cluster.kill(node_id),
        lambda: world.cluster.start_again(node_id),
    )


def _roll_brokers(world: World) -> Fault:
    def roll() -> None:
        for node_id in world.cluster.node_ids:
            world.cluster.restart(node_id)

    return Fault("all brokers are restarted in turn", 0.0, roll, lambda: None)


def _pause_broker(world: World) -> Fault:
    node_id = world.random.choice(world.cluster.node_ids)
    seconds = world.random.choice([2.0, 8.0])
    return Fault(
        f"broker {node_id} is paused for {seconds:.0f} s",
        seconds,
        lambda: world.cluster.pause(node_id),
        lambda: world.cluster.resume(node_id),
    )


def _cut(world: World) -> Fault:
    def cut() -> None:
        for proxy in world.brokers.values():
            proxy.cut()

    return Fault("all connections are cut", 0.0, cut, lambda: None)


def _delay(world: World) -> Fault:
    node_id, proxy = world.random.choice(list(world.brokers.items()))

    def delay(seconds: float) -> None:
        proxy.delay_s = seconds

    seconds = world.random.choice([0.05, 0.5])
    what = f"bytes from and to broker {node_id} are {seconds * 1_000:.0f} ms late"
    return Fault(what, 5.0, lambda: delay(seconds), lambda: delay(0.0))


def _corrupt(world: World) -> Fault:
    def corrupt(share: float) -> None:
        for proxy in world.brokers.values():
            proxy.corrupt = share

    return Fault("bytes are corrupted", 4.0, lambda: corrupt(0.1), lambda: corrupt(0.0))


_FAULTS = (
    _pause_member,
    _kill_member,
    _restart_member,
    _kill_broker,
    _roll_brokers,
    _pause_broker,
    _cut,
    _delay,
    _corrupt,
)
