"""Option values as they may be shown: in error messages, logs and `repr()`, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["HIDDEN", "SettledOptions", "shown"]

HIDDEN: Final = "<hidden>"

#: A JAAS configuration or a URL with credentials, given to an option that knows no secrets.
_SECRET: Final = re.compile(r"(passw|secret|token)\w*\s*=|LoginModule|//[^/@]*@", re.IGNORECASE)


def shown(value: object, *, secret: bool = False) -> str:
    """Return the repr of an option's value, or a stand-in if there may be a secret in it."""
    text = repr(value)
    if secret or (isinstance(value, (str, bytes, list, tuple)) and _SECRET.search(text)):
        return HIDDEN
    return text


class SettledOptions(Mapping[str, Any]):
    """Options by name; read-only. Its `repr()` shows no secrets, its values are what they are."""

    def __init__(self, options: Mapping[str, Any], secrets: frozenset[str]) -> None:
        self._options = dict(options)
        self._secrets = secrets

    def __getitem__(self, name: str) -> Any:
        return self._options[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """Return a dict of these options and others."""
        return {**self._options, **other}

    def copy(self) -> dict[str, Any]:
        """Return a dict of them."""
        return dict(self._options)

    def __repr__(self) -> str:
        """Show all but secrets."""
        items = (
            f"{name!r}: {HIDDEN if value is not None and name in self._secrets else shown(value)}"
            for name, value in self._options.items()
        )
        return f"{{{', '.join(items)}}}"
