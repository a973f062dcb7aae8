"""A directory of Parquet files."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

from tandem_kafka.errors import SinkFencedError
from tandem_kafka.tables.sink import NO_TOPICS, merged_schema
from tandem_kafka.tables.storage import storage
from tandem_kafka.types import TopicPartition

#: A manifest with more files than that is continued in another one.
_FILES: Final = 1_000
_SCHEMAS: Final = "schemas"


@dataclass(frozen=True)
class _Manifest:
    """The files that one writer added to a partition.

    Invariant: of each manifest, the first files count, as many as the next one says in `before`.
    Later ones were committed by a writer that the next one had fenced already. Offsets would not
    tell this: they go backwards when a topic is deleted and created again.

    Attributes:
        before: How many files the manifest before had when the writer began.
        files: The names of the files, and the next offset after each.
        next: The next offset.
        topic: The number of the topic that it belongs to.
    """

    before: int
    files: list[tuple[str, int]]
    next: int | None
    topic: int | None = None


class ParquetDirectory:
    """A `TopicSink`: a folder for each partition, with Parquet files and manifests that name them.

    A file counts when a manifest names it: read `dataset()` or `files()`, not all files that are
    there. Crashes leave files that do not count; the next writer of the partition removes them.
    The directory must be on a file system with hard links and atomic renames: not an object store.

    Args:
        directory: The directory; it is created if there is none.
        compression: The codec of the files, as for ``pyarrow.parquet.write_table()``.

    Example::

        polars.scan_pyarrow_dataset(ParquetDirectory("orders").dataset()).head().collect()
    """

    storage: Final = storage("Parquet")

    def __init__(self, directory: str | os.PathLike[str], *, compression: str = "zstd") -> None:
        self._root = Path(directory).absolute()  # also after os.chdir()
        self._compression = compression
        self._held: dict[TopicPartition, tuple[int, _Manifest]] = {}
        self._written: dict[TopicPartition, Path] = {}
        self._schema: pa.Schema | None = None

    def __repr__(self) -> str:
        """Show the directory."""
        if not hasattr(self, "_root"):  # in a traceback of its constructor
            return f"<{type(self).__name__} without a directory>"
        return f"<{type(self).__name__} {str(self._root)!r}>"

    def files(self) -> list[Path]:
        """Return the files whose records are committed, in the order of partitions and offsets."""
        found: list[Path] = []
        for folder in sorted(self._root.glob("*-*"), key=_place):
            manifests = [_read(each) for each in sorted(folder.glob("*.json"))]
            for number, manifest in enumerate(manifests, 1):
                count = manifests[number].before if number < len(manifests) else None
                found += [folder / name for name, _ in manifest.files[:count]]
        return found

    def dataset(self) -> pyarrow.dataset.Dataset:
        """Return the committed records, with all columns, as a dataset of pyarrow."""
        files = [*map(str, self.files())]  # first: a file is never newer than its columns
        schema = self._newest_schema()[1]
        return pyarrow.dataset.dataset(files, schema=schema, format="parquet")

    def acquire(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | None]:
        """Begin a manifest for each partition; former writers can no longer add files."""
        self.abort()
        _make({self._folder(tp) for tp in partitions})
        for tp in partitions:
            folder = self._folder(tp)
            while True:
                last = max((int(each.stem) for each in folder.glob("*.json")), default=0)
                before = _read(folder / _name(last)) if last else _Manifest(0, [], None)
                begun = _Manifest(len(before.files), [], before.next, before.topic)
                # Another writer was faster; a third one may have removed the temporary file.
                with suppress(FileExistsError, FileNotFoundError):
                    _write(folder / _name(last + 1), _as_json(begun), replace=False)
                    break
            self._held[tp] = last + 1, begun
            counted = {name for name, _ in before.files}
            for each in folder.glob(f"{last:08}-*"):
                if each.name not in counted:
                    each.unlink(missing_ok=True)
        return {tp: self._held[tp][1].next for tp in partitions}

    def write(self, table: pa.Table) -> None:
        """Write a temporary file for each partition."""
        stored = self.storage.table(table)
        self._extend_schema(stored.schema)
        for tp, rows in _by_partition(stored):
            epoch, _ = self._held[tp]
            path = self._folder(tp) / f"{epoch:08}-{uuid.uuid4().hex}.tmp"
            self._written[tp] = path
            with path.open("wb") as file:
                pq.write_table(rows, file, compression=self._compression)
                file.flush()
                os.fsync(file.fileno())

    def topics(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return the numbers in the manifests."""
        return {tp: self._held[tp][1].topic for tp in partitions}

    def commit(
        self,
        offsets: Mapping[TopicPartition, int],
        topics: Mapping[TopicPartition, int] = NO_TOPICS,
    ) -> None:
        """Name the files in the manifests."""
        fenced = [tp for tp in offsets if self._is_fenced(tp)]
        if fenced:
            raise SinkFencedError(fenced)
        for tp, offset in offsets.items():
            epoch, manifest = self._held[tp]
            files = manifest.files
            if tp in self._written:
                temporary = self._written.pop(tp)
                path = temporary.with_name(f"{epoch:08}-{len(files):04}.parquet")
                temporary.replace(path)
                files = [*files, (path.name, offset)]
            topic = topics.get(tp, manifest.topic)
            after = _Manifest(manifest.before, files, offset, topic)
            _write(self._folder(tp) / _name(epoch), _as_json(after), replace=True)
            self._held[tp] = epoch, after
            if len(files) >= _FILES:
                self._continue(tp)

    def abort(self) -> None:
        """Remove the temporary files."""
        for path in self._written.values():
            path.unlink(missing_ok=True)
        self._written = {}

    def _continue(self, tp: TopicPartition) -> None:
        """Begin the next manifest, unless another writer has: that one is not to be fenced."""
        epoch, manifest = self._held[tp]
        begun = _Manifest(len(manifest.files), [], manifest.next, manifest.topic)
        with suppress(FileExistsError):
            _write(self._folder(tp) / _name(epoch + 1), _as_json(begun), replace=False)
            self._held[tp] = epoch + 1, begun

    def _folder(self, tp: TopicPartition) -> Path:
        return self._root / f"{tp.topic}-{tp.partition}"

    def _is_fenced(self, tp: TopicPartition) -> bool:
        return (self._folder(tp) / _name(self._held[tp][0] + 1)).exists()

    def _newest_schema(self) -> tuple[int, pa.Schema]:
        folder = self._root / _SCHEMAS
        last = max((int(each.stem) for each in folder.glob("*.arrow")), default=0)
        if not last:
            return 0, pa.schema([])
        return last, pa.ipc.read_schema(pa.py_buffer((folder / f"{last:08}.arrow").read_bytes()))

    def _extend_schema(self, added: pa.Schema) -> None:
        """Add the columns of new records to those of the table; all writers see the same."""
        while self._schema is None or merged_schema(self._schema, added) != self._schema:
            last, present = self._newest_schema()
            merged = merged_schema(present, added)
            self._schema = present
            if merged != present:
                folder = self._root / _SCHEMAS
                _make({folder})
                with suppress(FileExistsError):  # another writer was faster
                    path = folder / f"{last + 1:08}.arrow"
                    _write(path, merged.serialize().to_pybytes(), replace=False)


def _place(folder: Path) -> tuple[str, int]:
    topic, _, partition = folder.name.rpartition("-")
    return topic, int(partition) if partition.isdecimal() else 0


def _name(epoch: int) -> str:
    return f"{epoch:08}.json"


def _read(path: Path) -> _Manifest:
    parsed = json.loads(path.read_bytes())
    files = [(name, offset) for name, offset in parsed["files"]]
    return _Manifest(parsed["before"], files, parsed["next"], parsed.get("topic"))


def _as_json(manifest: _Manifest) -> bytes:
    return json.dumps(vars(manifest)).encode()


def _write(path: Path, content: bytes, *, replace: bool) -> None:
    """Give a file its content and its name in one step that survives a power failure.

    Raises:
        FileExistsError: The file is there, and not to be replaced.
    """
    temporary = path.with_name(f"{path.stem}-{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            temporary.replace(path)
        else:
            path.hardlink_to(temporary)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)


def _make(folders: set[Path]) -> None:
    """Make folders that survive a power failure, and those above them."""
    parents = {folder.parent for folder in folders}
    missing = {parent for parent in parents if not parent.is_dir()}
    if missing:
        _make(missing)
    for folder in folders:
        folder.mkdir(exist_ok=True)
    for parent in parents:
        # Also of folders that are there: who made them may have been killed before this.
        _sync(parent)


def _sync(folder: Path) -> None:
    """Let the names of files in a folder survive a power failure."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _by_partition(table: pa.Table) -> Iterator[tuple[TopicPartition, pa.Table]]:
    places = table.select(["topic", "partition"])
    for place in places.group_by(["topic", "partition"]).aggregate([]).to_pylist():
        tp = TopicPartition(place["topic"], place["partition"])
        of_topic = pc.equal(table["topic"].cast(pa.string()), tp.topic)
        yield tp, table.filter(pc.and_(of_topic, pc.equal(table["partition"], tp.partition)))
