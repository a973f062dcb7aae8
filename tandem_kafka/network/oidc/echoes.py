"""What an endpoint says, without secrets and control characters: it may repeat what it was sent."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

from tandem_kafka.network.secret import Secret

_LONGEST: Final = 300
_HIDDEN: Final = "<hidden>"


def spellings(secret: Secret[str], client_id: str = "") -> tuple[Secret[str], ...]:
    """Return the forms in which a secret may come back: itself, quoted, and in base64.

    Args:
        secret: The secret.
        client_id: The name that is sent together with it.
    """
    found = Secret({each.reveal() for each in _spellings(secret, client_id)} - {""})
    # The longest first, or a rest of it would be shown.
    return tuple(map(Secret, sorted(found.reveal(), key=len, reverse=True)))


def _spellings(secret: Secret[str], client_id: str) -> Iterator[Secret[str]]:
    texts = [Secret(spell(secret.reveal())) for spell in (str, quote, quote_plus, _quote_all)]
    names = (client_id, quote(client_id, safe=""), quote_plus(client_id))
    pairs = [Secret(f"{name}:{text.reveal()}") for name in names for text in texts]
    yield from texts
    for each in (*texts, *pairs):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield Secret(encode(each.reveal().encode()).decode().rstrip("="))


def _quote_all(text: str) -> str:
    return quote(text, safe="")


def readable(text: Secret[str], secrets: Iterable[Secret[str]]) -> str:
    """Return a text of the endpoint for an error: no secret, no control characters, not long."""
    for secret in secrets:
        pattern = Secret(re.compile(re.escape(secret.reveal()) + "=*", re.IGNORECASE))
        text = Secret(pattern.reveal().sub(_HIDDEN, text.reveal()))
    plain = "".join(each if each.isprintable() else " " for each in text.reveal()[:_LONGEST])
    return " ".join(plain.split())
