"""Ours accepts what kafka-python's constructor accepts, except for listed nonsense."""

from __future__ import annotations

import pytest
from kafka import KafkaConsumer

from tandem_kafka.errors import InvalidGroupIdError, KafkaConfigurationError
from tests.unit.config_differences import OURS, THEIRS
from tests.unit.config_parity import reasons, trials

#: Where the errors of both are of different types: the option, the value and why.
OTHER_ERRORS = {
    ("api_version", "`()`"): "kafka-python compares it with releases; it is no version at all",
}


@pytest.mark.parametrize("option", KafkaConsumer.DEFAULT_CONFIG)
def test_both_accept_the_same_values_except_for_listed_differences(option):
    for trial in trials():
        if trial.option == option and trial.kind == (True, False):
            assert reasons(trial, THEIRS), f"{trial.value} is rejected: {trial.ours}"
        if trial.option == option and trial.kind == (False, True):
            assert reasons(trial, OURS), f"{trial.value} is accepted; theirs: {trial.theirs!r}"


@pytest.mark.parametrize("option", KafkaConsumer.DEFAULT_CONFIG)
def test_values_that_both_reject_raise_the_same_type_of_error(option):
    for trial in trials():
        if trial.option == option and trial.ours is not None:
            assert isinstance(trial.ours, (KafkaConfigurationError, InvalidGroupIdError))
            assert option in str(trial.ours)
            if trial.theirs is not None and (option, trial.value) not in OTHER_ERRORS:
                assert isinstance(trial.ours, type(trial.theirs)), (trial.value, trial.theirs)


@pytest.mark.parametrize(("known", "kind"), [(THEIRS, (True, False)), (OURS, (False, True))])
def test_every_listed_difference_exists(known, kind):
    found = {
        number for trial in trials() if trial.kind == kind for number in reasons(trial, known)[:1]
    }
    assert found == set(range(1, len(known) + 1))
