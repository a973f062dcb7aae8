"""kafka-python as the reference, in a process of its own: it leaves sockets and threads behind."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

__all__ = ["in_kafka_python"]


def in_kafka_python(program: str, *topics: str, **options: Any) -> Any:
    """Run a program with kafka-python's `consumer`; return its `result`."""
    start = f"""
import json, sys
from kafka import KafkaConsumer, TopicPartition
consumer = KafkaConsumer(*{topics!r}, **{options!r})
{program}
consumer.close()
print(json.dumps(result))
"""
    command = [sys.executable, "-W", "ignore", "-c", start]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
