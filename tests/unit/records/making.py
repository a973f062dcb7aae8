"""Creates record batches, including those that no producer would create."""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import cramjam
from crc32c import crc32c

from tandem_kafka.records import FetchedPartition, FetchedResponse, ReaderOptions, RecordReader

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"

#: The modules of the implementations.
_MODULES = {
    "python": ("tandem_kafka.records.python", "tandem_kafka.records.fetch_response"),
    "native": ("tandem_kafka.records.native_reader", "tandem_kafka.records.native_reader"),
}
_at_work = ["python"]


@contextmanager
def using(implementation: str) -> Iterator[None]:
    """Use `open_reader` and `decode_fetch_response` of an implementation."""
    _at_work.append(implementation)
    yield
    _at_work.pop()


def open_reader(
    topic: str,
    partition: int,
    offset: int,
    fetched: FetchedPartition,
    options: ReaderOptions,
    leader_epoch: int = -1,
) -> RecordReader:
    module = importlib.import_module(_MODULES[_at_work[-1]][0])
    return module.open_reader(topic, partition, offset, fetched, options, leader_epoch)


def decode_fetch_response(body: memoryview, version: int) -> FetchedResponse:
    module = importlib.import_module(_MODULES[_at_work[-1]][1])
    return module.decode_fetch_response(body, version)


@dataclass
class Rec:
    """A record to write; `delta` is its offset in the batch if it is not the next one."""

    value: bytes | None = b"value"
    key: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = field(default_factory=tuple)
    timestamp_delta: int = 0
    delta: int | None = None


def varint(number: int) -> bytes:
    return uvarint((number << 1) ^ (number >> 63))


def uvarint(raw: int) -> bytes:
    out = bytearray()
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(rec: Rec, index: int) -> bytes:
    delta = index if rec.delta is None else rec.delta
    body = b"\x00" + varint(rec.timestamp_delta) + varint(delta) + sized(rec.key) + sized(rec.value)
    body += varint(len(rec.headers))
    body += b"".join(sized(name) + sized(value) for name, value in rec.headers)
    return varint(len(body)) + body


def xerial(data: bytes, block: int = 1000) -> bytes:
    """Snappy as the Java client writes it."""
    out = XERIAL
    for at in range(0, len(data), block):
        part = bytes(cramjam.snappy.compress_raw(data[at : at + block]))
        out += struct.pack(">i", len(part)) + part
    return out


def compress(codec: int, data: bytes) -> bytes:
    writers = {
        0: bytes,
        GZIP: cramjam.gzip.compress,
        SNAPPY: xerial,
        LZ4: cramjam.lz4.compress,
        ZSTD: cramjam.zstd.compress,
    }
    return bytes(writers[codec](data))


def batch(
    records: Sequence[Rec] = (Rec(),),
    base_offset: int = 0,
    *,
    codec: int = 0,
    flags: int = 0,
    producer_id: int = -1,
    epoch: int = 5,
    last_delta: int | None = None,
    base_timestamp: int = 1_000,
    max_timestamp: int = 9_000,
    payload: bytes | None = None,
    count: int | None = None,
) -> bytes:
    """Return a v2 batch with a correct CRC, even if other fields are wrong."""
    if payload is None:
        payload = compress(codec, b"".join(record(rec, i) for i, rec in enumerate(records)))
    if last_delta is None:
        last_delta = max([len(records) - 1, *(rec.delta or 0 for rec in records)])
    covered = struct.pack(
        ">hiqqqhii",
        codec | flags,
        last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        0,
        0,
        len(records) if count is None else count,
    )
    covered += payload
    return struct.pack(">qiibI", base_offset, 9 + len(covered), epoch, 2, crc32c(covered)) + covered


def marker(base_offset: int, producer_id: int, *, abort: bool) -> bytes:
    """Return the control batch that ends a transaction."""
    key = struct.pack(">hh", 0, 0 if abort else 1)
    return batch(
        [Rec(key=key, value=b"\x00" * 6)],
        base_offset,
        flags=CONTROL | TRANSACTIONAL,
        producer_id=producer_id,
    )


def message(
    offset: int,
    value: bytes | None,
    key: bytes | None = None,
    *,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = 7_000,
) -> bytes:
    """Return a message of format v0 or v1."""
    body = struct.pack(">BB", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp)
    for data in (key, value):
        body += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def fetched(
    data: bytes, aborted: tuple[tuple[int, int], ...] = (), high_watermark: int = -1
) -> FetchedPartition:
    return FetchedPartition(
        "topic",
        None,
        3,
        0,
        high_watermark,
        aborted_transactions=aborted,
        records=memoryview(data),
    )


def reader(
    data: bytes,
    offset: int = 0,
    *,
    aborted: tuple[tuple[int, int], ...] = (),
    read_committed: bool = False,
    check_crcs: bool = True,
    max_batch_bytes: int = 1 << 30,
    max_headers: int = 10_000,
    high_watermark: int = -1,
    leader_epoch: int = -1,
) -> RecordReader:
    options = ReaderOptions(read_committed, check_crcs, max_batch_bytes, max_headers)
    partition = fetched(data, aborted, high_watermark)
    return open_reader("topic", 3, offset, partition, options, leader_epoch)
