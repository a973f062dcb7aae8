"""Runs Kafka's own assignors, for comparison with ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tandem_kafka.assignors.group import Member, Topics
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing.kafka.java import compiled, java_command

__all__ = ["assigned_by_kafka"]

_PROGRAM = Path(__file__).with_name("Assignors.java")


def assigned_by_kafka(
    name: str, groups: Iterable[tuple[Sequence[Member], Topics]]
) -> list[dict[str, set[TopicPartition]]]:
    """Compute the assignments of groups with Kafka's assignor of this name.

    Topics have partitions from 0 on, without gaps.
    """
    done = subprocess.run(
        java_command("Assignors", log_level="off", classes=compiled(_PROGRAM)),
        input="\n".join(_line(name, members, topics) for members, topics in groups),
        capture_output=True,
        check=False,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"Kafka's assignors failed:\n{done.stderr}")
    found = (json.loads(line) for line in done.stdout.splitlines())
    return [
        {member_id: set(map(_partition, each[member_id])) for member_id in each} for each in found
    ]


def _line(name: str, members: Sequence[Member], topics: Topics) -> str:
    return json.dumps(
        {
            "assignor": name,
            "topics": {
                topic: [sorted(racks) for racks in each.values()] for topic, each in topics.items()
            },
            "members": [_member(each) for each in members],
        }
    )


def _member(member: Member) -> Mapping[str, object]:
    return {
        "id": member.member_id,
        "instance": member.instance_id,
        "rack": member.rack or None,
        "generation": member.generation,
        "topics": sorted(member.topics),
        "owned": [list(tp) for tp in member.owned],
    }


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))
