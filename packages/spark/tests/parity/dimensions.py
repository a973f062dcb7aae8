"""What a combination is, and its dimensions: a label stands for the options beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from packages.spark.tests.parity.pairwise import pairwise
from packages.spark.tests.parity.topics import BASE_MS, PREFIX, SECOND_MS

Options = Mapping[str, str]


@dataclass(frozen=True)
class Case:
    """One combination.

    Attributes:
        about: What an error should name: an option, a topic or a partition.
    """

    group: str
    name: str
    options: Options
    about: str = ""

    @property
    def id(self) -> str:
        return f"{self.group}: {self.name}"


@dataclass(frozen=True)
class Batch(Case):
    """A batch query.

    Attributes:
        query: The name of what is made of the rows; see `outcomes.QUERIES`.
    """

    query: str = "all columns"


@dataclass(frozen=True)
class Stream(Case):
    """Runs of a streaming query with one checkpoint, and what happens between them.

    Attributes:
        setup: Topics that exist before, by name, with the numbers of their partitions; each has
            records. No other combination uses them.
        steps: `run <trigger>`, or a change; see `outcomes.py`.
    """

    steps: tuple[str, ...] = ("run availableNow",)
    setup: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Sink(Case):
    """A batch or a stream that writes to a new topic, which is then read.

    Attributes:
        rows: A query of Spark.
    """

    rows: str = ""
    topic: str = ""
    mode: str | None = "append"
    streaming: bool = False


def json_of(value: Any) -> str:
    named = {PREFIX + topic: parts for topic, parts in value.items()}
    return json.dumps(named, separators=(",", ":"))


def names(*names: str) -> str:
    return ",".join(PREFIX + name for name in names)


def at_ms(second: int) -> int:
    return BASE_MS + second * SECOND_MS


def offsets(**changes: int) -> str:
    """Return JSON for all partitions of the two topics of `starts and ends`."""
    found = {"plain0": 10, "plain1": 3, "plain2": 0, "truncated0": 12, "truncated1": 30} | changes
    return json_of(
        {
            "plain": {str(n): found[f"plain{n}"] for n in range(3)},
            "truncated": {str(n): found[f"truncated{n}"] for n in range(2)},
        }
    )


def times(**changes: int) -> str:
    found = {"plain0": 20, "plain1": 9, "plain2": 1, "truncated0": 31, "truncated1": 52} | changes
    return offsets(**{name: at_ms(second) for name, second in found.items()})


#: The values of each dimension, by the label in a combination's name.
SELECTIONS: Final[Mapping[str, Options]] = {
    "subscribe": {"subscribe": names("plain", "truncated")},
    "subscribePattern": {"subscribePattern": f"^{PREFIX}(plain|truncated)$"},
    "assign": {"assign": json_of({"plain": [0, 1, 2], "truncated": [0, 1]})},
}
STARTS: Final[Mapping[str, Options]] = {
    "no start": {},
    "start exact": {"startingOffsets": offsets()},
    "start -2 or exact": {"startingOffsets": offsets(plain0=-2, truncated0=-2, truncated1=-2)},
    "start below the beginning": {"startingOffsets": offsets(truncated0=4)},
    "start beyond the end": {"startingOffsets": offsets(plain1=100)},
    "startingTimestamp": {"startingTimestamp": str(at_ms(4))},
    "startingTimestamp after the last record": {"startingTimestamp": str(at_ms(38))},
    "startingOffsetsByTimestamp": {"startingOffsetsByTimestamp": times()},
    "startingOffsetsByTimestamp after the last record": {
        "startingOffsetsByTimestamp": times(plain2=30)
    },
}
ENDS: Final[Mapping[str, Options]] = {
    "no end": {},
    "end exact": {
        "endingOffsets": offsets(plain0=33, plain1=14, plain2=5, truncated0=29, truncated1=30)
    },
    "end -1 or exact": {"endingOffsets": offsets(plain0=-1, plain2=-1, truncated0=-1)},
    "end before start": {
        "endingOffsets": offsets(plain0=9, plain1=15, plain2=5, truncated0=30, truncated1=30)
    },
    "endingTimestamp": {"endingTimestamp": str(at_ms(54))},
    "endingOffsetsByTimestamp": {
        "endingOffsetsByTimestamp": times(plain0=35, plain1=99, plain2=99, truncated0=50)
    },
}
STRATEGIES: Final[Mapping[str, Options]] = {
    "": {},
    "strategy error": {"startingOffsetsByTimestampStrategy": "error"},
    "strategy latest": {"startingOffsetsByTimestampStrategy": "latest"},
}
LOSSES: Final[Mapping[str, Options]] = {"": {}, "loss allowed": {"failOnDataLoss": "false"}}
SPLITS: Final[Mapping[str, Options]] = {
    "": {},
    "minPartitions 2": {"minPartitions": "2"},
    "minPartitions 9": {"minPartitions": "9"},
    "maxRecordsPerPartition 7": {"maxRecordsPerPartition": "7"},
    "both splits": {"minPartitions": "13", "maxRecordsPerPartition": "10"},
}
HEADERS: Final[Mapping[str, Options]] = {"": {}, "headers": {"includeHeaders": "true"}}
ISOLATIONS: Final[Mapping[str, Options]] = {
    "": {},
    "read_committed": {"kafka.isolation.level": "read_committed"},
}
#: A stream of one or two topics; `{a}` stands for its own topic.
STREAM_SELECTIONS: Final[Mapping[str, Options]] = {
    "subscribe": {"subscribe": "{a}"},
    "subscribePattern": {"subscribePattern": "^{a}(-new)?$"},
    "assign": {"assign": '{{"{a}":[0,1]}}'},
}
STREAM_STARTS: Final[Mapping[str, Options]] = {
    "start earliest": {"startingOffsets": "earliest"},
    "start latest": {"startingOffsets": "latest"},
    "start -1 or exact": {"startingOffsets": '{{"{a}":{{"0":3,"1":-1}}}}'},
    "startingOffsetsByTimestamp": {
        "startingOffsetsByTimestamp": f'{{{{"{{a}}":{{{{"0":{at_ms(3)},"1":{at_ms(900)}}}}}}}}}',
        "startingOffsetsByTimestampStrategy": "latest",
    },
}
TRIGGERS: Final[Mapping[str, Options]] = {"availableNow": {}, "once": {}}
LIMITS: Final[Mapping[str, Options]] = {
    "": {},
    "maxOffsetsPerTrigger 7": {"maxOffsetsPerTrigger": "7"},
    "minOffsetsPerTrigger 8": {"minOffsetsPerTrigger": "8", "maxTriggerDelay": "1h"},
    "both limits": {"minOffsetsPerTrigger": "2", "maxOffsetsPerTrigger": "5"},
}
#: What happens between two runs, as steps.
CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "new records": ("produce {a} 2",),
    "a new partition": ("partitions {a} 3", "produce {a} 3"),
    "a new topic": ("create {a}-new 1", "produce {a}-new 1"),
    "deleted records": ("produce {a} 2", "delete {a} 9"),
}

LABELS: Final[Mapping[str, Mapping[str, Options]]] = {
    "topics": SELECTIONS,
    "start": STARTS,
    "end": ENDS,
    "strategy": STRATEGIES,
    "loss": LOSSES,
    "tasks": SPLITS,
    "headers": HEADERS,
    "isolation": ISOLATIONS,
    "topics of a stream": STREAM_SELECTIONS,
    "start of a stream": STREAM_STARTS,
    "limits": LIMITS,
}


def combinations(**axes: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the values of each combination."""
    for labels in pairwise({axis: list(values) for axis, values in axes.items()}):
        name = ", ".join(label for label in labels.values() if label)
        yield name, {axis: axes[axis][label] for axis, label in labels.items()}


def merged(parts: Mapping[str, Options]) -> dict[str, str]:
    return {name: value for options in parts.values() for name, value in options.items()}
