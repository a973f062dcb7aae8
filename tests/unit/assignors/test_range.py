"""The range assignor and racks (KIP-881), with Kafka's published examples."""

from __future__ import annotations

import pytest

from tandem_kafka.assignors.range import assign_range
from tests.unit.assignors.groups import RACKS, check_racks

A, B, C = RACKS[:3]
ABC = (A, B, C)
NO_RACKS = (None, None, None)


#: Partitions by topic, subscriptions, and the assignment if racks make no difference.
UNIFORM = (
    {"t1": 6, "t2": 7, "t3": 2},
    ["t1 t2 t3"] * 3,
    [
        "t1-0, t1-1, t2-0, t2-1, t2-2, t3-0",
        "t1-2, t1-3, t2-3, t2-4, t3-1",
        "t1-4, t1-5, t2-5, t2-6",
    ],
)
UNEQUAL = (
    {"t1": 6, "t2": 7, "t3": 2},
    ["t1 t2 t3", "t1 t2 t3", "t1 t3"],
    [
        "t1-0, t1-1, t2-0, t2-1, t2-2, t2-3, t3-0",
        "t1-2, t1-3, t2-4, t2-5, t2-6, t3-1",
        "t1-4, t1-5",
    ],
)
EQUAL_COUNTS = (
    {"t1": 5, "t2": 5, "t3": 5},
    ["t1 t2 t3"] * 3,
    [
        "t1-0, t1-1, t2-0, t2-1, t3-0, t3-1",
        "t1-2, t1-3, t2-2, t2-3, t3-2, t3-3",
        "t1-4, t2-4, t3-4",
    ],
)
EQUAL_COUNTS_UNEQUAL = (
    {"t1": 5, "t2": 5, "t3": 5},
    ["t1 t2 t3", "t1 t2 t3", "t1 t3"],
    [
        "t1-0, t1-1, t2-0, t2-1, t2-2, t3-0, t3-1",
        "t1-2, t1-3, t2-3, t2-4, t3-2, t3-3",
        "t1-4, t3-4",
    ],
)


@pytest.mark.parametrize("group", [UNIFORM, UNEQUAL, EQUAL_COUNTS, EQUAL_COUNTS_UNEQUAL])
@pytest.mark.parametrize(
    ("replicas", "broker_racks", "member_racks"),
    [
        (3, NO_RACKS, ABC),
        (3, ABC, NO_RACKS),
        (3, ABC, ABC),
        (4, RACKS[:4], ABC),
        (3, ABC, ("d", "e", "f")),
        (3, ABC, (None, "e", "f")),
    ],
)
def test_racks_are_ignored_if_they_make_no_difference(group, replicas, broker_racks, member_racks):
    counts, subscriptions, expected = group
    racks = (replicas, broker_racks, member_racks)
    check_racks(assign_range, counts, racks, subscriptions, expected)


@pytest.mark.parametrize(
    ("group", "replicas", "broker_racks", "expected", "mismatched"),
    [
        (
            UNIFORM, 1, ABC,
            [
                "t1-0, t1-3, t2-0, t2-3, t2-6",
                "t1-1, t1-4, t2-1, t2-4, t3-0",
                "t1-2, t1-5, t2-2, t2-5, t3-1",
            ],
            0,
        ),
        (
            UNIFORM, 2, ABC,
            [
                "t1-0, t1-2, t2-0, t2-2, t2-3, t3-1",
                "t1-1, t1-3, t2-1, t2-4, t3-0",
                "t1-4, t1-5, t2-5, t2-6",
            ],
            1,
        ),
        (UNIFORM, 3, (A, B), UNIFORM[2], 4),
        (
            UNEQUAL, 1, ABC,
            [
                "t1-0, t1-3, t2-0, t2-2, t2-3, t2-6",
                "t1-1, t1-4, t2-1, t2-4, t2-5, t3-0",
                "t1-2, t1-5, t3-1",
            ],
            2,
        ),
        (
            UNEQUAL, 2, ABC,
            [
                "t1-0, t1-2, t2-0, t2-2, t2-3, t2-5, t3-1",
                "t1-1, t1-3, t2-1, t2-4, t2-6, t3-0",
                "t1-4, t1-5",
            ],
            0,
        ),
        (UNEQUAL, 3, (A, B), UNEQUAL[2], 2),
        # Co-partitioned topics stay co-partitioned despite the racks.
        (EQUAL_COUNTS, 1, ABC, EQUAL_COUNTS[2], 10),
        (EQUAL_COUNTS, 2, ABC, EQUAL_COUNTS[2], 5),
        (EQUAL_COUNTS, 3, (A, B), EQUAL_COUNTS[2], 3),
        (
            EQUAL_COUNTS_UNEQUAL, 1, ABC,
            [
                "t1-0, t1-1, t2-0, t2-1, t2-4, t3-0, t3-1",
                "t1-2, t1-3, t2-2, t2-3, t3-2, t3-3",
                "t1-4, t3-4",
            ],
            9,
        ),
        (
            EQUAL_COUNTS_UNEQUAL, 2, ABC,
            [
                "t1-2, t2-0, t2-1, t2-3, t3-2",
                "t1-0, t1-3, t2-2, t2-4, t3-0, t3-3",
                "t1-1, t1-4, t3-1, t3-4",
            ],
            0,
        ),
        (EQUAL_COUNTS_UNEQUAL, 3, (A, B), EQUAL_COUNTS_UNEQUAL[2], 2),
    ],
)  # fmt: skip
def test_kip_881_members_get_partitions_of_their_racks(
    group, replicas, broker_racks, expected, mismatched
):
    counts, subscriptions, _ = group
    racks = (replicas, broker_racks, ABC)
    check_racks(assign_range, counts, racks, subscriptions, expected, mismatched)


PAIRS = {"t1": 6, "t2": 6, "t3": 2, "t4": 2}
APART = ["t1 t2", "t1 t2", "t3 t4", "t3 t4"]
TOGETHER = ["t1 t2 t3 t4"] * 4
APART_IN_ORDER = [
    "t1-0, t1-1, t1-2, t2-0, t2-1, t2-2",
    "t1-3, t1-4, t1-5, t2-3, t2-4, t2-5",
    "t3-0, t4-0",
    "t3-1, t4-1",
]
TOGETHER_IN_ORDER = [
    "t1-0, t1-1, t2-0, t2-1, t3-0, t4-0",
    "t1-2, t1-3, t2-2, t2-3, t3-1, t4-1",
    "t1-4, t2-4",
    "t1-5, t2-5",
]


@pytest.mark.parametrize(
    ("subscriptions", "replicas", "broker_racks", "expected", "mismatched"),
    [
        (APART, 3, (A, B), APART_IN_ORDER, None),
        (APART, 2, (A, B), APART_IN_ORDER, 0),
        (
            APART, 1, (A, B),
            [
                "t1-0, t1-2, t1-4, t2-0, t2-2, t2-4",
                "t1-1, t1-3, t1-5, t2-1, t2-3, t2-5",
                "t3-1, t4-1",
                "t3-0, t4-0",
            ],
            0,
        ),
        (TOGETHER, 3, (A, B), TOGETHER_IN_ORDER, None),
        (TOGETHER, 2, (A, B), TOGETHER_IN_ORDER, 0),
        (
            TOGETHER, 1, (A, B),
            [
                "t1-0, t1-2, t2-0, t2-2, t3-0, t4-0",
                "t1-1, t1-3, t2-1, t2-3, t3-1, t4-1",
                "t1-5, t2-5",
                "t1-4, t2-4",
            ],
            0,
        ),
        (
            TOGETHER, 1, ABC,
            [
                "t1-0, t1-3, t2-0, t2-3, t3-0, t4-0",
                "t1-1, t1-4, t2-1, t2-4, t3-1, t4-1",
                "t1-2, t2-2",
                "t1-5, t2-5",
            ],
            6,
        ),
    ],
)  # fmt: skip
def test_co_partitioned_topics_share_racks_too(
    subscriptions, replicas, broker_racks, expected, mismatched
):
    racks = (replicas, broker_racks, (A, B, B, A))
    check_racks(assign_range, PAIRS, racks, subscriptions, expected, mismatched)


def test_topics_of_three_sizes_are_co_partitioned_by_size():
    counts = {"t1": 6, "t2": 6, "t3": 2, "t4": 2, "t5": 4, "t6": 4}
    subscriptions = ["t1 t2 t3 t4 t5 t6 t7 t8 t9"] * 3
    in_order = [
        "t1-0, t1-1, t2-0, t2-1, t3-0, t4-0, t5-0, t5-1, t6-0, t6-1",
        "t1-2, t1-3, t2-2, t2-3, t3-1, t4-1, t5-2, t6-2",
        "t1-4, t1-5, t2-4, t2-5, t5-3, t6-3",
    ]
    check_racks(assign_range, counts, (3, NO_RACKS, ABC), subscriptions, in_order)
    by_racks = [
        "t1-0, t1-2, t2-0, t2-2, t3-0, t4-0, t5-1, t6-1",
        "t1-1, t1-3, t2-1, t2-3, t3-1, t4-1, t5-2, t6-2",
        "t1-4, t1-5, t2-4, t2-5, t5-0, t5-3, t6-0, t6-3",
    ]
    check_racks(assign_range, counts, (2, ABC, ABC), subscriptions, by_racks, 0)
