"""Option values for error messages, logs and `repr()`, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from tandem_kafka.foreign_text import HIDDEN

#: The repr of these has what is in them.
_DATA: Final = (str, bytes, list, tuple, Mapping, AbstractSet)
#: A JAAS configuration, options of another client, an address with credentials or a key, in an
#: option that is not secret.
#: A password in an address may have slashes.
_SECRET: Final = re.compile(
    r"(passw|secret|token|authorization)\w*['\"]?\s*[=:]|LoginModule|[:/].*@|-----BEGIN",
    re.IGNORECASE,
)


def show(value: object, *, secret: bool = False) -> str:
    """Return the repr of a value, or `<hidden>` if it may contain a secret."""
    text = repr(value)
    if secret or (isinstance(value, _DATA) and _SECRET.search(text)):
        return HIDDEN
    return text


class ShownOptions(dict[str, Any]):
    """Options by name, as a separate dict. Its `repr()` hides secrets, its values do not.

    Args:
        options: The options.
        shown: The names whose values `repr()` shows. Another name may be a misspelled password.
    """

    __slots__ = ("_shown",)

    def __init__(self, options: Mapping[str, Any], shown: frozenset[str]) -> None:
        super().__init__(options)
        self._shown = shown

    def copy(self) -> ShownOptions:
        """Return a copy."""
        return ShownOptions(self, self._shown)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep what is shown in copies and pickles."""
        return ShownOptions, (dict(self), self._shown)

    def __repr__(self) -> str:
        """Show everything except secrets."""
        items = (
            f"{name!r}: {HIDDEN if value is not None and name not in self._shown else show(value)}"
            for name, value in self.items()
        )
        return f"{{{', '.join(items)}}}"
