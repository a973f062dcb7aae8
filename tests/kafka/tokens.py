"""Signed tokens (JWT) that the brokers of the tests accept."""

from __future__ import annotations

import json
import math
import time
import uuid
from pathlib import Path
from typing import Any, Final

from joserfc import jwt
from joserfc.jwk import RSAKey

__all__ = ["AUDIENCE", "ISSUER", "TokenIssuer"]

ISSUER: Final = "https://tokens.invalid/"
AUDIENCE: Final = "kafka"
_KEY_ID: Final = "the-key"


class TokenIssuer:
    """Signs tokens; brokers get its public key from a file.

    Attributes:
        keys: The file with the public key (JWKS).
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        key = RSAKey.generate_key(2048, {"kid": _KEY_ID})
        # As text, since other processes sign with it too.
        self._key = key.as_dict(private=True)
        self.keys = folder / "keys.json"
        public = {**key.as_dict(private=False), "kid": _KEY_ID, "alg": "RS256", "use": "sig"}
        self.keys.write_text(json.dumps({"keys": [public]}))

    def issue(self, user: str = "alice", lifetime_s: float = 600, **claims: Any) -> str:
        """Return a token for a user; with a negative lifetime, one that is expired."""
        now = time.time()
        payload = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": user,
            "iat": int(min(now, now + lifetime_s)) - 1,
            "exp": math.ceil(now + lifetime_s),
            "jti": uuid.uuid4().hex,
            **claims,
        }
        key = RSAKey.import_key(self._key)
        return jwt.encode({"alg": "RS256", "kid": _KEY_ID}, payload, key)
