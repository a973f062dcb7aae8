"""What `Landing` needs of a table, and which changes of its columns are possible."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa

from tandem_kafka.errors import SchemaMismatchError
from tandem_kafka.types import TopicPartition

Topics = Mapping[TopicPartition, int]
NO_TOPICS: Final[Topics] = {}
_LISTS: Final = ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list))


class Sink(Protocol):
    """A table that keeps the next offset of each partition beside the records.

    Each partition has one writer: the one that acquired it last. The table keeps a number for each
    partition, its epoch, which each `acquire()` raises. All calls come from one thread.
    """

    def acquire(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int | None]:
        """Become the only writer of partitions: former writers can no longer commit them.

        Records that were written and not committed are dropped.

        Returns:
            For each of them, the offset after the last record in the table; None if the table
            knows nothing of the partition.
        """
        ...

    def write(self, table: pa.Table) -> None:
        """Take records, which nobody sees before `commit()`.

        Raises:
            SchemaMismatchError: Columns have other types than those in the table.
        """
        ...

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make the records and the next offsets visible: all of a partition, or nothing of it.

        It has happened when this returns. After an exception, it may have happened or not.

        Args:
            offsets: For all partitions with records since the last commit, and perhaps others.

        Raises:
            SinkFencedError: Others have acquired some of the partitions. Nothing was committed.
        """
        ...

    def abort(self) -> None:
        """Drop the records that were written since the last commit."""
        ...


@runtime_checkable
class TopicSink(Sink, Protocol):
    """A `Sink` that keeps the topics of the offsets, so that a topic made anew is not continued.

    Without them, the first records of a topic that was deleted and created again, while no landing
    ran, are missing.
    """

    def topics(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int | None]:
        """Return the numbers of the topics of acquired partitions; None where there is none."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, int], topics: Topics = NO_TOPICS) -> None:
        """Commit as a `Sink`.

        Args:
            offsets: As for a `Sink`.
            topics: The numbers of 63 bits of topics that are not in the table yet.
        """
        ...


def merged_schema(present: pa.Schema, added: pa.Schema) -> pa.Schema:
    """Return the columns of a table and those of new records; fields of structs alike.

    Raises:
        SchemaMismatchError: A column has another type.
    """
    fields = {field.name: field.type for field in present}
    for field in added:
        fields[field.name] = _merged(fields.get(field.name, field.type), field.type, field.name)
    return pa.schema(list(fields.items()))


def _merged(old: pa.DataType, new: pa.DataType, path: str) -> pa.DataType:
    old, new = (each.value_type if pa.types.is_dictionary(each) else each for each in (old, new))
    if pa.types.is_null(old) or pa.types.is_null(new):
        return new if pa.types.is_null(old) else old
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        children = {child.name: child.type for child in old}
        for child in new:
            known = children.get(child.name, child.type)
            children[child.name] = _merged(known, child.type, f"{path}.{child.name}")
        return pa.struct(list(children.items()))
    if pa.types.is_map(old) and pa.types.is_map(new):
        key = _merged(old.key_type, new.key_type, f"{path} (keys)")
        return pa.map_(key, _merged_items(old.item_field, new.item_field, path))
    for is_list, make in _LISTS:
        if is_list(old) and is_list(new):
            return make(_merged_items(old.value_field, new.value_field, f"{path}[]"))
    if old != new:
        msg = (
            f"column {path} is {old} in the table and {new} in new records: only new columns can "
            "be added; decode to the type of the table, or land in another one"
        )
        raise SchemaMismatchError(msg)
    return old


def _merged_items(old: pa.Field, new: pa.Field, path: str) -> pa.Field:
    # Invariant: Delta Lake takes no items that may be null where those of the table may not.
    kind = _merged(old.type, new.type, path)
    return old.with_type(kind).with_nullable(old.nullable or new.nullable)
