"""Java's share consumer, measured with Kafka's own tool ShareConsumerPerformance."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from benchmarks.java import ToolRun, run_tool
from benchmarks.measures import Figures

__all__ = ["measure_java_share"]

_TOOL: Final = "org.apache.kafka.tools.ShareConsumerPerformance"
_TIME: Final = "%Y-%m-%d %H:%M:%S:%f"
_LOOK_MS: Final = 50
#: How long the tool waits for all records.
_TIMEOUT_MS: Final = 90_000


def measure_java_share(
    bootstrap: str, topic: str, groups: tuple[str, str], count: int, warm: int
) -> Figures:
    """Read records with implicit acknowledgement, `count` in one group and few in another one.

    The rate is that between the tool's own reports, from `warm` records on. CPU is that of the
    whole process minus that of a process that reads only a few records, as a JVM starts slowly.
    """
    group, other = groups
    few = _run(bootstrap, topic, other, 1)
    many = _run(bootstrap, topic, group, count)
    reports = [each for each in _reports(many.output) if each[1] >= warm]
    (began, first), (ended, last) = reports[0], reports[-1]
    return {
        "records_per_s": (last - first) / (ended - began).total_seconds(),
        "cpu_us_per_record": (many.cpu_s - few.cpu_s) * 1e6 / count,
    }


def _run(bootstrap: str, topic: str, group: str, count: int) -> ToolRun:
    return run_tool(
        _TOOL,
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--num-records", str(count), "--show-detailed-stats"),
        *("--reporting-interval", str(_LOOK_MS), "--timeout", str(_TIMEOUT_MS)),
    )


def _reports(output: str) -> list[tuple[datetime, int]]:
    """Return the times of the reports, and the records read until then."""
    found = []
    for line in output.splitlines():
        if line.endswith("for share consumer 1"):
            _, time, _, _, _, records, _ = line.split(", ")
            found.append((datetime.strptime(time, _TIME), int(records)))  # noqa: DTZ007
    return found
