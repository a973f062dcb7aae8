"""Directories of Parquet files: manifests, power failures, writers that were paused."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.errors import SinkFencedError

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

from tandem_kafka.tables import ParquetDirectory  # noqa: E402 - it imports pyarrow
from tests.integration.tables.landing_tables import (  # noqa: E402
    ParquetTable,
)
from tests.unit.tables.landings import ONE, ZERO, landed, put, rows  # noqa: E402

pytestmark = pytest.mark.leaves("the runtime of deltalake")


def test_a_late_commit_of_a_fenced_writer_does_not_count(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path)
    old = ParquetDirectory(table.place)
    old.acquire([ZERO])
    put(old, range(2))
    old.write(rows(range(2, 4)))
    new = ParquetDirectory(table.place)
    new.acquire([ZERO])
    # It was paused between its check and its commit, and its file was removed meanwhile.
    old._is_fenced = lambda _tp: False  # type: ignore[method-assign]
    with pytest.raises(FileNotFoundError):
        old.commit({ZERO: 4})
    old.abort()
    put(old, range(2, 4))
    assert table.rows() == landed((0, range(2)))
    put(new, range(2, 3))
    assert table.rows() == landed((0, range(3)))
    assert ParquetDirectory(table.place).acquire([ZERO]) == {ZERO: 3}


@pytest.mark.skipif(os.name != "posix", reason="other systems cannot sync folders")
def test_folders_survive_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a commit returns, each folder has been synced since something was added to it."""
    synced: dict[int, set[str]] = {}
    sync = os.fsync

    def note(opened: int) -> None:
        sync(opened)
        status = os.fstat(opened)
        if stat.S_ISDIR(status.st_mode):
            synced[status.st_ino] = set(os.listdir(opened))

    monkeypatch.setattr(os, "fsync", note)
    sink = ParquetDirectory(tmp_path / "new" / "table")
    sink.acquire([ZERO, ONE])
    put(sink, range(2))
    folders = [tmp_path, tmp_path / "new", sink._root, *sink._root.iterdir()]
    assert len(folders) == 6
    for folder in folders:
        present = {each.name for each in folder.iterdir()}
        assert present - synced.get(folder.stat().st_ino, set()) == set(), folder


def test_files_of_crashes_are_removed(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path)
    sink = ParquetDirectory(table.place)
    sink.acquire([ZERO])
    put(sink, range(2))
    (left,) = table.place.glob("*/*.parquet")
    (left.with_name("00000001-0001.parquet")).write_bytes(b"renamed, not in the manifest")
    sink.write(rows(range(2, 3)))
    ParquetDirectory(table.place).acquire([ZERO])
    assert [*table.place.glob("*/*.parquet")] == [left]
    assert not [*table.place.glob("*/*.tmp")]
    assert ParquetDirectory(table.place).files() == [left]


def test_many_files_are_in_several_manifests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_kafka.tables.parquet_directory._FILES", 3)
    table = ParquetTable(tmp_path)
    sink = ParquetDirectory(table.place)
    sink.acquire([ZERO])
    for each in range(10):
        put(sink, range(each, each + 1))
    assert table.rows() == landed((0, range(10)))
    assert len([*table.place.glob("t-0/*.json")]) == 4


def test_a_directory_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert ParquetDirectory(tmp_path / "nowhere").files() == []
    assert ParquetDirectory(tmp_path / "nowhere").dataset().count_rows() == 0


def test_a_full_manifest_is_not_continued_behind_another_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_kafka.tables.parquet_directory._FILES", 2)
    table = ParquetTable(tmp_path)
    old, new = ParquetDirectory(table.place), ParquetDirectory(table.place)
    old.acquire([ZERO])
    put(old, range(1))
    new.acquire([ZERO])
    # It was paused between its check and its commit.
    with monkeypatch.context() as paused:
        paused.setattr(old, "_is_fenced", lambda _tp: False)
        put(old, range(1, 2))
    with pytest.raises(SinkFencedError):
        old.commit({ZERO: 3})
    put(new, range(1, 3))
    assert table.rows() == landed((0, range(3)))


def test_a_removed_file_of_a_paused_acquirer_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, others = ParquetDirectory(tmp_path), [ParquetDirectory(tmp_path) for _ in range(2)]
    hardlink_to = Path.hardlink_to

    def overtaken(path: Path, target: Path) -> None:
        monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
        for each in others:
            each.acquire([ZERO])
        path.hardlink_to(target)

    monkeypatch.setattr(Path, "hardlink_to", overtaken)
    assert paused.acquire([ZERO]) == {ZERO: None}
    paused.commit({ZERO: 1})


def test_files_are_in_the_order_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = ParquetDirectory("landed")
    monkeypatch.chdir("/")
    for partition in (10, 2):
        sink.acquire([TopicPartition("t", partition)])
        sink.write(rows(range(1), partition))
        sink.commit({TopicPartition("t", partition): 1})
    found = ParquetDirectory(tmp_path / "landed").files()
    assert [path.parent.name for path in found] == ["t-2", "t-10"]


def test_a_dataset_has_the_columns_of_all_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = ParquetDirectory(tmp_path)
    sink.acquire([ZERO])
    reader = ParquetDirectory(tmp_path)
    newest = reader._newest_schema

    def slow() -> Any:
        found = newest()
        put(sink, range(1), new=pa.array([1]))
        return found

    monkeypatch.setattr(reader, "_newest_schema", slow)
    read = reader.dataset().to_table()
    assert read.num_rows == 0 or "new" in read.column_names
