"""New groups without racks, and static members, with Kafka's published examples."""

from __future__ import annotations

import pytest

from tandem_kafka.assignors.range import assign_range
from tandem_kafka.assignors.round_robin import assign_round_robin
from tandem_kafka.assignors.sticky import assign_sticky
from tests.unit.assignors.groups import as_text, member, without_racks

#: Examples in which the assignors agree: partitions by topic, topics by member, the result.
ALIKE = [
    ({}, {"c1": ""}, {"c1": ""}),
    ({}, {"c1": "unknown"}, {"c1": ""}),
    ({"t1": 3}, {"c1": "t1"}, {"c1": "t1-0, t1-1, t1-2"}),
    ({"t1": 3, "other": 3}, {"c1": "t1"}, {"c1": "t1-0, t1-1, t1-2"}),
    ({"t1": 1, "t2": 2}, {"c1": "t1 t2"}, {"c1": "t1-0, t2-0, t2-1"}),
    ({"t1": 1}, {"c1": "t1", "c2": "t1"}, {"c1": "t1-0", "c2": ""}),
    ({"t1": 2}, {"c1": "t1", "c2": "t1"}, {"c1": "t1-0", "c2": "t1-1"}),
]
ALIKE_BUT_STICKY = [
    *ALIKE,
    (
        {"t1": 3, "t2": 2},
        {"c1": "t1", "c2": "t1 t2", "c3": "t1"},
        {"c1": "t1-0", "c2": "t1-1, t2-0, t2-1", "c3": "t1-2"},
    ),
]
EXAMPLES = {
    assign_range: [
        *ALIKE_BUT_STICKY,
        (
            {"t0": 3, "t1": 3},
            {"c0": "t0 t1", "c1": "t0 t1"},
            {"c0": "t0-0, t0-1, t1-0, t1-1", "c1": "t0-2, t1-2"},
        ),
    ],
    assign_round_robin: [
        *ALIKE_BUT_STICKY,
        (
            {"t0": 3, "t1": 3},
            {"c0": "t0 t1", "c1": "t0 t1"},
            {"c0": "t0-0, t0-2, t1-1", "c1": "t0-1, t1-0, t1-2"},
        ),
        (
            {"t0": 1, "t1": 2, "t2": 3},
            {"c0": "t0", "c1": "t0 t1", "c2": "t0 t1 t2"},
            {"c0": "t0-0", "c1": "t1-0", "c2": "t1-1, t2-0, t2-1, t2-2"},
        ),
        (
            {"t0": 3, "t1": 3},
            {"c0": "t0 t1", "c1": "t0 t1", "c2": "t0 t1"},
            {"c0": "t0-0, t1-0", "c1": "t0-1, t1-1", "c2": "t0-2, t1-2"},
        ),
        # From the examples of the sticky assignor, which balances better here.
        (
            {"t1": 2, "t2": 1, "t3": 2, "t4": 1, "t5": 2},
            {"c1": "t1 t2 t3 t4 t5", "c2": "t1 t3 t5", "c3": "t1 t3 t5", "c4": "t1 t2 t3 t4 t5"},
            {"c1": "t1-0, t3-0, t5-0", "c2": "t1-1, t3-1, t5-1", "c3": "", "c4": "t2-0, t4-0"},
        ),
        (
            {"t0": 2, "t1": 2, "t2": 2, "t3": 2},
            {"c0": "t0 t1 t2 t3", "c2": "t0 t1 t2 t3"},
            {"c0": "t0-0, t1-0, t2-0, t3-0", "c2": "t0-1, t1-1, t2-1, t3-1"},
        ),
        (
            {"t0": 1, "t1": 2, "t2": 3},
            {"c1": "t0 t1", "c2": "t0 t1 t2"},
            {"c1": "t0-0, t1-1", "c2": "t1-0, t2-0, t2-1, t2-2"},
        ),
    ],
    assign_sticky: [
        *ALIKE,
        ({"t1": 0}, {"c1": "t1"}, {"c1": ""}),
        (
            {"t1": 3, "t2": 2},
            {"c1": "t1", "c2": "t1 t2", "c3": "t1"},
            {"c1": "t1-0, t1-2", "c2": "t2-0, t2-1", "c3": "t1-1"},
        ),
        (
            {"t1": 3, "t2": 3},
            {"c1": "t1 t2", "c2": "t1 t2"},
            {"c1": "t1-0, t1-2, t2-1", "c2": "t1-1, t2-0, t2-2"},
        ),
        (
            {"t0": 2, "t1": 2, "t2": 2, "t3": 2},
            {"c0": "t0 t1 t2 t3", "c1": "t0 t1 t2 t3", "c2": "t0 t1 t2 t3"},
            {"c0": "t0-0, t1-1, t3-0", "c1": "t0-1, t2-0, t3-1", "c2": "t1-0, t2-1"},
        ),
        (
            {"t0": 1, "t1": 2, "t2": 3},
            {"c0": "t0", "c1": "t0 t1", "c2": "t0 t1 t2"},
            {"c0": "t0-0", "c1": "t1-0, t1-1", "c2": "t2-0, t2-1, t2-2"},
        ),
        (
            {"t1": 2, "t2": 1, "t3": 2, "t4": 1, "t5": 2},
            {"c1": "t1 t2 t3 t4 t5", "c2": "t1 t3 t5", "c3": "t1 t3 t5", "c4": "t1 t2 t3 t4 t5"},
            {"c1": "t2-0, t3-0", "c2": "t1-0, t3-1", "c3": "t1-1, t5-0", "c4": "t4-0, t5-1"},
        ),
    ],
}


@pytest.mark.parametrize(
    ("assign", "counts", "subscriptions", "expected"),
    [(assign, *example) for assign, examples in EXAMPLES.items() for example in examples],
)
def test_a_new_group(assign, counts, subscriptions, expected):
    members = [member(member_id, topics) for member_id, topics in subscriptions.items()]
    assert as_text(assign(members, without_racks(**counts))) == expected


@pytest.mark.parametrize(
    ("assign", "first", "second"),
    [
        (assign_range, "t1-0, t1-1, t2-0, t2-1", "t1-2, t2-2"),
        (assign_round_robin, "t1-0, t1-2, t2-1", "t1-1, t2-0, t2-2"),
    ],
)
def test_static_members_come_first_by_instance_id(assign, first, second):
    topics = without_racks(t1=3, t2=3)
    static = member("b", "t1 t2", instance="i1")
    for other in (member("a", "t1 t2", instance="i2"), member("a", "t1 t2")):
        assert as_text(assign([other, static], topics)) == {"a": second, "b": first}


@pytest.mark.parametrize(
    ("assign", "counts", "expected"),
    [
        (
            assign_range,
            {"t1": 5, "t2": 4},
            {
                "i1": "t1-0, t1-1, t2-0",
                "i2": "t1-2, t2-1",
                "i3": "t1-3, t2-2",
                None: "t1-4, t2-3",
            },
        ),
        (
            assign_round_robin,
            {"t1": 3, "t2": 3},
            {"i1": "t1-0, t2-1", "i2": "t1-1, t2-2", "i3": "t1-2", None: "t2-0"},
        ),
        (
            assign_round_robin,
            {"t1": 5, "t2": 5},
            {
                "i1": "t1-0, t1-3, t2-1, t2-4",
                "i2": "t1-1, t1-4, t2-2",
                "i3": "t1-2, t2-0, t2-3",
            },
        ),
    ],
)
def test_static_members_keep_their_partitions_with_new_member_ids(assign, counts, expected):
    for ids in ("1234", "1235", "9174"):
        members = [
            member(member_id, "t1 t2", instance=instance)
            for member_id, instance in zip(ids, expected, strict=False)
        ]
        assigned = as_text(assign(members, without_racks(**counts)))
        assert {each.instance_id: assigned[each.member_id] for each in members} == expected
