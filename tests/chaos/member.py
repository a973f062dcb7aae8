"""A member of a group in its own process; it writes each operation as a line on standard output.

The line of a record precedes its commit.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from tandem_kafka_testing.kafka.security import PASSWORD
from tests.histories.members import KINDS, Member
from tests.histories.operations import Operation, to_lines

__all__ = ["PROTOCOLS", "write_line"]

#: The groups and the options of their members.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {
        "group_protocol": "classic",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 1_000,
        "partition_assignment_strategy": [CooperativeStickyAssignor],
    },
    "consumer": {"group_protocol": "consumer"},
}

_writing = threading.Lock()


def write_line(line: str) -> None:
    """Write a line at once; a signal may interrupt a long one."""
    rest = f"{line}\n".encode()
    with _writing:
        while rest:
            rest = rest[os.write(1, rest) :]


def _write(operation: Operation) -> None:
    (line,) = to_lines([operation])
    write_line(line)


def main(kind: str, name: str, bootstrap: str, topic: str, protocol: str, commits: str) -> None:
    """Read until SIGTERM."""
    options = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "admin",
        "sasl_plain_password": PASSWORD,
        "group_id": f"{topic}-{protocol}",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": commits == "automatic",
        "auto_commit_interval_ms": 500,
        "reconnect_backoff_max_ms": 1_000,
        "metadata_max_age_ms": 10_000,
        "bootstrap_timeout_ms": 60_000,
        **PROTOCOLS[protocol],
    }
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    KINDS[kind](Member(name, topic, options, _write, ending))


if __name__ == "__main__":
    main(*sys.argv[1:])
