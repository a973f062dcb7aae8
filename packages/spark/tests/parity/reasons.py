"""Why this source differs from the connector, for each combination that does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["REASONS", "Reason", "reason_for"]

#: Whether a difference is explained, by the combination's name and both outcomes: there, here.
Explains = Callable[[str, Any, Any], bool]


@dataclass(frozen=True)
class Reason:
    """A reason, and which differences it explains."""

    text: str
    explains: Explains


def _only(*keys: str) -> Explains:
    """Both have read the same rows, and differ in these parts of the outcome."""

    def explains(_: str, there: Any, here: Any) -> bool:
        if "error" in there or "error" in here:
            return False
        return {k for k in there.keys() | here.keys() if there.get(k) != here.get(k)} <= {*keys}

    return explains


def _named(*names: str, here: str | None = None) -> Explains:
    """The combination has one of these names, and the outcome here is this kind of error."""

    def explains(name: str, _: Any, outcome: Any) -> bool:
        errors = [each["error"] for each in (outcome, *_runs(outcome)) if "error" in each]
        return name.partition(": ")[2] in names and errors == ([here] if here else [])

    return explains


def _runs(outcome: Any) -> list[Any]:
    return [each for each in outcome.get("runs", ()) if isinstance(each, dict)]


def _no_split(name: str, there: Any, here: Any) -> bool:
    asked = any(words in name for words in ("maxRecordsPerPartition", "tasks of 4"))
    return asked and _only("tasks", "ranges")(name, there, here)


def _late_start(name: str, there: Any, here: Any) -> bool:
    return "beyond the end" in name and here.get("error") == "start after end" and "rows" in there


def _loss_allowed(name: str, there: Any, here: Any) -> bool:
    return "loss allowed" in name and there.get("error") == "start after end" and "rows" in here


def _both_splits(name: str, there: Any, here: Any) -> bool:
    more = len(here.get("ranges", ())) > len(there.get("ranges", ()))
    return "both splits" in name and more and _only("tasks", "ranges")(name, there, here)


#: By the key in the tables.
REASONS: Final[Mapping[str, Reason]] = {
    "no empty tasks": Reason(
        "An empty range gets no task here; a query without any range has one. The rows are the "
        "same.",
        _only("tasks"),
    ),
    "split by offsets": Reason(
        "`maxRecordsPerPartition` has no effect on the connector's batch queries, unless both ends "
        "are exact or `minPartitions` is given: its tasks look up `earliest` and `latest` when it "
        "is too late to split. Here they are looked up before. The rows are the same.",
        _no_split,
    ),
    "minimum of tasks": Reason(
        "With both options, the connector may plan fewer tasks than `minPartitions`: after the "
        "split by `maxRecordsPerPartition`, one small part of a partition keeps the others whole. "
        "Here there are as many as asked for. The rows are the same.",
        _both_splits,
    ),
    "nothing unsaid": Reason(
        "With `minPartitions`, the connector leaves out a partition whose start is beyond its end, "
        "and says nothing. Here it is an error, as in all other cases with both.",
        _late_start,
    ),
    "loss allowed": Reason(
        "`failOnDataLoss=false` accepts a start beyond the end: nothing is read of that partition, "
        "and a warning is logged. The connector fails regardless of the option.",
        _loss_allowed,
    ),
    "unknown options": Reason(
        "The connector ignores an option that it does not know. A misspelt option would change "
        "what is read without a word, so it is an error here.",
        _named(
            "a name that is misspelt", "an unknown name", "an unknown name of Kafka", here="mistake"
        ),
    ),
    "options of the other kind": Reason(
        "The connector ignores options for streams in batch queries, `endingTimestamp` in streams, "
        "and serializers in a source. They would have no effect, so they are an error here.",
        _named(
            "an option of streams",
            "another option of streams",
            "endingTimestamp",
            "kafka.key.serializer",
            "kafka.value.serializer",
            here="mistake",
        ),
    ),
    "negative numbers": Reason(
        "The connector accepts a negative rate limit, which reads nothing for ever, and a negative "
        "`endingTimestamp`, which Kafka's protocol takes for `latest`. Here they are errors.",
        _named("endingTimestamp is negative", "maxOffsetsPerTrigger -1", here="mistake"),
    ),
    "patterns of Python": Reason(
        "The pattern is a Python regular expression, which lacks some classes of Java's.",
        _named("a Java class of characters", here="mistake"),
    ),
    "missing partitions": Reason(
        "The connector leaves out an assigned partition that does not exist, and reads nothing if "
        "none is assigned. Here both are errors.",
        lambda name, there, here: (
            _named("a missing partition", here="missing topic")(name, there, here)
            or _named("assign nothing", here="mistake")(name, there, here)
        ),
    ),
    "times of records": Reason(
        "The connector's sink ignores a column `timestamp`; here it is the time of the record.",
        _named("headers", "timestamps"),
    ),
    "type of the time": Reason(
        "Since the column `timestamp` is used, it must be a timestamp.",
        _named("a string as a timestamp", here="mistake"),
    ),
    "modes of Spark": Reason(
        'Spark offers a Python sink the modes append and overwrite only, so `mode("append")` must '
        "be given.",
        _named("no mode", "mode error", here="mistake"),
    ),
    "acks": Reason(
        "The sink is always idempotent, so that a retry duplicates nothing: `acks` is `all`.",
        _named("acks 1", here="mistake"),
    ),
}


def reason_for(name: str, connector: Any, here: Any) -> str | None:
    """Return the key of the first reason why a combination differs; None if there is none."""
    return next(
        (key for key, each in REASONS.items() if each.explains(name, connector, here)), None
    )
