"""Commits to Delta Lake beside those of other writers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

from tandem_kafka.tables import DeltaLake  # noqa: E402 - it imports pyarrow
from tests.integration.tables.landing_tables import (  # noqa: E402
    DeltaTable,
)
from tests.unit.tables.landings import ONE, ZERO, acquired, between, landed, rows  # noqa: E402

pytestmark = pytest.mark.leaves("the runtime of deltalake")


def test_a_commit_whose_answer_is_lost_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = pytest.importorskip("tandem_kafka.tables.delta_lake")
    table = DeltaTable(tmp_path)
    sink = acquired(table)
    sink.write(rows(range(3)))
    write = module.write_deltalake

    def lose(*given: Any, **named: Any) -> None:
        write(*given, **named)
        raise module.CommitFailedError("the version is there: a repeated request found its own")

    monkeypatch.setattr(module, "write_deltalake", lose)
    sink.commit({ZERO: 3})
    assert table.rows() == landed((0, range(3)))


def test_a_commit_behind_that_of_another_writer_is_not_taken_for_its_own(tmp_path: Path) -> None:
    """A topic was made anew, and its records end at the offset that is in the table."""
    table = DeltaTable(tmp_path)
    sink, other = table.open(), table.open()
    assert isinstance(sink, DeltaLake)
    sink.acquire([ZERO])
    other.acquire([ONE])
    sink.write(rows(range(3)))
    sink.commit({ZERO: 3}, {ZERO: 7})
    sink.write(rows(range(3)))
    between(sink, "_append", lambda: other.commit({ONE: 1}))
    sink.commit({ZERO: 3}, {ZERO: 8})
    assert len(table.rows()) == 6
    assert sink.topics([ZERO]) == {ZERO: 8}


def test_delta_lake_names_others_that_commit_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake")
    sink = DeltaLake(tmp_path / "table")
    sink.acquire([ZERO])
    tried = []
    monkeypatch.setattr(sink, "_append", lambda *_: tried.append(1) and False)
    with pytest.raises(deltalake.exceptions.CommitFailedError, match="100 attempts to commit"):
        sink.commit({ZERO: 1})
    assert len(tried) == 100
