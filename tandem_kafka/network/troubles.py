"""Says what is wrong with brokers, for `health()`, diagnoses and the errors of timed out calls."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from tandem_kafka.network.link import Link
from tandem_kafka.network.node_state import LATE_MS, UNUSED_MS, NodeState

#: A response that is overdue for longer, or a connection that takes longer, is a trouble. Short
#: enough for people and probes, and much shorter than the time after which the consumer reacts.
OVERDUE_MS = 2_000


class Trouble(NamedTuple):
    """What is wrong with a broker.

    Attributes:
        node_id: The broker; a bootstrap server has a negative id.
        text: What is wrong.
        usable: Whether requests succeed nevertheless.
    """

    node_id: int
    text: str
    usable: bool


def troubles(
    states: Iterable[NodeState],
    links: Iterable[Link],
    known: Container[int],
    now_ms: int,
    overdue_ms: int = OVERDUE_MS,
) -> list[Trouble]:
    """Return at most one trouble of each known broker; any thread may call this.

    Args:
        states: The states of the brokers.
        links: Their connections.
        known: The ids of the brokers that belong to the cluster.
        now_ms: The current time.
        overdue_ms: How late a response or a connection must be.
    """
    found: dict[int, Trouble] = {}
    links = tuple(links)
    for trouble in (*_of_links(links, now_ms, overdue_ms), *_of_states(states, links, now_ms)):
        if trouble.node_id in known:
            found[trouble.node_id] = trouble
    return list(found.values())


def _of_links(links: Iterable[Link], now_ms: int, overdue_ms: int) -> Iterator[Trouble]:
    for link in links:
        if link.closed:
            continue
        if not link.ready:
            took_ms = now_ms - link.begun_ms
            what = f"has not been ready for {took_ms / 1000:.1f} s ({link.phase})"
        else:
            took_ms = now_ms - _due_ms(link, now_ms)
            what = f"has not responded for {took_ms / 1000:.1f} s"
        if took_ms > overdue_ms:
            yield Trouble(link.key[0], f"{link.node} {what}", usable=False)


def _due_ms(link: Link, now_ms: int) -> int:
    standing = link.standing_fetch
    if standing is not None:
        repeats, _, held_after_ms = standing.progress()
        # What a standing fetch has repeated is known here later, and one that is held is not due.
        if repeats != link.repeats or held_after_ms is not None:
            return now_ms
    try:
        return link.connection.due_ms
    except IndexError:  # nothing is in flight, or the response has just arrived
        return now_ms


def _of_states(
    states: Iterable[NodeState], links: Iterable[Link], now_ms: int
) -> Iterator[Trouble]:
    in_use = {link.key[0] for link in links}
    connecting = {link.key[0] for link in links if not link.ready}
    for state in states:
        node_id = state.node.node_id
        silent = state.silent and node_id in in_use
        used = silent or node_id in connecting or now_ms - state.retry_at_ms <= UNUSED_MS
        text = state.trouble(now_ms) if used else None
        if text is not None:
            yield Trouble(node_id, text, usable=False)
        elif state.late_ms > LATE_MS and node_id in in_use:
            late_s = state.late_ms / 1000
            yield Trouble(
                node_id,
                f"{state.node} is slow: its last response was {late_s:.1f} s late",
                usable=True,
            )
