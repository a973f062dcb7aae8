"""A token provider that belongs to the user, as the network thread sees it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider


class WeakTokenProvider(AbstractTokenProvider):
    """Refers to the user's token provider for as long as the consumer keeps it alive."""

    def __init__(self, provider: Any) -> None:
        super().__init__()
        self._provider = weakref.ref(provider)

    def token(self) -> Any:
        """Return the provider's token."""
        return self._resolve().token()

    def extensions(self) -> Mapping[Any, Any]:
        """Return the provider's SASL extensions, if it has any."""
        extensions = getattr(self._resolve(), "extensions", None)
        found: Mapping[Any, Any] = {} if extensions is None else extensions()
        return found

    def _resolve(self) -> Any:
        provider = self._provider()
        if provider is None:
            msg = (
                "sasl_oauth_token_provider no longer exists: the application dropped the consumer "
                "without close()"
            )
            raise LookupError(msg)
        return provider
