"""Assertions for the JWT-bearer grant (RFC 7523): read from a file, or signed with a key."""

from __future__ import annotations

import uuid
from typing import Any, Final

from tandem_kafka.config import Config
from tandem_kafka.config.files import read_file
from tandem_kafka.errors import KafkaConfigurationError
from tandem_kafka.foreign_text import Secret

#: The clocks of client and token endpoint may differ: assertions are valid this long before now.
_NOT_BEFORE_S: Final = 60
_FILE: Final = "sasl_oauthbearer_assertion_file"
_KEY_FILE: Final = "sasl_oauthbearer_assertion_private_key_file"


def assertion(settings: Config, wall_ms: int) -> Secret[str]:
    """Return an assertion; files are read each time, so that changed files are used.

    Args:
        settings: The options.
        wall_ms: The time, in milliseconds since the Unix epoch.

    Raises:
        KafkaConfigurationError: A file cannot be used, or joserfc is missing.
    """
    if settings.sasl_oauthbearer_assertion_file is not None:
        return _from_file(settings.sasl_oauthbearer_assertion_file)
    key = _private_key(settings)
    return _sign(key, settings, wall_ms // 1000)


def _from_file(path: str) -> Secret[str]:
    text = Secret(read_file(_FILE, path).decode(errors="replace").strip())
    if not text.reveal():
        raise KafkaConfigurationError(f"{_FILE}: {path} is empty")
    return text


def _private_key(settings: Config) -> Any:
    try:
        from joserfc.jwk import ECKey, RSAKey  # noqa: PLC0415 - optional, and slow to import
    except ImportError as error:
        raise KafkaConfigurationError(
            f"{_KEY_FILE}: needs joserfc; install tandem-kafka[oidc]"
        ) from error
    path = settings.sasl_oauthbearer_assertion_private_key_file or ""
    algorithm = settings.sasl_oauthbearer_assertion_algorithm
    kind: Any = ECKey if algorithm.startswith("ES") else RSAKey
    password = Secret(settings.sasl_oauthbearer_assertion_private_key_passphrase)
    data = Secret(read_file(_KEY_FILE, path))
    try:
        return kind.import_key(data.reveal(), password=password.reveal())
    except Exception as error:
        raise KafkaConfigurationError(
            f"{_KEY_FILE}: cannot use {path} for {algorithm} (is "
            f"sasl_oauthbearer_assertion_private_key_passphrase right?): {error}"
        ) from error


def _sign(key: Any, settings: Config, now_s: int) -> Secret[str]:
    from joserfc import jwt  # noqa: PLC0415 - see `_private_key`

    claims = {
        "iss": settings.sasl_oauthbearer_assertion_claim_iss,
        "sub": settings.sasl_oauthbearer_assertion_claim_sub,
        "aud": settings.sasl_oauthbearer_assertion_claim_aud,
        "iat": now_s,
        "nbf": now_s - _NOT_BEFORE_S,
        "exp": now_s + settings.sasl_oauthbearer_assertion_claim_exp_seconds,
        "jti": uuid.uuid4().hex,
    }
    algorithm = settings.sasl_oauthbearer_assertion_algorithm
    present = {name: value for name, value in claims.items() if value is not None}
    return Secret(jwt.encode({"alg": algorithm, "typ": "JWT"}, present, key))
