"""The tables of reactions: what is in them, and what becomes of errors that are not."""

from __future__ import annotations

import pytest
from kafka import errors

from tandem_kafka.errors import KafkaError
from tandem_kafka.request_managers import reactions
from tandem_kafka.request_managers.reactions import Reaction, reaction_to

TABLES = {
    name: getattr(reactions, name)
    for name in (
        "COMMIT",
        "COMMIT_GIVING_BACK",
        "COORDINATOR",
        "FETCH",
        "GROUP_HEARTBEAT",
        "LIST_OFFSETS",
        "MEMBERSHIP",
        "OFFSET_FETCH",
    )
}


@pytest.mark.parametrize("name", TABLES)
def test_every_entry_is_an_error_a_broker_or_connection_can_give(name: str) -> None:
    for error in TABLES[name]:
        assert issubclass(error, KafkaError)
        assert reaction_to(TABLES[name], error) is TABLES[name][error]
        assert reaction_to(TABLES[name], error("what")) is TABLES[name][error]


@pytest.mark.parametrize("name", TABLES)
def test_an_error_in_no_table_is_retried_if_it_may_pass_else_it_fails(name: str) -> None:
    class PassingError(KafkaError):
        retriable = True

    assert reaction_to(TABLES[name], PassingError()) is Reaction.RETRY
    assert reaction_to(TABLES[name], KafkaError()) is Reaction.FAIL
    assert reaction_to(TABLES[name], ValueError()) is Reaction.FAIL


def test_a_subclass_takes_after_its_ancestor() -> None:
    class LocalError(errors.NotCoordinatorError):
        pass

    assert reaction_to(reactions.COMMIT, LocalError) is Reaction.REDISCOVER
