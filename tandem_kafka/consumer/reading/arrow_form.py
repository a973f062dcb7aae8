"""What `poll_arrow()` makes of records: the columns that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tandem_kafka.records import Undecodable, check_arrow_columns, to_record_batch
from tandem_kafka.types import ArrowDecoder, ConsumerRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from tandem_kafka.consumer.reading.decoding import Decoding


#: Returns records, those of one partition after the other, as a record batch. If one cannot be
#: decoded, and is not to be null or dropped, the batch has no use.
Build: TypeAlias = Callable[
    [Sequence[Sequence[ConsumerRecord]]], "tuple[pa.RecordBatch, Undecodable | None]"
]


class ArrowForm(NamedTuple):
    """The arguments of `poll_arrow()` that say what a record batch contains."""

    columns: Sequence[str] | None
    binary_view: bool
    key: ArrowDecoder | None = None
    value: ArrowDecoder | None = None

    def checked(self) -> Build:
        """Return the function that makes record batches.

        Raises:
            InvalidArgumentError: A column does not exist.
            ArgumentTypeError: `key` or `value` is no decoder.
            ImportError: pyarrow is not installed.
        """
        if self.key is not None or self.value is not None:
            return self.decoding().batch
        columns, view = check_arrow_columns(self.columns), self.binary_view
        return lambda records: (to_record_batch(records, columns, binary_view=view), None)

    def decoding(self, *others: str) -> Decoding:
        """Return what makes record batches, perhaps with columns that are no part of a record.

        Raises:
            InvalidArgumentError, ArgumentTypeError, ImportError: As `checked` does.
        """
        columns = check_arrow_columns(self.columns, others)
        # It imports pyarrow.
        from tandem_kafka.consumer.reading.decoding import Decoding  # noqa: PLC0415

        decoders = {"key": self.key, "value": self.value}
        given = {name: each for name, each in decoders.items() if each is not None}
        return Decoding(columns, given, binary_view=self.binary_view)
