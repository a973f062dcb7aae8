"""`Health`: what a consumer does, what it waits for, and what is wrong; for probes and people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from tandem_kafka.config import Config
from tandem_kafka.consumer.core import Core
from tandem_kafka.state.failures import LASTING_MS, FailingRequest
from tandem_kafka.state.group import NO_GENERATION
from tandem_kafka.state.partition import AssignedPartition, FetchState
from tandem_kafka.state.topic_troubles import TopicTrouble, lacking
from tandem_kafka.types import ClusterSnapshot, Node, TopicPartition, names_of

#: The network thread sleeps for at most five seconds. After this time without an iteration, it is
#: blocked.
TURN_LIMIT_MS = 15_000
#: Fetched records that wait for longer are worth a reason.
WAIT_LIMIT_MS = 1_000

#: The share of `max_poll_interval_ms` from which on a handler is a trouble.
LATE_SHARE = 0.75

#: Nothing is read, or soon nothing, while these fail.
_READING = frozenset(
    {
        *("ConsumerGroupHeartbeat", "FindCoordinator", "Heartbeat", "JoinGroup"),
        *("ListOffsets", "OffsetFetch", "OffsetForLeaderEpoch", "ShareFetch"),
        *("ShareGroupHeartbeat", "SyncGroup"),
    }
)
#: Without metadata, nothing begins; what is read continues.
_BEGINNING = _READING | {"Metadata"}
#: Failures that do not concern the application.
_TELEMETRY = frozenset({"GetTelemetrySubscriptions", "PushTelemetry", "LeaveGroup"})
#: A rebalance takes as long as the slowest member; most take less.
REBALANCE_LIMIT_MS = 30_000
#: So many lookups in a row have failed if a partition is without a position for seconds.
_LOOKUPS = 5

_WITHOUT_POSITION = {
    FetchState.INITIALIZING: "its committed offset is being looked up",
    FetchState.AWAIT_RESET: "its offset is being looked up",
    FetchState.AWAIT_VALIDATION: "its position is being validated with the leader",
    FetchState.AWAIT_DROP: "what was fetched in advance may be lost; the next poll() drops it",
}


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """An assigned partition.

    Attributes:
        position: The offset of the next record, None while it is looked up.
        lag: The difference between the high watermark of the last fetch and the position, None
            while either is unknown.
        paused: Whether the application has paused it.
        stuck: Why no record is returned; None if records are returned as they arrive, or if
            there is none.
    """

    position: int | None
    lag: int | None
    paused: bool
    stuck: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """A snapshot of a consumer.

    Ages are in milliseconds, None before the first event. Those of heartbeats, fetches and commits
    count successes: they grow while brokers refuse all requests, or do not respond.

    Attributes:
        not_alive: Why the consumer cannot recover by itself; empty if it is alive.
        not_ready: Why it reads no records now; empty if it is ready. While it is not alive, it is
            not ready.
        client_id: The ``client_id``.
        group_id: The group, None without one.
        member_id: The member id, empty outside of the group.
        generation_id: The generation or member epoch, -1 outside of the group.
        rebalance_ms: How long a rebalance has been in progress, None without one.
        poll_ms: Since the application was inside ``poll()`` or iteration.
        handler_ms: How long the application was outside of ``poll()`` before it called it last.
        heartbeat_ms: Since the coordinator last accepted a heartbeat.
        fetch_ms: Since a broker last accepted a fetch, for one of its partitions at least.
        commit_ms: Since a commit was last stored; of a share group, acknowledgements.
        partitions: The assigned partitions.
        buffer_bytes: Bytes in the fetch buffer.
        buffer_limit_bytes: The limit, ``fetch_buffer_max_bytes``.
        requests_queued: Requests that wait to be sent.
        requests_in_flight: Requests without a response yet.
        troubles: Each broker that cannot be used or is slow, why, and since when; requests that
            fail although records are read; each topic that cannot be read; a handler that uses
            most of ``max_poll_interval_ms``; a member of a group without partitions, or whose
            assignor fails; a share consumer that calls poll() too seldom.
    """

    not_alive: tuple[str, ...]
    not_ready: tuple[str, ...]
    client_id: str | None
    group_id: str | None
    buffer_limit_bytes: int
    member_id: str = ""
    generation_id: int = NO_GENERATION
    rebalance_ms: int | None = None
    poll_ms: int | None = None
    handler_ms: int = 0
    heartbeat_ms: int | None = None
    fetch_ms: int | None = None
    commit_ms: int | None = None
    partitions: Mapping[TopicPartition, PartitionHealth] = field(default_factory=dict)
    buffer_bytes: int = 0
    requests_queued: int = 0
    requests_in_flight: int = 0
    troubles: tuple[str, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether the consumer works or can recover by itself. If not, restart the process."""
        return not self.not_alive

    @property
    def ready(self) -> bool:
        """Whether it can read: brokers and coordinator respond, and it is a member of its group."""
        return not self.not_ready

    @property
    def state(self) -> str:
        """Return "ready", "not ready" or "not alive"."""
        return "ready" if self.ready else "not ready" if self.alive else "not alive"

    def _repr_html_(self) -> str:
        """Show a notebook the state, the reasons and the partitions."""
        from tandem_kafka.notebook import health_as_html  # noqa: PLC0415 - used in notebooks only

        return health_as_html(self)


def health_of(core: Core, fetched: Iterable[TopicPartition] | None = None) -> Health:
    """Return the health of a consumer; any thread may call this, and it never waits.

    Args:
        core: What the consumer consists of.
        fetched: The partitions that it fetches; None for those of the subscription.
    """
    engine, config, now_ms = core.engine, core.config, core.clock.now_ms()
    group, metrics, polled_ms = engine.group, engine.metrics, engine.polls.polled_ms
    poll_ms = now_ms - polled_ms if polled_ms else None
    dead = (*map(core.client.secrets.line, _not_alive(core, now_ms, poll_ms)),)
    troubles = (*engine.loop.troubles(now_ms),)
    since_ms = group.rebalancing_since_ms
    queued, in_flight = engine.loop.requests()
    found = engine.loop.broker_troubles(now_ms)
    broken = {trouble.node_id: trouble.text for trouble in found if not trouble.usable}
    partitions = tuple(engine.subscription.assigned if fetched is None else fetched)
    failing, needed = _failing(core, partitions), _needed(core, assigned=bool(partitions))
    others = (each.text for each in failing if each.api not in {*needed, *_TELEMETRY})
    topics = _topics(core, fetched)  # once, so that both parts of the health say the same
    shown = core.client.secrets.line
    return Health(
        not_alive=dead,
        not_ready=(
            *dead,
            *map(shown, _not_ready(core, troubles, broken, topics, failing, needed)),
        ),
        client_id=config.client_id,
        group_id=config.group_id,
        member_id=group.metadata.member_id,
        generation_id=group.metadata.generation_id,
        rebalance_ms=None if since_ms is None else now_ms - since_ms,
        poll_ms=poll_ms,
        handler_ms=engine.polls.handler_ms,
        heartbeat_ms=metrics.since_ms("last-heartbeat-accepted-seconds-ago"),
        fetch_ms=metrics.since_ms("last-fetch-seconds-ago"),
        commit_ms=metrics.since_ms("last-commit-seconds-ago"),
        partitions={
            tp: _partition(core, state, poll_ms, broken, failing)
            for tp, state in sorted(engine.subscription.assigned.items())
        },
        buffer_bytes=engine.buffer.held_bytes,
        buffer_limit_bytes=config.fetch_buffer_max_bytes,
        requests_queued=queued,
        requests_in_flight=in_flight,
        troubles=(*map(shown, (*troubles, *_warnings(core, poll_ms, topics), *others)),),
    )


def health_without_start(config: Config, why: str, *, alive: bool) -> Health:
    """Return the health of a consumer that has no network thread yet, or never will."""
    return Health(
        not_alive=() if alive else (why,),
        not_ready=(why,),
        client_id=config.client_id,
        group_id=config.group_id,
        buffer_limit_bytes=config.fetch_buffer_max_bytes,
    )


def _not_alive(core: Core, now_ms: int, poll_ms: int | None) -> Iterator[str]:
    loop, config = core.engine.loop, core.config
    if not core.in_own_process:
        yield "this process is a fork of the one that created the consumer"
    elif core.closed or core.closing:
        yield "the consumer has been closed"
    elif loop.failure is not None:
        yield f"the network thread has failed: {loop.failure!r}"
    elif now_ms - loop.turned_ms > TURN_LIMIT_MS:
        yield f"the network thread has been blocked for {(now_ms - loop.turned_ms) / 1000:.1f} s"
    if core.engine.group.fatal is not None:
        yield f"the membership has failed: {core.engine.group.fatal}"
    if (
        config.group_id is not None
        and poll_ms is not None
        and poll_ms > config.max_poll_interval_ms
    ):
        yield (
            f"poll() was not called for {poll_ms / 1000:.1f} s "
            f"(max_poll_interval_ms={config.max_poll_interval_ms})"
        )


def _not_ready(
    core: Core,
    troubles: tuple[str, ...],
    broken: Mapping[int, str],
    topics: _Topics,
    failing: Sequence[FailingRequest],
    needed: AbstractSet[str],
) -> Iterator[str]:
    engine, config = core.engine, core.config
    if not engine.metadata.snapshot.version:
        yield "; ".join(("no broker has responded yet", *troubles))
    elif _none_usable(engine.metadata.nodes(), broken):
        yield "; ".join(("no broker can be used", *broken.values()))
    yield from _unreadable(core, broken)
    yield from _unreadable_topics(topics)
    yield from (each.text for each in failing if each.api in needed)
    if not engine.subscription.auto_assigned:
        if not engine.subscription.assigned:
            yield "there is no subscription: call subscribe() or assign()"
    elif config.group_id is not None:
        yield from _outside(core, broken)


def _needed(core: Core, *, assigned: bool) -> AbstractSet[str]:
    """Return the requests without which nothing is read, or soon nothing."""
    fetched_ms = core.engine.metrics.since_ms("last-fetch-seconds-ago")
    reads = fetched_ms is not None and fetched_ms < LASTING_MS and assigned
    if not reads:
        return _BEGINNING
    # Without a membership, a coordinator is needed for commits, and for positions in the beginning.
    return _READING if core.engine.subscription.auto_assigned else _READING - {"FindCoordinator"}


def _none_usable(nodes: Sequence[Node], broken: Mapping[int, str]) -> bool:
    """Tell whether no broker can be used."""
    if all(node.node_id < 0 for node in nodes):
        # All have failed, so the bootstrap servers are asked, one after the other.
        return bool(broken)
    return all(node.node_id in broken for node in nodes)


def _failing(core: Core, fetched: Iterable[TopicPartition]) -> list[FailingRequest]:
    """Return the requests that fail all the time, to brokers that are needed, and why."""
    coordinator = core.engine.group.coordinator
    needed = {-1} | {_leader_id(core, tp) for tp in fetched}
    if coordinator is not None:
        needed.add(coordinator.node_id)
    found = core.engine.failures.lasting(core.clock.now_ms())
    # Fetches fail by partition: see `_unread`.
    return [each for each in found if each.node_id in needed and each.api != "Fetch"]


def _unreadable_topics(topics: _Topics) -> Iterator[str]:
    """Name the topics that this client may not read, and missing ones if no other is left."""
    found = topics.troubles
    return (each.text for each in found.values() if topics.only_troubles or not each.missing)


class _Topics(NamedTuple):
    """The subscribed and assigned topics: the troubles of some, and whether there is no other."""

    troubles: Mapping[str, TopicTrouble]
    only_troubles: bool


def _topics(core: Core, fetched: Iterable[TopicPartition] | None) -> _Topics:
    subscription = core.engine.subscription
    fetched = tuple(subscription.assigned) if fetched is None else fetched
    assigned = {tp.topic for tp in fetched}
    topics = subscription.topics | assigned
    found = core.engine.topic_troubles.of(topics, assigned)
    if not subscription.auto_assigned:
        found = {**lacking(fetched, core.engine.metadata.snapshot), **found}
    return _Topics(found, found.keys() == topics)


def _warnings(core: Core, poll_ms: int | None, topics: _Topics) -> Iterator[str]:
    """Name unreadable topics, a slow handler, and a membership without partitions."""
    config, group = core.config, core.engine.group
    yield from (each.text for each in topics.troubles.values())
    if config.group_id is None or not core.engine.subscription.auto_assigned:
        return
    if group.assignor_failure is not None:
        yield group.assignor_failure
    handler_ms = max(poll_ms or 0, core.engine.polls.handler_ms)
    share = handler_ms / config.max_poll_interval_ms
    if share >= LATE_SHARE:
        yield (
            f"poll() was not called for {handler_ms / 1000:.1f} s, {share:.0%} of "
            f"max_poll_interval_ms={config.max_poll_interval_ms}; after that, this consumer leaves "
            f"the group {config.group_id!r}: reduce max_poll_records or increase "
            "max_poll_interval_ms"
        )
    if (
        not config.shares
        and group.metadata.generation_id != NO_GENERATION
        and group.rebalancing_since_ms is None
        and not core.engine.subscription.assigned
        and not topics.only_troubles
    ):
        yield (
            f"this member of the group {config.group_id!r} has no partitions: the group has more "
            "members than partitions, or is still assigning them"
        )


def _outside(core: Core, broken: Mapping[int, str]) -> Iterator[str]:
    """Say why the consumer cannot take part in its group."""
    group, group_id = core.engine.group, core.config.group_id
    if group.coordinator is None:
        yield f"the coordinator of the group {group_id!r} is not known"
    elif group.coordinator.node_id in broken:
        yield f"the coordinator of the group {group_id!r}: {broken[group.coordinator.node_id]}"
    elif group.metadata.generation_id == NO_GENERATION:
        yield f"this consumer is not a member of the group {group_id!r} yet"
    if (removed := _removed_again(core)) is not None:
        yield f"the coordinator of the group {group_id!r} removes this member again: {removed}"
    since_ms = group.rebalancing_since_ms
    lasted_ms = 0 if since_ms is None else core.clock.now_ms() - since_ms
    assigned = tuple(core.engine.subscription.assigned.values())
    if lasted_ms > REBALANCE_LIMIT_MS and not any(state.fetchable for state in assigned):
        yield f"a rebalance of the group {group_id!r} has lasted for {lasted_ms / 1000:.1f} s"


def _removed_again(core: Core) -> str | None:
    """Return why the member was removed again, if nothing has been fetched since."""
    removed = core.engine.group.removed_again
    fetched_ms = core.engine.metrics.since_ms("last-fetch-seconds-ago")
    if removed is None:
        return None
    at_ms, why = removed
    return why if fetched_ms is None or fetched_ms >= core.clock.now_ms() - at_ms else None


def _unreadable(core: Core, broken: Mapping[int, str]) -> Iterator[str]:
    """Count the partitions whose leaders cannot be used."""
    assigned = tuple(core.engine.subscription.assigned.values())
    leaders = Counter(_leader_id(core, state.tp) for state in assigned)
    lost = sum(not s.has_valid_position and s.failures >= _LOOKUPS for s in assigned)
    if lost:
        yield f"assigned partitions without a position, whose lookup fails: {lost}"
    unread = [(state.tp, text) for state in assigned if (text := _unread(core, state))]
    if unread:
        tp, text = unread[0]
        yield f"assigned partitions that cannot be read: {len(unread)}; {names_of([tp])}: {text}"
    snapshot = core.engine.metadata.snapshot
    without = Counter(filter(None, (without_leader(snapshot, state.tp) for state in assigned)))
    for text, count in sorted(without.items()):
        yield f"assigned partitions that cannot be read: {count}; {text}"
    for node_id, count in sorted(leaders.items()):
        if node_id in broken and node_id >= 0:
            yield f"assigned partitions that cannot be read: {count}; {broken[node_id]}"


def _unread(core: Core, state: AssignedPartition) -> str | None:
    """Return for how long fetches of a partition have failed, and why; None if they do not."""
    failing, now_ms = state.failing, core.clock.now_ms()
    if failing is None or not failing.lasts(now_ms):
        return None
    return f"Fetch has failed {failing.text(now_ms)}"


def without_leader(snapshot: ClusterSnapshot, tp: TopicPartition) -> str | None:
    """Say why a partition has no leader; None if it has one."""
    found = snapshot.partition(tp)
    if found is not None:
        return "it has no leader" if found.leader_id < 0 else None
    known = tp.topic in snapshot.topics
    return "it does not exist" if known else "its topic does not exist, or is not known yet"


def _leader_id(core: Core, tp: TopicPartition) -> int:
    info = core.engine.metadata.snapshot.partition(tp)
    return -1 if info is None else info.leader_id


def _partition(
    core: Core,
    state: AssignedPartition,
    poll_ms: int | None,
    broken: Mapping[int, str],
    failing: Sequence[FailingRequest],
) -> PartitionHealth:
    position, high_watermark = state.position, state.high_watermark
    lag = None
    if position is not None and high_watermark >= 0:
        lag = max(0, high_watermark - position.offset)
    stuck = None if lag == 0 else next(_stuck(core, state, poll_ms, broken, failing), None)
    return PartitionHealth(
        position=None if position is None else position.offset,
        lag=lag,
        paused=state.paused,
        stuck=None if stuck is None else core.client.secrets.line(stuck),
    )


def _stuck(
    core: Core,
    state: AssignedPartition,
    poll_ms: int | None,
    broken: Mapping[int, str],
    failing: Sequence[FailingRequest],
) -> Iterator[str]:
    """Say why no record is returned, the most telling reason first."""
    leader_id = _leader_id(core, state.tp)
    unreachable = leader_id in core.engine.metadata.unreachable or leader_id in broken
    texts = [each.text for each in failing if each.node_id == leader_id]
    waiting = state.held_bytes > 0 and (poll_ms is None or poll_ms > WAIT_LIMIT_MS)
    reasons = (
        (state.paused, "the application has paused it"),
        (state.paused_by_workers, "its workers take no more records of it at present"),
        (state.errors_put != state.errors_taken, "poll() must raise an error of it first"),
        (state.pending_revocation, "it is being revoked"),
        (state.awaiting_callback, "on_partitions_assigned() has not been called yet"),
        (state.unconfirmed, "another member may own it, until the coordinator responds"),
        (leader_id < 0, without_leader(core.engine.metadata.snapshot, state.tp) or ""),
        (unreachable, f"its leader, broker {leader_id}, cannot be used"),
        (bool(unread := _unread(core, state)), unread or ""),
        (bool(texts), "; ".join(texts)),
        (state.state in _WITHOUT_POSITION, _WITHOUT_POSITION.get(state.state, "")),
        (waiting, "its records wait for poll()"),
    )
    return (reason for true, reason in reasons if true)
