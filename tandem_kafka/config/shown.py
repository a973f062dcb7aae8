"""Option values for error messages, logs and `repr()`, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "<hidden>"

#: A JAAS configuration, or a URL with credentials, in an option that is not secret.
_SECRET: Final = re.compile(r"(passw|secret|token)\w*\s*=|LoginModule|//[^/@]*@", re.IGNORECASE)


def show(value: object, *, secret: bool = False) -> str:
    """Return the repr of a value, or `<hidden>` if it may contain a secret."""
    text = repr(value)
    if secret or (isinstance(value, (str, bytes, list, tuple)) and _SECRET.search(text)):
        return HIDDEN
    return text


class ShownOptions(dict[str, Any]):
    """Options by name, as a separate dict. Its `repr()` hides secrets, its values do not."""

    __slots__ = ("_secrets",)

    def __init__(self, options: Mapping[str, Any], secrets: frozenset[str]) -> None:
        super().__init__(options)
        self._secrets = secrets

    def copy(self) -> ShownOptions:
        """Return a copy."""
        return ShownOptions(self, self._secrets)

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the names of the secrets in copies and pickles."""
        return ShownOptions, (dict(self), self._secrets)

    def __repr__(self) -> str:
        """Show everything except secrets."""
        items = (
            f"{name!r}: {HIDDEN if value is not None and name in self._secrets else show(value)}"
            for name, value in self.items()
        )
        return f"{{{', '.join(items)}}}"
