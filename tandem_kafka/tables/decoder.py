"""What the decoders of documents and text have in common, and `Text`, the decoder of UTF-8.

They are written in Rust, and work without the GIL, on the thread that polls and on further ones if
there is enough to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, get_args

import pyarrow as pa

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.runtime.native import native
from tandem_kafka.types import DecodeErrors

if TYPE_CHECKING:
    from tandem_kafka._native import ColumnDecoder

_ERRORS: Final = get_args(DecodeErrors)


def check_errors(errors: object) -> None:
    """Check the argument of a decoder.

    Raises:
        InvalidArgumentError: It has no such value.
    """
    if errors not in _ERRORS:
        msg = f"errors must be one of {', '.join(_ERRORS)}, got {errors!r}"
        raise InvalidArgumentError(msg)


def shown(decoder: object, schema: pa.DataType, errors: DecodeErrors) -> str:
    """Return the repr of a decoder."""
    return f"<{type(decoder).__name__} {schema}, errors={errors!r}>"


class Decoder:
    """A decoder that is written in Rust.

    Attributes:
        errors: What happens to a record that cannot be decoded.
        flatten: Whether the fields become columns of the batch.
    """

    def __init__(self, errors: DecodeErrors, *, flatten: bool = False) -> None:
        check_errors(errors)
        if native is None:
            msg = (
                f"{type(self).__name__} needs the native extension, which is not loaded: reinstall "
                "tandem-kafka from a wheel, or unset TANDEM_KAFKA_IMPL"
            )
            raise ImportError(msg)
        self.errors: DecodeErrors = errors
        self.flatten = flatten
        self._native = native
        self._decoder: ColumnDecoder

    @property
    def schema(self) -> pa.DataType:
        """The type of the decoded column; null before a record has told it.

        Fields of structs are nullable, even if no value lacks them: those of a tombstone are null.
        """
        return pa.field(self._decoder.data_type).type

    def __repr__(self) -> str:
        """Show the type of the decoded column, and what happens to errors."""
        if not hasattr(self, "_decoder"):  # in a traceback of its constructor
            return f"<{type(self).__name__} without a schema>"
        return shown(self, self.schema, self.errors)

    def decode(self, column: pa.Array) -> tuple[pa.Array, Sequence[tuple[int, str]]]:
        """Return the decoded column, and what could not be decoded: its row, and why.

        Such a row is null. Works on any column of binary or string.
        """
        decoded, failures = self._decoder.decode(column)
        return pa.array(decoded), failures

    def _use(self, make: Callable[[], ColumnDecoder], origin: str = "") -> None:
        try:
            decoder = make()
            # A name with U+0000 has no place in Arrow.
            schema = pa.field(decoder.data_type).type
        except ValueError as error:
            msg = f"{type(self).__name__}: {origin}{error}"
            raise InvalidArgumentError(msg) from None
        if self.flatten and not pa.types.is_struct(schema) and not pa.types.is_null(schema):
            msg = f"flatten needs values with fields, and this schema is {schema}"
            raise InvalidArgumentError(msg)
        self._decoder = decoder


class Text(Decoder):
    """Decodes UTF-8 into a column of type string.

    Args:
        errors: What happens to invalid UTF-8, as for `Json`.

    Raises:
        InvalidArgumentError: ``errors`` is none of these.
        ImportError: The native extension is not loaded.
    """

    def __init__(self, *, errors: DecodeErrors = "raise") -> None:
        super().__init__(errors)
        self._decoder = self._native.ColumnDecoder.text()
