"""Combinations of streams, over their runs."""

from __future__ import annotations

from collections.abc import Iterator

from packages.spark.tests.parity.dimensions import (
    CHANGES,
    HEADERS,
    ISOLATIONS,
    LIMITS,
    LOSSES,
    STREAM_SELECTIONS,
    STREAM_STARTS,
    TRIGGERS,
    Case,
    Options,
    Stream,
    at_ms,
    combinations,
    json_of,
    merged,
    times,
)
from packages.spark.tests.parity.topics import PREFIX


def streams() -> Iterator[Case]:
    combined = combinations(
        topics=STREAM_SELECTIONS,
        start=STREAM_STARTS,
        trigger={name: {"trigger": name} for name in TRIGGERS},
        limits=LIMITS,
        change=CHANGES,
        loss=LOSSES,
        isolation=ISOLATIONS,
        headers=HEADERS,
    )
    for number, (name, parts) in enumerate(combined):
        own = f"stream-{number}"
        trigger = parts.pop("trigger")["trigger"]
        change = tuple(step.format(a=own) for step in parts.pop("change"))
        options = {option: value.format(a=PREFIX + own) for option, value in merged(parts).items()}
        steps = (f"run {trigger}", *change, f"run {trigger}")
        yield Stream("streams", name, options, steps=steps, setup={own: 2})


def streams_of_kinds() -> Iterator[Case]:
    for number, kind in enumerate(("transactions", "open", "compacted", "truncated", "appended")):
        level = ("read_committed", "read_uncommitted")[number == 4]
        options = {
            "subscribe": PREFIX + kind,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            "kafka.isolation.level": level,
            "maxOffsetsPerTrigger": "25",
        }
        if number % 2:
            options["maxRecordsPerPartition"] = "4"
        yield Stream("streams of kinds of topics", f"{kind}, {level}", options)


def live_streams() -> Iterator[Case]:
    """Streams that are running while the topic changes."""
    for number, (name, options, change) in enumerate(
        (
            ("subscribe, new records", {"subscribe": "{a}"}, CHANGES["new records"]),
            ("subscribe, a new partition", {"subscribe": "{a}"}, CHANGES["a new partition"]),
            (
                "subscribePattern, a new topic",
                {"subscribePattern": "{a}.*"},
                CHANGES["a new topic"],
            ),
        )
    ):
        own = f"live-{number}"
        latest = {name: value.format(a=PREFIX + own) for name, value in options.items()}
        steps = ("begin", *(step.format(a=own) for step in change), "end", "run availableNow")
        yield Stream(
            "running streams", f"{name}, start latest", latest, steps=steps, setup={own: 2}
        )


def stream_mistakes() -> Iterator[Case]:
    plain = {"subscribe": PREFIX + "plain", "startingOffsets": "earliest"}
    values: dict[str, tuple[Options, str]] = {
        "endingOffsets": ({**plain, "endingOffsets": "latest"}, "endingOffsets"),
        "endingTimestamp": ({**plain, "endingTimestamp": str(at_ms(1))}, "ending"),
        "endingOffsetsByTimestamp": ({**plain, "endingOffsetsByTimestamp": times()}, "ending"),
        "a missing topic": ({"subscribe": PREFIX + "missing"}, "missing"),
        "maxOffsetsPerTrigger is a word": ({**plain, "maxOffsetsPerTrigger": "few"}, ""),
        "maxOffsetsPerTrigger -1": ({**plain, "maxOffsetsPerTrigger": "-1"}, ""),
        "minimum above the maximum": (
            {**plain, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"},
            "minOffsetsPerTrigger",
        ),
        "start beyond the end": (
            {**plain, "startingOffsets": json_of({"plain": {"0": 99, "1": 0, "2": 0}})},
            "plain-0",
        ),
        "startingTimestamp after the last record": (
            {**plain, "startingTimestamp": str(at_ms(900))},
            "",
        ),
    }
    for name, (options, about) in values.items():
        yield Stream("mistakes in streams", name, options, about)
