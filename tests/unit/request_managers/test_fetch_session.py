"""The client's side of an incremental fetch session."""

from __future__ import annotations

from uuid import UUID

import pytest
from kafka import errors

from tandem_kafka.request_managers.fetching.session import (
    FINAL_EPOCH,
    MAX_EPOCH,
    FetchSession,
    FetchTarget,
    SessionRequest,
)
from tandem_kafka.types import TopicPartition
from tests.unit.request_managers.world import TOPIC_ID, TP, TP1, code


def target(offset: int, topic_id: UUID = TOPIC_ID, epoch: int = 3) -> FetchTarget:
    return FetchTarget(topic_id, offset, epoch, 1_000)


def build(session: FetchSession, wanted: dict[TopicPartition, FetchTarget]) -> SessionRequest:
    """Include these partitions and no others."""
    for tp in session._partitions.keys() - wanted.keys():
        session.exclude(tp)
    for tp, target in wanted.items():
        session.include(tp, target)
    return session.build()


def opened() -> FetchSession:
    session = FetchSession(incremental=True)
    build(session, {TP: target(1), TP1: target(2)})
    assert session.handle_response(9, 0)
    return session


@pytest.mark.behaviour(157)
def test_the_first_request_is_full_the_next_names_changes_only() -> None:
    session = FetchSession(incremental=True)
    first = build(session, {TP: target(1), TP1: target(2)})
    assert (first.session_id, first.epoch, len(first.to_send)) == (0, 0, 2)
    assert not session.open
    session.handle_response(9, 0)
    assert session.open
    second = build(session, {TP: target(5), TP1: target(2)})
    assert (second.session_id, second.epoch) == (9, 1)
    assert second.to_send == {TP: target(5)}
    assert second.forgotten == ()


@pytest.mark.behaviour(157)
def test_removed_partitions_are_forgotten() -> None:
    session = opened()
    request = build(session, {TP: target(1)})
    assert request.to_send == {}
    assert request.forgotten == ((TP1, TOPIC_ID),)
    session.handle_response(9, 0)
    assert build(session, {TP: target(1), TP1: target(2)}).to_send == {TP1: target(2)}


@pytest.mark.behaviour(157)
def test_a_recreated_topic_is_replaced() -> None:
    session = opened()
    new = UUID(int=99)
    request = build(session, {TP: target(0, new), TP1: target(2)})
    assert request.to_send == {TP: target(0, new)}
    assert request.forgotten == ((TP, TOPIC_ID),)
    assert session.topic_name(new) == "orders"


def test_a_new_leader_epoch_is_a_change() -> None:
    assert build(opened(), {TP: target(1, epoch=4), TP1: target(2)}).to_send.keys() == {TP}


def test_a_broker_without_room_gives_no_session() -> None:
    session = FetchSession(incremental=True)
    build(session, {TP: target(1)})
    session.handle_response(0, 0)
    again = build(session, {TP: target(1)})
    assert (again.session_id, again.epoch, len(again.to_send)) == (0, 0, 1)


@pytest.mark.behaviour(157)
def test_a_lost_session_is_reopened_and_other_errors_replace_it() -> None:
    session = opened()
    assert not session.handle_response(0, code(errors.FetchSessionIdNotFoundError))
    request = build(session, {TP: target(1)})
    assert (request.session_id, request.epoch, len(request.to_send)) == (0, 0, 1)
    session = opened()
    assert not session.handle_response(0, code(errors.InvalidFetchSessionEpochError))
    assert build(session, {TP: target(1)}).session_id == 9, "the broker drops the old session"


def test_a_missing_response_restarts_the_session() -> None:
    session = opened()
    session.restart()
    request = build(session, {TP: target(1), TP1: target(2)})
    assert (request.session_id, request.epoch, len(request.to_send)) == (9, 0, 2)


def test_the_epoch_wraps_to_one() -> None:
    session = opened()
    session._epoch = MAX_EPOCH
    session.handle_response(9, 0)
    assert build(session, {}).epoch == 1


def test_without_sessions_every_request_is_full() -> None:
    session = FetchSession(incremental=False)
    for _ in range(2):
        request = build(session, {TP: target(1)})
        assert (request.session_id, request.epoch, len(request.to_send)) == (0, FINAL_EPOCH, 1)
        assert session.handle_response(0, 0)
    assert not session.open


def test_the_final_request_ends_the_session() -> None:
    session = opened()
    request = session.close()
    assert (request.session_id, request.epoch, request.to_send) == (9, FINAL_EPOCH, {})
    assert not session.open


@pytest.mark.behaviour(157)
def test_a_partition_added_again_in_time_is_not_forgotten() -> None:
    session = opened()
    session.exclude(TP)
    session.include(TP, target(1))
    request = session.build()
    assert (request.to_send, request.forgotten) == ({TP: target(1)}, ())


def test_a_partition_dropped_before_it_was_sent_is_not_requested() -> None:
    session = opened()
    session.include(TP, target(5))
    session.exclude(TP)
    assert session.build().to_send == {}


def test_partitions_with_data_are_requested_last() -> None:
    session = FetchSession(incremental=False)
    assert list(build(session, {TP: target(1), TP1: target(2)}).to_send) == [TP, TP1]
    assert list(build(session, {TP: target(3), TP1: target(2)}).to_send) == [TP1, TP]


def test_a_removed_and_recreated_topic_is_sent_with_both_ids() -> None:
    session = opened()
    new = UUID(int=99)
    session.exclude(TP)
    session.include(TP, target(0, new))
    request = session.build()
    assert request.to_send == {TP: target(0, new)}
    assert request.forgotten == ((TP, TOPIC_ID),)
