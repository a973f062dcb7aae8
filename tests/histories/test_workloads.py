"""Members of all kinds read a served cluster under faults, and their history has no anomaly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem_kafka_testing.fault_plan import FaultPlan, PlannedFault
from tandem_kafka_testing.network import Conditions
from tandem_kafka_testing.served import ServedKafka
from tests.histories.anomalies import anomalies
from tests.histories.operations import Assigned, Committed, Polled, Produced, to_lines
from tests.histories.recorder import Workload
from tests.tier import seeds

#: More for a night: TANDEM_KAFKA_SEEDS=0-100.
SEEDS = seeds(1, 1)
PARTITIONS = 4
DURATION_S = 3.0

#: The faults end, so that the members can settle and read the rest.
UNTIL_MS = int(1_000 * DURATION_S)
FAULTS = FaultPlan(
    [
        PlannedFault(
            ("cut", "lead", "expel", "coordinate", "fail_over"), every_ms=300, until_ms=UNTIL_MS
        ),
        PlannedFault("orphan", every_ms=1_700, until_ms=UNTIL_MS, arguments={"for_ms": 300}),
        PlannedFault("pause", every_ms=1_300, until_ms=UNTIL_MS, arguments={"for_ms": 250}),
        PlannedFault(
            "crash", every_ms=1_900, until_ms=UNTIL_MS, arguments={"elect": True, "for_ms": 400}
        ),
    ],
    Conditions(latency_ms=(0, 2), loss=0.002),
)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_under_faults_has_no_anomaly(protocol: str, seed: int, tmp_path: Path) -> None:
    with ServedKafka(brokers=3, seed=seed, faults=FAULTS) as kafka:
        topic = kafka.create_topic("orders", PARTITIONS)
        workload = Workload(kafka.bootstrap, topic, protocol, PARTITIONS)
        try:
            history = workload.run(DURATION_S)
        finally:
            lines = "\n".join(to_lines(workload.recorder.history))
            (tmp_path / "history.jsonl").write_text(lines, encoding="utf-8")
    assert anomalies(history, transactions=1) == []
    kinds = [type(operation) for operation in history]
    assert min(kinds.count(kind) for kind in (Produced, Polled)) > 2
    readers = {each.consumer for each in history if isinstance(each, Polled)}
    assert readers <= {each.consumer for each in history if isinstance(each, Assigned)}
    last = history[-1]
    assert isinstance(last, Committed)
    assert last.offsets
