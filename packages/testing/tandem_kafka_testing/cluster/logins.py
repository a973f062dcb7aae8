"""Logins with SASL: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, Protocol

from kafka import errors

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = ("PLAIN", *_HASHES)
_ITERATIONS: Final = 4_096


class Login(Protocol):
    """The server's side of one login.

    Attributes:
        user: The user, once the login has succeeded.
    """

    user: str | None

    def receive(self, token: bytes) -> bytes:
        """Return the answer to a token of the client.

        Raises:
            SaslAuthenticationFailedError: The user or the password is wrong, or the token is not
                one of the mechanism.
        """
        ...


def login_with(mechanism: str, users: Mapping[str, str], nonce: str) -> Login | None:
    """Return the login for a mechanism, None if it is not supported.

    Args:
        mechanism: Its name.
        users: Passwords by user.
        nonce: A text that no other login has.
    """
    if mechanism == "PLAIN":
        return _Plain(users)
    if mechanism in _HASHES:
        return _Scram(users, _HASHES[mechanism], nonce)
    return None


def _rejected() -> Exception:
    error: Exception = errors.SaslAuthenticationFailedError(
        "Authentication failed: Invalid username or password"
    )
    return error


class _Plain:
    """One token: authorization id, user and password, each behind a zero."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.user: str | None = None

    def receive(self, token: bytes) -> bytes:
        """Check user and password."""
        parts = _text(token).split("\0")
        if len(parts) != 3 or self._users.get(parts[1]) != parts[2]:
            raise _rejected()
        if parts[0] not in ("", parts[1]):
            raise _rejected()  # nobody acts for another user
        self.user = parts[1]
        return b""


class _Scram:
    """Two tokens: the user with a nonce, then the proof of the password."""

    def __init__(self, users: Mapping[str, str], algorithm: str, nonce: str) -> None:
        self._users = users
        self._algorithm = algorithm
        self._nonce = nonce
        self._name = ""
        self._first = ""
        self.user: str | None = None

    def receive(self, token: bytes) -> bytes:
        """Return the challenge for the first token, and the server's own proof for the second."""
        text = _text(token)
        return self._check(text) if self._first else self._challenge(text)

    def _challenge(self, first: str) -> bytes:
        binding, _, rest = first.partition(",")
        authorized, _, bare = rest.partition(",")
        fields = _fields(bare)
        self._name = _unescaped(fields.get("n", ""))
        if binding not in ("n", "y") or self._name not in self._users:
            raise _rejected()
        if _unescaped(authorized.removeprefix("a=")) not in ("", self._name):
            raise _rejected()  # nobody acts for another user
        salt = base64.b64encode(self._nonce.encode()).decode()
        challenge = f"r={fields.get('r', '')}{self._nonce},s={salt},i={_ITERATIONS}"
        self._first = f"{bare},{challenge}"
        return challenge.encode()

    def _check(self, final: str) -> bytes:
        without_proof, _, proof = final.rpartition(",p=")
        password = self._users[self._name].encode()
        salted = hashlib.pbkdf2_hmac(self._algorithm, password, self._nonce.encode(), _ITERATIONS)
        message = f"{self._first},{without_proof}".encode()
        key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self._algorithm, key).digest(), message)
        expected = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        # The last of equal fields counts: the nonce of the challenge, which has both parts.
        same_nonce = _fields(without_proof).get("r") == _fields(self._first)["r"]
        if not same_nonce or not hmac.compare_digest(_decoded(proof), expected):
            raise _rejected()
        self.user = self._name
        verifier = self._hmac(self._hmac(salted, b"Server Key"), message)
        return b"v=" + base64.b64encode(verifier)

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self._algorithm).digest()


def _text(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise _rejected() from None


def _decoded(proof: str) -> bytes:
    try:
        return base64.b64decode(proof)
    except ValueError:
        raise _rejected() from None


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _fields(text: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)
