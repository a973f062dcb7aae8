"""Handles records in parallel: in order for each key, at least once, with commits out of order.

`KeyedWorkers` works with a `KafkaConsumer` and threads or an executor, `AsyncKeyedWorkers` with an
`AsyncKafkaConsumer` and coroutines. `ShareWorkers` and `AsyncShareWorkers` work with a
`ShareConsumer` or `AsyncShareConsumer`. `run.py` is the loop of all four. `threads.py`,
`executors.py` and `tasks.py` call the handlers, `work.py` knows which are next. `control.py` and
`workload.py` are what is special to groups with offsets; `share_control.py` and `share_attempts.py`
what is special to share groups, whose records have no order and no offset to commit.

    with KafkaConsumer("orders", group_id="billing", enable_auto_commit=False) as consumer:
        KeyedWorkers(consumer, handle, workers=64, retry=Retry(5)).run()

**The metadata of commits.** The committed offset is the *base*: the lowest offset that is not done.
If records after the base are done, the metadata of the commit says which; otherwise it is empty.
The format, version 1:

- The metadata is the ASCII text ``tkw1:``, followed by bytes in URL-safe base64 (RFC 4648,
  section 5) without padding. The digit is the version.
- Bytes 0 to 3: a CRC-32 (as of zlib, big-endian) of ``<topic>/<partition>/<base>/`` in UTF-8,
  followed by all bytes from byte 4 on. It binds the map to its partition and offset: tools copy
  commits to other offsets, where the map would be wrong.
- Byte 4: the kind of the map, 0 for runs or 1 for a bitset. The shorter one is written, and runs
  if both have the same size.
- An unsigned varint. Its low 32 bits are 1 + the highest leader epoch of the records handed out so
  far, or 0 if no epoch is known. A record with a higher leader epoch is not one of those that the
  map marks: an unclean leader election has replaced it. It is handled. The 31 bits above are a
  fingerprint of the topic id: the low 31 bits of the CRC-32 of its 16 bytes, or 1 if these are 0;
  0 without an id. A map of another topic with the same name is ignored. Releases up to 0.10 write
  no fingerprint, and read the number as the epoch: they handle all marked records as done.
- The rest is the map. *Runs* are unsigned varints, in pairs: how many offsets are not done, and
  how many are done after them, beginning with the base. Only the first number may be 0. In a
  *bitset*, offset ``base + i`` is bit ``i % 8`` (the least significant bit is bit 0) of byte
  ``i // 8``. A set bit means done. Offsets after the end of the map are not done.

An unsigned varint has seven bits in a byte, least significant group first; all bytes except the
last one have the highest bit set. An offset without a record (compacted, or a control record)
counts as done once the consumer has returned a record after it. What a map marks beyond the end of
the log is ignored.

The metadata is at most ``metadata_limit_bytes`` long. A broker counts characters, which are bytes
here. Metadata in another format, or with a wrong checksum, is ignored with a warning.
"""

from typing import TYPE_CHECKING, Final

from tandem_kafka.lazy_names import lazy_names

if TYPE_CHECKING:
    from tandem_kafka.workers.async_keyed_workers import AsyncKeyedWorkers
    from tandem_kafka.workers.async_share_workers import AsyncShareWorkers
    from tandem_kafka.workers.dead_letters import DeadLetters
    from tandem_kafka.workers.keyed_workers import KeyedWorkers
    from tandem_kafka.workers.progress import PartitionProgress
    from tandem_kafka.workers.retry import Retry
    from tandem_kafka.workers.share_workers import ShareWorkers

__all__ = [
    "AsyncKeyedWorkers",
    "AsyncShareWorkers",
    "DeadLetters",
    "KeyedWorkers",
    "PartitionProgress",
    "Retry",
    "ShareWorkers",
]

_HOMES: Final = {
    "AsyncKeyedWorkers": "async_keyed_workers",
    "AsyncShareWorkers": "async_share_workers",
    "DeadLetters": "dead_letters",
    "KeyedWorkers": "keyed_workers",
    "PartitionProgress": "progress",
    "Retry": "retry",
    "ShareWorkers": "share_workers",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
