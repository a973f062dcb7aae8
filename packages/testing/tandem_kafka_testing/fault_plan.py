"""Which faults a served cluster has, and when: from Python or from a TOML file.

    [network]                 # as long as the cluster is served: the fields of `Conditions`
    latency_ms = [1, 20]
    loss = 0.001

    [[fault]]                 # the connections to broker 1 are cut once
    kind = "cut"
    at_ms = 2000
    broker = 1

    [[fault]]                 # one of these, drawn from the seed, each second for half a minute
    kind = ["lead", "pause", "expel"]
    every_ms = 1000
    until_ms = 30000

Times count from the moment at which the cluster is served.
"""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, get_type_hints

from tandem_kafka.runtime import Random
from tandem_kafka_testing.cluster import SimCluster
from tandem_kafka_testing.faults import ClusterFaults
from tandem_kafka_testing.network import Conditions

__all__ = ["KINDS", "FaultPlan", "PlannedFault", "cause"]

#: The kinds of faults, by name: the methods of `ClusterFaults`.
KINDS: Final[Mapping[str, Callable[..., None]]] = {
    name: method
    for name, method in vars(ClusterFaults).items()
    if inspect.isfunction(method) and not name.startswith("_")
}

_TIMES: Final = ("at_ms", "every_ms", "until_ms")


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault and its times.

    Attributes:
        kind: The name of a method of `ClusterFaults`, or several to draw from.
        at_ms: When it occurs first; by default after `every_ms`.
        every_ms: The time between its occurrences; None for a single one.
        until_ms: When it occurs no more; None for never.
        arguments: The arguments of the method. What is not given is drawn each time.

    Raises:
        ValueError: A kind, a time or an argument is not allowed.
    """

    kind: str | Sequence[str]
    at_ms: int | None = None
    every_ms: int | None = None
    until_ms: int | None = None
    arguments: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ValueError("kind: name at least one fault")
        for name in _TIMES:
            given = getattr(self, name)
            lowest = 1 if name == "every_ms" else 0
            if given is not None and (type(given) is not int or given < lowest):
                raise ValueError(f"{name}={given!r}: must be an integer of at least {lowest}")
        if self.at_ms is None and self.every_ms is None:
            raise ValueError("give at_ms for a single fault, or every_ms for a repeated one")
        if self.until_ms is not None and self.first_ms > self.until_ms:
            raise ValueError(
                f"until_ms={self.until_ms}: it would first occur at {self.first_ms} ms"
            )
        for kind in self.kinds:
            _check_arguments(kind, self.arguments)

    @property
    def first_ms(self) -> int:
        """When it occurs first."""
        return (self.every_ms or 0) if self.at_ms is None else self.at_ms

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds to draw from."""
        return (self.kind,) if isinstance(self.kind, str) else self.kind


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """The faults of a served cluster.

    Attributes:
        faults: Each with its times.
        conditions: The conditions of the network; None for a perfect one.
    """

    faults: Sequence[PlannedFault] = ()
    conditions: Conditions | None = None

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a plan from a TOML file.

        Raises:
            OSError: The file cannot be read.
            ValueError: It is not TOML, or has something that is not allowed.
        """
        text = Path(path).read_text(encoding="utf-8")
        try:
            return cls.from_table(tomllib.loads(text))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Self:
        """Return the plan of a parsed TOML file.

        Raises:
            ValueError: The table has something that is not allowed.
        """
        _check_names("the plan", table, ("network", "fault"))
        entries = table.get("fault", [])
        _check_shape(
            isinstance(entries, list),
            "fault: must be an array of tables; write [[fault]], not [fault]",
        )
        faults = [_planned(number, entry) for number, entry in enumerate(entries, 1)]
        network = table.get("network")
        return cls(faults, None if network is None else _conditions(network))

    def begin(self, cluster: SimCluster, random: Random, note: Callable[[str], None]) -> None:
        """Schedule the faults from now on.

        Args:
            cluster: The cluster.
            random: Draws what the plan leaves open.
            note: Called with the name and the arguments of each fault when it occurs.
        """
        faults, network = ClusterFaults(cluster, random), cluster.network
        begin_ms = network.clock.now_ms()

        def occur(planned: PlannedFault, when_ms: int) -> None:
            if planned.until_ms is not None and when_ms > planned.until_ms:
                return
            kind = random.choice(planned.kinds)
            given = "".join(f" {name}={value}" for name, value in planned.arguments.items())
            try:
                note(f"{kind}{given}")
                KINDS[kind](faults, **planned.arguments)
            except ValueError as error:  # for example, the topic does not exist yet
                note(f"{kind} has no effect: {error}")
            finally:
                if planned.every_ms is not None:
                    later(planned, when_ms + planned.every_ms)

        def later(planned: PlannedFault, when_ms: int) -> None:
            network.at(begin_ms + when_ms, partial(occur, planned, when_ms))

        for planned in self.faults:
            later(planned, planned.first_ms)


def cause(faults: ClusterFaults, kind: str, arguments: Mapping[str, object]) -> None:
    """Cause one fault now.

    Raises:
        ValueError: There is no such fault, or an argument is not allowed.
    """
    _check_arguments(kind, arguments)
    KINDS[kind](faults, **arguments)


def _planned(number: int, entry: Any) -> PlannedFault:
    where = f"fault {number}"
    _check_shape(isinstance(entry, dict), f"{where}: {entry!r}: must be a table; write [[fault]]")
    kind = entry.get("kind", [])
    _check_shape(
        isinstance(kind, str | list), f"{where}: kind={kind!r}: must be a name, or several"
    )
    rest = {name: value for name, value in entry.items() if name not in {"kind", *_TIMES}}
    times = {name: entry[name] for name in _TIMES if name in entry}
    try:
        return PlannedFault(kind, **times, arguments=rest)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _check_shape(right: bool, otherwise: str) -> None:
    if not right:
        raise ValueError(otherwise)


def _check_arguments(kind: object, arguments: Mapping[str, object]) -> None:
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"kind={kind!r}: must be one of {', '.join(sorted(KINDS))}")
    hints = get_type_hints(KINDS[kind])
    allowed = [name for name in inspect.signature(KINDS[kind]).parameters if name != "self"]
    _check_names(kind, arguments, allowed)
    for name, value in arguments.items():
        expected = next(each for each in (bool, int, str) if each in hints[name].__args__)
        if type(value) is not expected:
            raise ValueError(f"{kind}: {name}={value!r}: must be of type {expected.__name__}")
        if name.endswith("_ms") and isinstance(value, int) and value < 0:
            raise ValueError(f"{kind}: {name}={value}: must not be negative")


def _check_names(where: str, given: Mapping[str, object], allowed: Sequence[str]) -> None:
    for name in given:
        if name not in allowed:
            choice = f"allowed: {', '.join(allowed)}" if allowed else "it has no arguments"
            raise ValueError(f"{where}: unknown {name!r}; {choice}")


def _conditions(table: Any) -> Conditions:
    _check_shape(isinstance(table, dict), f"network={table!r}: must be a table; write [network]")
    fields = {each.name: each for each in dataclasses.fields(Conditions)}
    _check_names("network", table, list(fields))
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name.endswith("_ms"):
            if not _is_range(value):
                raise ValueError(f"network: {name}={value!r}: must be [shortest, longest], in ms")
            values[name] = tuple(value)
        elif type(value) not in {int, float} or not 0 <= value <= 1:
            raise ValueError(f"network: {name}={value!r}: must be a share from 0 to 1")
        else:
            values[name] = value
    values.setdefault("latency_ms", (0, 0))
    return Conditions(**values)


def _is_range(value: Any) -> bool:
    if not isinstance(value, list) or [type(each) for each in value] != [int, int]:
        return False
    shortest, longest = value
    return bool(0 <= shortest <= longest)
