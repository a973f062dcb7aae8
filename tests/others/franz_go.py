"""franz-go's own tests on the simulated cluster, and on a real one.

They test the cluster that `tandem_kafka_testing` serves: groups of both protocols, transactions and
share groups of a client for Go. They come from the Go module, and need Go.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.others.suite import LeftOut, Suite

__all__ = ["RELEASE", "SUITE", "results", "run"]

RELEASE: Final = "v1.22.3"
_MODULE: Final = "github.com/twmb/franz-go"
_FOLDER: Final = "pkg/kgo"
#: Those that need a cluster, and no special listener.
_TESTS: Final = [
    "Test848RegexBrokerResolves",
    "TestAddRemovePartitions",
    "TestClient_Produce",
    "TestClient_ProduceLargeMessages",
    "TestConsumeMaxDecompressBatchBytes",
    "TestConsumeRegex",
    "TestConsumeRegexShareSkipsInternal",
    "TestConsumeTopicRetrieval",
    "TestConsumeTopicRetrieval_Many",
    "TestDirectPartitionPurge",
    "TestGroupETL",
    "TestGroupSimple",
    "TestHookPollStart",
    "TestIssue1034",
    "TestIssue325",
    "TestIssue337",
    "TestIssue434",
    "TestIssue523",
    "TestIssue648",
    "TestIssue769",
    "TestIssue810",
    "TestIssue831",
    "TestIssue865",
    "TestIssueFetchLargerThanBrokerMaxReadBytes",
    "TestIssueProduceSyncManualPartitionNegativeDoesNotPanic",
    "TestPauseIssue489",
    "TestPauseIssueOct2023",
    "TestPing",
    "TestPooling",
    "TestShareGroup",
    "TestShareGroupAckOnClose",
    "TestShareGroupETL",
    "TestShareGroupOffsetsAdmin",
    "TestTxnEtl",
    "TestUnknownGroupOffsetFetchPinned",
]
_NO_INTERNAL_TOPIC: Final = LeftOut("needs the topic `__consumer_offsets`")

SUITE: Final = Suite(
    "franz-go",
    "on a real Kafka",
    {_FOLDER: len(_TESTS)},
    {
        f"{_FOLDER}::Test848RegexBrokerResolves": _NO_INTERNAL_TOPIC,
        f"{_FOLDER}::TestConsumeRegex": _NO_INTERNAL_TOPIC,
        f"{_FOLDER}::TestConsumeRegexShareSkipsInternal": _NO_INTERNAL_TOPIC,
    },
)

#: Records of a chain of groups, of 500,000.
_RECORDS: Final = 3_000
_TIMEOUT_S: Final = 240


def run() -> tuple[dict[str, str], dict[str, str]]:
    """Fetch and compile the tests; returns their results on a real cluster, and on a simulated one.

    Raises:
        CalledProcessError: They cannot be fetched or compiled.
        FileNotFoundError: There is no Go.
    """
    # Not above: the manual has the table, and is built without them.
    from tandem_kafka_testing.kafka import RealKafka
    from tandem_kafka_testing.served import ServedKafka

    if not shutil.which("go"):
        raise FileNotFoundError("go")
    with tempfile.TemporaryDirectory() as cache:
        tests = _fetch(Path(cache))
        with RealKafka() as real:
            original = _run(tests, real.bootstrap())
        with ServedKafka() as simulated:
            return original, _run(tests, simulated.bootstrap)


def _fetch(cache: Path) -> Path:
    """Compile the tests, in the folder in which they run."""
    # `-modcacherw`: or the temporary folder could not be removed.
    environment = {**os.environ, "GOMODCACHE": str(cache), "GOFLAGS": "-modcacherw -buildvcs=false"}
    print(f"fetching and compiling the tests of {_MODULE}@{RELEASE}", flush=True)
    download = ["go", "mod", "download", "-json", f"{_MODULE}@{RELEASE}"]
    told = subprocess.run(download, cwd=cache, env=environment, check=True, stdout=subprocess.PIPE)
    # Go compiles nothing inside of its cache.
    source = shutil.copytree(json.loads(told.stdout)["Dir"], cache / "source") / _FOLDER
    program = source / "kgo.test"
    compile_it = ["go", "test", "-c", "-o", str(program), "."]
    subprocess.run(compile_it, cwd=source, env=environment, check=True)
    return program


def _run(program: Path, bootstrap: str) -> dict[str, str]:
    finished = subprocess.run(
        [
            *("go", "tool", "test2json", str(program), "-test.v=test2json"),
            *(f"-test.run=^({'|'.join(_TESTS)})$", f"-test.timeout={_TIMEOUT_S}s"),
        ],
        cwd=program.parent,
        env={
            **os.environ,
            "KGO_SEEDS": bootstrap,
            "KGO_TEST_RF": "1",
            "KGO_TEST_RECORDS": str(_RECORDS),
            "KGO_LOG_LEVEL": "none",
        },
        check=False,
        stdout=subprocess.PIPE,
    )
    return results(finished.stdout.splitlines())


def results(events: Iterable[bytes]) -> dict[str, str]:
    """Read the events of `test2json`; prints the output of tests that fail."""
    verdicts = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    found: dict[str, str] = {}
    output: dict[str, str] = {}
    for event in map(json.loads, events):
        test, _, part = event.get("Test", "").partition("/")
        if not test:
            continue
        output[test] = output.get(test, "") + event.get("Output", "")
        # One that has begun and does not end has failed.
        found.setdefault(f"{_FOLDER}::{test}", "failed")
        if not part and event["Action"] in verdicts:
            found[f"{_FOLDER}::{test}"] = verdicts[event["Action"]]
            if event["Action"] == "fail":
                print(output[test], end="", flush=True)
    return found
