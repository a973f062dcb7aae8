"""Connections with overdue responses: what is closed, and what a slow broker is granted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.network.node_state import SILENCE_LIMIT_MS, NodeState
from tandem_kafka.network.outages import Outages
from tandem_kafka.network.repeated_fetches import RepeatedFetches
from tandem_kafka.network.request import Purpose
from tandem_kafka.network.silence import SilenceWatch
from tandem_kafka.runtime import Random
from tandem_kafka.types import Node

NODE = Node(1, "10.0.0.1", 9092)


class World:
    """The connections to one broker, none of which receives anything."""

    def __init__(self) -> None:
        settings: Any = SimpleNamespace(
            reconnect_backoff_ms=50, reconnect_backoff_max_ms=1_000, request_timeout_ms=30_000
        )
        self.node = NodeState(NODE, settings, Random(1), Outages())
        self.open_links: list[Any] = []
        self.ended: list[Any] = []
        transport: Any = SimpleNamespace(received_bytes=lambda _: 0)
        self.watch = SilenceWatch(self, transport)

    def links(self) -> list[Any]:
        return list(self.open_links)

    def link(self, key: Any) -> Any:
        return next((each for each in self.open_links if each.key == key), None)

    def state(self, node: Node) -> NodeState:
        assert node == NODE
        return self.node

    def open(self, node: Node, purpose: Purpose, now_ms: int) -> Any:
        assert self.link((node.node_id, purpose)) is None, "one probe at a time"
        connection = SimpleNamespace(due_ms=now_ms, in_flight=0)
        link = SimpleNamespace(
            key=(node.node_id, purpose), node=node, number=1, ready=True, connection=connection,
            watched=False, suspected=False, received_bytes=0, received_ms=0, standing=None,
        )  # fmt: skip
        self.open_links.append(link)
        return link

    def end(self, link: Any, error: KafkaConnectionError) -> None:
        assert str(NODE) in str(error)
        self.open_links.remove(link)
        self.ended.append(link)

    def ask(self, purpose: Purpose) -> Any:
        link = self.link((1, purpose)) or self.open(NODE, purpose, 0)
        link.connection.in_flight = 1
        return link


@pytest.mark.parametrize("outcome", ["responds", "fails"])
def test_a_fetch_that_was_cut_off_gets_more_time_the_next_time(outcome: str) -> None:
    """A broker may need longer for one kind of request, as for those to remote storage."""
    world, limits = World(), list[int]()
    for _ in range(4):
        limits.append(world.node.silence_limit_ms(Purpose.FETCH_0))
        link = world.ask(Purpose.FETCH_0)
        for now_ms in (10_000, 20_000, 30_000):
            world.watch.check(link, now_ms)
        if outcome == "responds":
            world.watch.broker_responded(1)
        else:
            world.watch.probe_failed(1, OSError("refused"))
        assert link in world.ended
        world.open_links.clear()
    assert limits == [SILENCE_LIMIT_MS, 2 * SILENCE_LIMIT_MS, 4 * SILENCE_LIMIT_MS, 30_000]
    assert world.node.silence_limit_ms(Purpose.MAIN) == SILENCE_LIMIT_MS


def test_only_silent_and_idle_connections_are_closed() -> None:
    world = World()
    silent, busy = world.ask(Purpose.FETCH_0), world.ask(Purpose.MAIN)
    idle = world.open(NODE, Purpose.GROUP, 0)
    for now_ms in (10_000, 20_000):
        world.watch.check(silent, now_ms)
    world.link((1, Purpose.PROBE)).ready = False
    world.watch.broker_responded(1)
    assert world.ended == [silent, idle]
    assert busy in world.open_links


def test_a_fetch_that_is_repeated_in_time_is_not_suspected_any_more() -> None:
    """Otherwise, the next probe of the broker closes a connection that works."""
    world = World()
    link, transport = world.ask(Purpose.FETCH_0), SimpleNamespace()
    for now_ms in (10_000, 20_000):
        world.watch.check(link, now_ms)
    assert link.suspected
    link.connection.repeated = lambda _: None
    link.standing_fetch, link.repeats = SimpleNamespace(progress=lambda: (1, 50, None)), 0
    standing: Any = RepeatedFetches(transport, world.state)  # type: ignore[arg-type]
    standing.refresh(link, 21_000)
    world.watch.broker_responded(1)
    assert link in world.open_links
    assert not link.watched


def test_a_fetch_that_waits_for_room_in_the_buffer_is_never_overdue() -> None:
    """Until the order goes on or ends, its last response seems to have arrived just now."""
    world, sent = World(), list[int]()
    link = world.ask(Purpose.FETCH_0)
    link.connection.repeated = sent.append
    link.standing_fetch, link.repeats = SimpleNamespace(progress=lambda: (1, 70_000, 30)), 1
    standing: Any = RepeatedFetches(SimpleNamespace(), world.state)  # type: ignore[arg-type]
    for now_ms in (1_000, 60_000):
        link.suspected = link.watched = True
        standing.refresh(link, now_ms)
        assert not link.suspected
        assert not link.watched
    assert sent == [970, 59_970]
    link.connection.in_flight = 0
    standing.refresh(link, 70_000)
    assert sent == [970, 59_970], "Python has got the response"
