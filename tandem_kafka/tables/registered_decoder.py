"""What decoders have in common that may learn schemas from a registry."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tandem_kafka.runtime import new_lock
from tandem_kafka.tables.decoder import Decoder
from tandem_kafka.tables.registry import Schemas
from tandem_kafka.types import DecodeErrors


class RegisteredDecoder(Decoder):
    """A decoder that may learn schemas from a registry."""

    def __init__(self, errors: DecodeErrors, *, flatten: bool) -> None:
        super().__init__(errors, flatten=flatten)
        self._schemas: Schemas | None = None
        #: Whether something names the schema of each value.
        self._framed = False
        self._lock = new_lock()
        #: How many schemas the decoder knows.
        self._built = 0

    @property
    def reads_schema_header(self) -> bool:
        """Whether a header may name the schema."""
        return self._framed

    def decode(
        self, column: pa.Array, headers: pa.Array | None = None
    ) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return the decoded column, and what could not be decoded: its row, and why.

        Such a row is null. Works on any column of binary.

        Args:
            column: The values.
            headers: The headers ``__key_schema_id`` or ``__value_schema_id`` of their records, null
                where there is none.

        Raises:
            SchemaRegistryError: The registry did not answer, or refused the request.
            InvalidArgumentError: The schema of the first record has no type in Arrow.
        """
        if self._schemas is not None:
            ids = self._native.ColumnDecoder.schema_ids(column, headers)
            with self._lock:
                self._schemas.fetch(ids)
                # Not what was fetched just now: an interrupt may have come before this.
                if len(self._schemas.known) > self._built:
                    self._rebuild()
                    self._built = len(self._schemas.known)
        decoded, failures = self._decoder.decode(column, headers)
        return pa.array(decoded), failures

    def _rebuild(self) -> None:
        """Make the decoder of the schemas that are known."""
        raise NotImplementedError
