"""The sticky assignor, with Kafka's published examples."""

from __future__ import annotations

import pytest

from tandem_kafka.assignors.sticky import assign_cooperative_sticky, assign_sticky
from tests.unit.assignors.groups import RACKS, as_text, check_racks, member, without_racks

A, B, C = RACKS[:3]
ABC = (A, B, C)
NO_RACKS = (None, None, None)


@pytest.mark.parametrize(
    ("counts", "owned", "expected"),
    [
        pytest.param(
            {"t1": 2},
            {"c1": "t1-0, t1-1, other-0, other-1"},
            {"c1": "t1-0, t1-1"},
            id="a topic without subscribers",
        ),
        pytest.param(
            {"t1": 2, "t2": 3},
            {"c1": "t1-0, t2-1", "c2": "t1-1, t2-2"},
            {"c1": "t1-0, t2-0, t2-1", "c2": "t1-1, t2-2"},
            id="one more for the first of those that have enough",
        ),
        pytest.param(
            {"t1": 2, "t2": 2},
            {"c1": "t1-0, t2-0", "c2": "t1-1, t2-1", "c3": ""},
            # In Kafka, the order of a hash map decides which of the two keeps both.
            {"c1": "t1-0, t2-0", "c2": "t1-1", "c3": "t2-1"},
            id="more members with one more than there may be",
        ),
        pytest.param(
            {"t1": 2, "t2": 3},
            {"c1": "t1-0", "c2": "t1-1", "c3": ""},
            {"c1": "t1-0, t2-1", "c2": "t1-1, t2-2", "c3": "t2-0"},
            id="all members have too few",
        ),
        pytest.param(
            {"t1": 3},
            {"c1": "t1-0, t1-1, t1-2", "c2": ""},
            {"c1": "t1-0, t1-1", "c2": "t1-2"},
            id="a member joins",
        ),
        pytest.param({"t1": 3}, {"c2": "t1-2"}, {"c2": "t1-0, t1-1, t1-2"}, id="a member has left"),
        pytest.param(
            {"t1": 3, "t2": 4},
            {"c1": "t1-0, t1-2, t2-1, t2-3", "c2": "t1-1, t2-0, t2-2", "c3": "", "c4": ""},
            {"c1": "t1-0, t2-1", "c2": "t1-1, t2-0", "c3": "t1-2, t2-3", "c4": "t2-2"},
            id="two members join",
        ),
        pytest.param(
            {"t1": 3, "t2": 4},
            {"c3": "t1-2, t2-3", "c4": "t2-2"},
            {"c3": "t1-0, t1-2, t2-1, t2-3", "c4": "t1-1, t2-0, t2-2"},
            id="two members have left",
        ),
        pytest.param(
            {"t1": 4},
            {"c1": "t1-0, t1-1", "c2": "t1-2", "c3": ""},
            {"c1": "t1-0, t1-1", "c2": "t1-2", "c3": "t1-3"},
            id="all members reach their share",
        ),
        pytest.param(
            {"t0": 2, "t1": 2, "t2": 2, "t3": 2},
            {"c0": "t0-0, t1-1, t3-0", "c2": "t1-0, t2-1"},
            # As assigned by Kafka 4.3; its documentation has t0-1 and t2-0 exchanged.
            {"c0": "t0-0, t0-1, t1-1, t3-0", "c2": "t1-0, t2-0, t2-1, t3-1"},
            id="a member of three has left",
        ),
    ],
)
def test_members_with_equal_subscriptions_keep_what_they_have(counts, owned, expected):
    members = [member(each, counts, had, generation=1) for each, had in owned.items()]
    assert as_text(assign_sticky(members, without_racks(**counts))) == expected


def test_members_with_unequal_subscriptions_keep_what_they_have():
    members = [
        member("c1", "t0 t1", "t1-0, t1-1", generation=1),
        member("c2", "t0 t1 t2", "t2-0, t2-1, t2-2", generation=1),
    ]
    assert as_text(assign_sticky(members, without_racks(t0=1, t1=2, t2=3))) == {
        "c1": "t0-0, t1-0, t1-1",
        "c2": "t2-0, t2-1, t2-2",
    }


def test_equal_numbers_of_partitions_of_two_topics_are_released():
    topics = without_racks(t1=12, t2=12)
    assignment = assign_sticky([member("c1", topics)], topics)
    for count in (2, 4):
        owned = as_text(assignment)
        members = [
            member(f"c{index + 1}", topics, owned.get(f"c{index + 1}", ""), generation=1)
            for index in range(count)
        ]
        assignment = assign_sticky(members, topics)
        for found in assignment.values():
            assert [tp.topic for tp in sorted(found)] == ["t1"] * (12 // count) + ["t2"] * (
                12 // count
            )


# --- the newest claim (KIP-792) ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "claims", "expected"),
    [
        *(
            pytest.param(
                {"t1": 3, "t2": 3},
                {"c1": (10, "t1-0, t1-2, t2-1"), "c2": (generation, "t1-0, t1-2, t2-1")},
                {"c1": "t1-0, t1-2, t2-1", "c2": "t1-1, t2-0, t2-2"},
                id=f"all of it from generation {generation}",
            )
            for generation in (9, -1)
        ),
        pytest.param(
            {"t1": 3, "t2": 3},
            {"c1": (10, "t1-0, t2-1, t1-1"), "c2": (8, "t1-0, t2-1, t2-2")},
            {"c1": "t1-0, t1-1, t2-1", "c2": "t1-2, t2-0, t2-2"},
            id="part of it from an older generation",
        ),
        pytest.param(
            {"t1": 3, "t2": 3, "t3": 3},
            {
                "c1": (10, "t1-0, t2-0, t3-0"),
                "c2": (9, "t1-1, t2-1, t3-1"),
                "c3": (8, "t2-1, t3-0, t3-2"),
            },
            {
                "c1": "t1-0, t2-0, t3-0",
                "c2": "t1-1, t2-1, t3-1",
                "c3": "t1-2, t2-2, t3-2",
            },
            id="three generations",
        ),
        pytest.param(
            {"t0": 3, "t1": 3, "t2": 3, "t3": 3},
            {
                "c1": (-1, ""),
                "c2": (9, "t0-0, t2-0, t1-0"),
                "c3": (8, "t3-2, t2-2, t1-1"),
                "c4": (7, "t3-1, t0-1, t0-2"),
            },
            {
                "c1": "t1-2, t2-1, t3-0",
                "c2": "t0-0, t1-0, t2-0",
                "c3": "t1-1, t2-2, t3-2",
                "c4": "t0-1, t0-2, t3-1",
            },
            id="older generations without a contradiction",
        ),
        pytest.param(
            {"t1": 3},
            {"c1": (1, "t1-0, t1-1"), "c2": (1, "t1-0, t1-2"), "c3": (1, "")},
            {"c1": "t1-1", "c2": "t1-2", "c3": "t1-0"},
            id="a contradiction",
        ),
        pytest.param(
            {"t1": 4},
            {"c1": (1, "t1-0, t1-1"), "c2": (1, "t1-0, t1-2"), "c3": (1, "")},
            {"c1": "t1-1, t1-3", "c2": "t1-2", "c3": "t1-0"},
            id="a contradiction, and one member with one more",
        ),
    ],
)
def test_kip_792_the_newest_claim_wins(counts, claims, expected):
    members = [
        member(member_id, counts, owned, generation)
        for member_id, (generation, owned) in claims.items()
    ]
    assert as_text(assign_sticky(members, without_racks(**counts))) == expected


@pytest.mark.parametrize("generations", [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2)])
def test_kip_792_three_claims_among_unequal_subscriptions(generations):
    claims = ("t0-0, t0-2", "t0-1, t0-2, t0-3", "t0-2, t0-4, t0-5")
    members = [
        member(f"c{index}", "t0", owned, generation)
        for index, (owned, generation) in enumerate(zip(claims, generations, strict=True))
    ]
    members.append(member("c4", "t1", "t1-0", 2))
    assigned = assign_sticky(members, without_racks(t0=6, t1=1))
    assert sorted(len(found) for found in assigned.values()) == [1, 2, 2, 2]


def test_a_member_that_was_away_gets_its_partitions_back_if_that_balances():
    """Its claims have an older generation, and the present owner has too many partitions."""
    members = [
        member("a", "t0 t1", "t0-0, t0-1, t0-2, t1-0", generation=2),
        member("b", "t0", "", generation=2),
        member("c", "t0", "t0-0", generation=1),
    ]
    assert as_text(assign_sticky(members, without_racks(t0=3, t1=1))) == {
        "a": "t0-2, t1-0",
        "b": "t0-1",
        "c": "t0-0",
    }


# --- racks (KIP-881) -----------------------------------------------------------------------------

COUNTS = {"t1": 6, "t2": 7, "t3": 2}
UNIFORM = ("t1 t2 t3",) * 3
UNEQUAL = ("t1 t2 t3", "t1 t2 t3", "t1 t3")
DEALT = (
    "t1-0, t1-3, t2-0, t2-3, t2-6",
    "t1-1, t1-4, t2-1, t2-4, t3-0",
    "t1-2, t1-5, t2-2, t2-5, t3-1",
)
DEALT_UNEQUALLY = (
    "t1-5, t2-0, t2-2, t2-4, t2-6",
    "t1-3, t2-1, t2-3, t2-5, t3-0",
    "t1-0, t1-1, t1-2, t1-4, t3-1",
)
ALONE = (
    "t1-3, t2-0, t2-2, t2-3, t2-6",
    "t1-4, t2-1, t2-4, t2-5, t3-0",
    "t1-0, t1-1, t1-2, t1-5, t3-1",
)
IN_TWO = (
    "t1-3, t2-0, t2-2, t2-5, t2-6",
    "t1-0, t2-1, t2-3, t2-4, t3-0",
    "t1-1, t1-2, t1-4, t1-5, t3-1",
)
IN_A_ROW = (
    "t1-0, t1-1, t1-2, t1-3, t1-4",
    "t1-5, t2-0, t2-1, t2-2, t2-3",
    "t2-4, t2-5, t2-6, t3-0, t3-1",
)


@pytest.mark.parametrize(
    ("racks", "mismatched"),
    [
        ((3, NO_RACKS, ABC), None),
        ((3, ABC, NO_RACKS), None),
        ((3, ABC, ABC), 0),
        ((3, ABC, ("d", "e", "f")), None),
        ((3, ABC, (None, "e", "f")), None),
        ((3, (A, B), ABC), 5),
    ],
)
@pytest.mark.parametrize(
    ("subscriptions", "expected"), [(UNIFORM, DEALT), (UNEQUAL, DEALT_UNEQUALLY)]
)
@pytest.mark.parametrize("assign", [assign_sticky, assign_cooperative_sticky])
def test_racks_are_ignored_if_they_make_no_difference(
    assign, subscriptions, expected, racks, mismatched
):
    check_racks(assign, COUNTS, racks, subscriptions, expected, mismatched)
    check_racks(assign, COUNTS, racks, subscriptions, expected, mismatched, owned=expected)


@pytest.mark.parametrize("assign", [assign_sticky, assign_cooperative_sticky])
@pytest.mark.parametrize(
    ("subscriptions", "replicas", "expected", "mismatched"),
    [
        (UNIFORM, 1, DEALT, 0),
        (UNIFORM, 2, DEALT, 0),
        (UNEQUAL, 1, ALONE, 4),
        (UNEQUAL, 2, IN_TWO, 0),
    ],
)
def test_kip_881_members_get_partitions_of_their_racks(
    assign, subscriptions, replicas, expected, mismatched
):
    racks = (replicas, ABC, ABC)
    check_racks(assign, COUNTS, racks, subscriptions, expected, mismatched)
    if mismatched == 0:
        check_racks(assign, COUNTS, racks, subscriptions, expected, mismatched, owned=expected)


@pytest.mark.parametrize(
    ("subscriptions", "replicas", "owned", "expected", "mismatched"),
    [
        (UNIFORM, 1, IN_A_ROW, ("t1-0, t1-3", "t2-1", "t2-5, t3-1"), 0),
        (UNEQUAL, 1, IN_A_ROW, ("t1-3", "t2-1", "t3-1"), 0),
        (UNEQUAL, 1, ("t1-3", "t2-1", "t3-1"), ALONE, 4),
        (
            UNEQUAL, 3, IN_A_ROW,
            ("t1-2, t1-3, t1-4", "t2-0, t2-1, t2-2, t2-3", "t3-0, t3-1"),
            0,
        ),
        (
            UNEQUAL, 3, ("t1-2, t1-3, t1-4", "t2-0, t2-1, t2-2, t2-3", "t3-0, t3-1"),
            (
                "t1-2, t1-3, t1-4, t2-4, t2-5",
                "t2-0, t2-1, t2-2, t2-3, t2-6",
                "t1-0, t1-1, t1-5, t3-0, t3-1",
            ),
            0,
        ),
    ],
)  # fmt: skip
def test_kip_881_a_cooperative_round_moves_partitions_to_their_racks(
    subscriptions, replicas, owned, expected, mismatched
):
    racks = (replicas, ABC, ABC)
    assign = assign_cooperative_sticky
    check_racks(assign, COUNTS, racks, subscriptions, expected, mismatched, owned=owned)


@pytest.mark.parametrize(
    ("racks", "members", "expected"),
    [
        pytest.param(
            {"t0": ["yz"], "t1": ["xz"]},
            [member("a", "t0 t1", rack="z"), member("b", "t0 t1", rack="y")],
            {"a": "t1-0", "b": "t0-0"},
            id="first the partitions with few members nearby",
        ),
        pytest.param(
            {"t0": ["yz", "xz", "xy"]},
            [member("a", "t0", rack="x"), member("b", "t0", rack="z")],
            {"a": "t0-2", "b": "t0-0, t0-1"},
            id="members nearby take turns",
        ),
        pytest.param(
            {"t0": ["yz", "xy"]},
            [member("a", "t0"), member("b", "t0", rack="y")],
            {"a": "t0-1", "b": "t0-0"},
            id="a member nearby gets no more than its share",
        ),
        pytest.param(
            {"t0": ["x"], "t1": ["xz", "xz"]},
            [member("a", "t1", "t1-1", rack="y"), member("b", "t0 t1", "t1-0", rack="x")],
            {"a": "t1-0", "b": "t0-0, t1-1"},
            id="all partitions may move where one has to",
        ),
        pytest.param(
            {"t0": ["y"], "t1": ["x"]},
            [
                member("a", "t0 t1", rack="y"),
                member("b", "t0 t1", rack="y"),
                member("c", "t0", rack="w"),
            ],
            {"a": "t0-0", "b": "t1-0", "c": ""},
            id="first the partitions that a member is near to",
        ),
    ],
)
def test_small_groups_with_racks_are_assigned_as_by_kafka(racks, members, expected):
    """The assignments of Kafka 4.3 for these groups."""
    topics = {name: dict(enumerate(map(frozenset, each))) for name, each in racks.items()}
    assert as_text(assign_sticky(members, topics)) == expected
