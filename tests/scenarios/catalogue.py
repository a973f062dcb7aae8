"""The scenarios: kinds of groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tandem_kafka.runtime import Random
from tandem_kafka.types import SubscriptionPattern

__all__ = ["GROUP", "MAX_POLL_INTERVAL_MS", "SCENARIOS", "Scenario", "scenario_for"]

GROUP = "readers"
MAX_POLL_INTERVAL_MS = 20_000
#: Of the scenarios with `soak`.
MOST_BROKERS = 12

_COMMON: dict[str, Any] = {
    "group_id": GROUP,
    "auto_offset_reset": "earliest",
    "max_poll_interval_ms": MAX_POLL_INTERVAL_MS,
    "bootstrap_timeout_ms": 0,
    "request_timeout_ms": 15_000,
    "default_api_timeout_ms": 30_000,
}
_CLASSIC = {
    **_COMMON,
    "session_timeout_ms": 6_000,
    "partition_assignment_strategy": [RangePartitionAssignor],
}
_COOPERATIVE = {**_CLASSIC, "partition_assignment_strategy": [CooperativeStickyAssignor]}
_CONSUMER = {**_COMMON, "group_protocol": "consumer"}
#: With a long rebalance timeout, no removal of a member hides what its heartbeats forget.
_PATIENT = {"max_poll_interval_ms": 150_000, "enable_auto_commit": False}
_GROWING = {"metadata_max_age_ms": 5_000}
_SHARE: dict[str, Any] = {
    name: _COMMON[name]
    for name in ("group_id", "max_poll_interval_ms", "bootstrap_timeout_ms", "request_timeout_ms")
}
_COMMITTED = {"isolation_level": "read_committed"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of group.

    Attributes:
        options: Options of every member.
        pattern: The pattern that members subscribe to; None for the topic's name.
        static: Whether members have instance ids.
        local: Whether members have client-side assignors.
        remote: Whether members request assignors of the coordinator, each its own.
        transactions: Whether records and offsets are also written in transactions.
        retention: Whether the oldest records are dropped.
        quotas: Whether brokers throttle clients.
        racks: Racks of the brokers and members.
        steered: Whether applications pause, resume and seek, and commit asynchronously. Such a
            scenario runs in the odd rounds.
        recreated: Whether the topic is deleted and created again.
        in_turn: Whether seeds run it by default. Otherwise it runs by its name only, because one
            more scenario in the rounds would change the run of every seed.
        workers: Whether members have workers, whose handlers fail. Such a scenario runs by name.
        shares: Whether the members are share consumers. Such a scenario runs by name.
        soak: Whether those have applications of many kinds, whose handlers take up to 50 seconds at
            locks of 15, on up to 12 brokers.
        calm: Whether there are no faults.
        others: Options of half of the members, in a group with members of both protocols.
        asynchronous: Whether the members are asyncio consumers, whose calls are cancelled. Those
            with workers are also killed, and lose offsets and topics: a soak.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    pattern: str | SubscriptionPattern | None = None
    static: bool = False
    local: bool = False
    remote: bool = False
    transactions: bool = False
    retention: bool = False
    quotas: bool = False
    racks: tuple[str, ...] = ()
    steered: bool = False
    recreated: bool = False
    in_turn: bool = True
    workers: bool = False
    shares: bool = False
    soak: bool = False
    calm: bool = False
    others: dict[str, Any] | None = None
    asynchronous: bool = False

    @property
    def keeps_partitions(self) -> bool:
        """Whether members keep partitions during a classic rebalance, which may reject commits."""
        return self.options.get("partition_assignment_strategy") == [CooperativeStickyAssignor]

    def brokers(self, seed: int) -> int:
        """Return the number of brokers."""
        return 1 + seed % MOST_BROKERS if self.soak else 2 + seed // 7 % 2

    def draw_options(self, random: Random) -> dict[str, Any]:
        """Return the options, with values that the seed draws for some."""
        drawn = {
            "fetch_max_wait_ms": random.choice([500, 3_000, 5_000]),
            "auto_commit_interval_ms": random.choice([1_000, 5_000]),
            "enable_auto_commit": random.random() < 0.8,
            "max_poll_records": random.choice([2, 500]),
        }
        if self.options.get("group_protocol") != "consumer":
            drawn["heartbeat_interval_ms"] = random.choice([500, 2_000])
        return {**drawn, **self.options}

    def options_of_others(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the drawn options, changed for a member with `others`."""
        of_one_protocol = {*self.options, "heartbeat_interval_ms"} - _COMMON.keys()
        shared = {name: value for name, value in options.items() if name not in of_one_protocol}
        return {**shared, **(self.others or {})}


SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario("classic", _CLASSIC),
        Scenario("consumer", _CONSUMER),
        Scenario("cooperative", _COOPERATIVE),
        Scenario("consumer-static", _CONSUMER, static=True),
        Scenario("classic-static", _CLASSIC, static=True),
        Scenario(
            "consumer-growing",
            {**_CONSUMER, **_GROWING},
            pattern=SubscriptionPattern("orders.*"),
        ),
        Scenario("cooperative-growing", {**_COOPERATIVE, **_GROWING}, pattern="^orders"),
        Scenario("consumer-patient", {**_CONSUMER, **_PATIENT}),
        Scenario("consumer-local", _CONSUMER, local=True),
        Scenario("consumer-local-static", _CONSUMER, static=True, local=True),
        Scenario("rolling", _CLASSIC, others=_CONSUMER),
        Scenario("rolling-cooperative", _COOPERATIVE, others=_CONSUMER),
        Scenario("consumer-transactions", {**_CONSUMER, **_COMMITTED}, transactions=True),
        Scenario("cooperative-transactions", {**_COOPERATIVE, **_COMMITTED}, transactions=True),
        Scenario("consumer-racks", _CONSUMER, retention=True, racks=("here", "there")),
        Scenario("classic-quotas", _CLASSIC, retention=True, quotas=True),
        Scenario("consumer-remote", _CONSUMER, remote=True, in_turn=False),
        Scenario("workers", _CLASSIC, workers=True, in_turn=False),
        Scenario("cooperative-workers", _COOPERATIVE, workers=True, in_turn=False),
        Scenario("consumer-workers", _CONSUMER, workers=True, in_turn=False),
        Scenario(
            "consumer-workers-transactions",
            {**_CONSUMER, **_COMMITTED},
            transactions=True,
            workers=True,
            in_turn=False,
        ),
        Scenario("workers-soak", _COMMON, workers=True, asynchronous=True, in_turn=False),
        Scenario("share", {**_SHARE, "acknowledgement": "implicit"}, shares=True, in_turn=False),
        Scenario(
            "share-explicit", {**_SHARE, "acknowledgement": "explicit"}, shares=True, in_turn=False
        ),
        Scenario("share-soak", _SHARE, shares=True, soak=True, in_turn=False),
        Scenario("share-calm", _SHARE, shares=True, soak=True, calm=True, in_turn=False),
        Scenario("consumer-asyncio", _CONSUMER, asynchronous=True, in_turn=False),
        Scenario("cooperative-asyncio", _COOPERATIVE, asynchronous=True, in_turn=False),
        Scenario("classic-asyncio", _CLASSIC, asynchronous=True, in_turn=False),
        Scenario("consumer-steered", _CONSUMER, steered=True),
        Scenario("cooperative-steered", _COOPERATIVE, steered=True),
        Scenario("classic-steered", _CLASSIC, steered=True),
        Scenario(
            "consumer-transactions-steered",
            {**_CONSUMER, **_COMMITTED},
            transactions=True,
            steered=True,
        ),
        Scenario("consumer-recreated", _CONSUMER, steered=True, recreated=True),
        Scenario("cooperative-recreated", _COOPERATIVE, steered=True, recreated=True),
        Scenario("classic-recreated", _CLASSIC, steered=True, recreated=True),
        Scenario("rolling-steered", _COOPERATIVE, others=_CONSUMER, steered=True),
    )
}


def scenario_for(seed: int, name: str | None = None) -> Scenario:
    """Return the scenario of a seed: the named one, or each in turn.

    The scenarios run one after another, in rounds. Those with `steered` have the odd rounds.
    Seeds of the even rounds thus keep the runs that they had before `steered` was added.

    Raises:
        ValueError: There is no scenario of that name.
    """
    if name is None:
        in_turn = [scenario for scenario in SCENARIOS.values() if scenario.in_turn]
        plain = [scenario for scenario in in_turn if not scenario.steered]
        steered = [scenario for scenario in in_turn if scenario.steered]
        number, turn = divmod(seed, len(plain))
        if number % 2:
            return steered[(number // 2 * len(plain) + turn) % len(steered)]
        return plain[turn]
    if name not in SCENARIOS:
        msg = f"no scenario {name!r}; there are: {', '.join(SCENARIOS)}"
        raise ValueError(msg)
    return SCENARIOS[name]
