"""The native implementation of the record path (rust/), which decodes responses on arrival.

The native transport decodes a fetch response before it acquires the GIL again. With other
transports, it is decoded when it is needed. The Python implementation handles message formats v0
and v1.
"""

from __future__ import annotations

import functools
from collections.abc import MutableSequence, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from tandem_kafka.errors import KafkaProtocolError
from tandem_kafka.records import columns
from tandem_kafka.records.decoder import (
    FetchedPartition,
    FetchedResponse,
    ReaderOptions,
    RecordReader,
    TakenRecords,
)
from tandem_kafka.types import UNKNOWN_EPOCH, ConsumerRecord
from tandem_kafka.wire.hosts import advertised

if TYPE_CHECKING:
    from tandem_kafka import _native
else:
    from tandem_kafka.runtime.native import native as _native


MutableSequence.register(_native.Records)


def decode_fetch_response(body: memoryview, version: int) -> FetchedResponse:
    """Decode the body of a fetch response, without the response header.

    Raises:
        KafkaProtocolError: The bytes are not a response of this version.
    """
    frame = body.obj if isinstance(body.obj, _native.Frame) else body
    try:
        fields = _native.decode_fetch_response(frame, version)
    except ValueError as error:
        raise KafkaProtocolError(str(error)) from error
    throttle_time_ms, error_code, session_id, partitions, nodes = fields
    return FetchedResponse(
        throttle_time_ms,
        error_code,
        session_id,
        tuple([_partition(*fetched) for fetched in partitions]),
        tuple([advertised(*node) for node in nodes]),
    )


@functools.lru_cache(maxsize=4096)
def _uuid(topic_id: bytes | None) -> UUID | None:
    return None if topic_id is None else UUID(bytes=topic_id)


def _partition(topic: str | None, topic_id: bytes | None, *fields: object) -> FetchedPartition:
    return FetchedPartition(topic, _uuid(topic_id), *fields)  # type: ignore[arg-type]


def open_reader(
    topic: str,
    partition: int,
    fetch_offset: int,
    fetched: FetchedPartition,
    options: ReaderOptions,
    leader_epoch: int = UNKNOWN_EPOCH,
) -> RecordReader:
    """Return a reader of the partition's records from `fetch_offset` on; see `python.py`."""
    batches = fetched.records
    if not isinstance(batches, _native.Batches):
        data = b"" if batches is None else batches
        batches = _native.Batches.from_bytes(
            data, fetched.aborted_transactions, fetched.high_watermark
        )
    if batches.legacy:
        from tandem_kafka.records.python import PythonRecordReader  # noqa: PLC0415 - old records

        return PythonRecordReader(topic, partition, fetch_offset, fetched, options, leader_epoch)
    return _native.RecordReader(
        topic,
        partition,
        fetch_offset,
        batches,
        max_leader_epoch=leader_epoch,
        read_committed=options.read_committed,
        check_crcs=options.check_crcs,
        max_decompressed_batch_bytes=options.max_decompressed_batch_bytes,
        max_record_headers=options.max_record_headers,
    )


def join_records(
    parts: Sequence[TakenRecords | MutableSequence[ConsumerRecord]],
) -> MutableSequence[ConsumerRecord]:
    """Return the records of one partition for the user; see `python.py`."""
    if set(map(type, parts)) == {_native.Records}:
        return _native.Records.join(parts)
    return columns.chain_records(parts)


def derive_records(
    records: TakenRecords | MutableSequence[ConsumerRecord],
    start: int,
    stop: int,
    kind: type[columns.Derived],
    origin: object,
) -> Sequence[columns.Derived]:
    """Return records as instances of a subclass; see `columns.py`."""
    if isinstance(records, _native.Records):
        return records.derived(start, stop, kind, origin)
    return columns.derive_records(records, start, stop, kind, origin)


def rewind(reader: RecordReader, offset: int) -> None:
    """Let a reader whose `take` was interrupted continue at `offset`.

    A native reader is there already, because an interrupt cannot split its steps.
    """
    if not isinstance(reader, _native.RecordReader):
        reader.rewind(offset)  # type: ignore[attr-defined]
