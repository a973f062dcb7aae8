"""Whatever the brokers answer to requests of share groups, for ever: see `test_answers.py`."""

from __future__ import annotations

import pytest

from tests.answers.check import Case, broken_promises
from tests.answers.everyday import everyday


@pytest.mark.parametrize("case", everyday("shares"))
def test_an_answer_that_stays_is_bounded_and_told(case: Case) -> None:
    assert not broken_promises(case)
