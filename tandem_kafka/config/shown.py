"""Option values as they may be shown: in error messages, logs and `repr()`, without secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["HIDDEN", "ShownOptions", "shown"]

HIDDEN: Final = "<hidden>"

#: A JAAS configuration or a URL with credentials, given to an option that knows no secrets.
_SECRET: Final = re.compile(r"(passw|secret|token)\w*\s*=|LoginModule|//[^/@]*@", re.IGNORECASE)


def shown(value: object, *, secret: bool = False) -> str:
    """Return the repr of an option's value, or a stand-in if there may be a secret in it."""
    text = repr(value)
    if secret or (isinstance(value, (str, bytes, list, tuple)) and _SECRET.search(text)):
        return HIDDEN
    return text


class ShownOptions(dict[str, Any]):
    """Options by name, a dict of the user's own. Its `repr()` shows no secrets, its values do."""

    __slots__ = ("_secrets",)

    def __init__(self, options: Mapping[str, Any], secrets: frozenset[str]) -> None:
        super().__init__(options)
        self._secrets = secrets

    def copy(self) -> ShownOptions:
        """Return another one of the same options."""
        return ShownOptions(self, self._secrets)

    def __reduce__(self) -> tuple[Any, ...]:
        """Be copied and pickled with the names of the secrets."""
        return ShownOptions, (dict(self), self._secrets)

    def __repr__(self) -> str:
        """Show all but secrets."""
        items = (
            f"{name!r}: {HIDDEN if value is not None and name in self._secrets else shown(value)}"
            for name, value in self.items()
        )
        return f"{{{', '.join(items)}}}"
