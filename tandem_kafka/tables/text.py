"""`Text`: the decoder of UTF-8."""

from __future__ import annotations

from tandem_kafka.tables.decoder import Decoder
from tandem_kafka.types import DecodeErrors


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
