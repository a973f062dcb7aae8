"""SASL authentication with the mechanisms of kafka-python.

The exchange does no input or output: it returns the next message to send and receives each
response, while its connection transfers the bytes. Calls that may block, for example of a token
provider or for a Kerberos ticket, run on other threads. Only one call for a token runs at a time,
and all waiting connections share its result. Steps of other mechanisms run a few at a time.
"""

from __future__ import annotations

import base64
import enum
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kafka.net.sasl import get_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider, SaslMechanismOAuth

from tandem_kafka.config import Config
from tandem_kafka.config.options import PASSWORD_MECHANISMS
from tandem_kafka.errors import (
    KafkaConfigurationError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    for_code,
)
from tandem_kafka.foreign_text import Secret, SentSecrets
from tandem_kafka.logs import client_logger
from tandem_kafka.network.offloading import Offloading
from tandem_kafka.network.oidc import OidcTokens
from tandem_kafka.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest

log = client_logger(__name__)

_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_STATE: Final = 34
_AUTHENTICATION_FAILED: Final = 58
_NO_REASON: Final = "the broker gave no reason"

#: The range of Kafka's ScramMechanism. Java's client accepts no fewer, as a proof from few
#: iterations, or without a salt, lets a server find the password by trying. Brokers store no more;
#: a million takes a second.
_FEWEST_ITERATIONS: Final = 4_096
_INLINE_ITERATIONS: Final = 16_384

_PROVIDER: Final = "sasl_oauth_token_provider"
_USER: Final = "sasl_plain_username"

#: The minimum for SaslAuthenticate; after version 0 of the handshake, tokens are sent unframed.
_HANDSHAKE_VERSION: Final = 1

_OPTIONS: Final = (
    "security_protocol",
    "sasl_mechanism",
    _USER,
    "sasl_plain_password",
    "sasl_kerberos_name",
    "sasl_kerberos_service_name",
    "sasl_kerberos_domain_name",
)


class _Step(enum.Enum):
    HANDSHAKE = "sending the mechanism"
    COMPUTING = "computing a token"
    TOKEN = "a token is ready to be sent"  # noqa: S105 - not a password
    WAITING = "waiting for the broker"
    DONE = "authenticated"


class SaslExchange:
    """One authentication on one connection.

    Attributes:
        session_lifetime_ms: How long the broker accepts the connection; 0 for unlimited.
    """

    def __init__(
        self,
        settings: Config,
        host: str,
        blocking_calls: Offloading,
        provider: Any = None,
        secrets: SentSecrets | None = None,
    ) -> None:
        self._secrets = SentSecrets() if secrets is None else secrets
        self._secrets.add(Secret(settings.sasl_plain_password or ""))
        name = settings.sasl_mechanism
        if not name:
            raise KafkaConfigurationError(
                f"security_protocol={settings.security_protocol!r} requires sasl_mechanism"
            )
        self._name = name
        self._protocol = settings.security_protocol
        self._config = {option: getattr(settings, option) for option in _OPTIONS}
        self._config["host"] = host
        self._user = self._config[_USER]
        if name in PASSWORD_MECHANISMS:
            # They only use it to log a warning for each connection.
            del self._config["security_protocol"]
        if name.startswith("SCRAM-"):
            self._config[_USER] = _scram_name(self._config[_USER])
        self._provider = provider
        self._blocking_calls = blocking_calls
        self._needs_token = get_sasl_mechanism(name) is SaslMechanismOAuth
        # All others may block, including those of users.
        self._inline = self._needs_token or name in PASSWORD_MECHANISMS
        #: Whether the next message of the broker says how to hash the password.
        self._expects_salt = name.startswith("SCRAM-")
        self._step = _Step.HANDSHAKE
        self._mechanism: Any = None
        self._token = b""
        self._received = b""
        self._error: KafkaError | None = None
        self.session_lifetime_ms = 0

    @property
    def done(self) -> bool:
        """True once the broker has accepted the credentials."""
        return self._step is _Step.DONE

    def next_message(self) -> Any | None:
        """Return the message to send now, or None if there is none.

        Raises:
            SaslAuthenticationFailedError: The mechanism failed.
        """
        if self._error is not None:
            raise self._error
        if self._step is _Step.HANDSHAKE:
            self._step = _Step.WAITING
            return SaslHandshakeRequest(mechanism=self._name, min_version=_HANDSHAKE_VERSION)
        if self._step is _Step.TOKEN:
            self._step = _Step.WAITING
            return SaslAuthenticateRequest(auth_bytes=self._token)
        return None

    def receive(self, answer: Any) -> None:
        """Process the response to the last message.

        Raises:
            SaslAuthenticationFailedError: The broker rejected the credentials.
            UnsupportedSaslMechanismError: The broker has not enabled the mechanism.
        """
        if hasattr(answer, "mechanisms"):
            self._check_mechanism(answer)
            if self._needs_token:
                self._step = _Step.COMPUTING
                ask = partial(request_token, self._provider)
                self._blocking_calls.share("token", ask, self._use_token)
            else:
                self._compute(self._first_token)
        else:
            self._check_token(answer)
            self.session_lifetime_ms = max(0, answer.session_lifetime_ms)
            self._received = bytes(answer.auth_bytes or b"")
            if self._expects_salt:
                self._expects_salt = False
                self._check_salt()
            self._compute(self._next_token)
        if self._error is not None:
            raise self._error

    def _check_mechanism(self, answer: Any) -> None:
        host = self._config["host"]
        if answer.error_code == _UNSUPPORTED_MECHANISM:
            listed = Secret(", ".join(sorted(answer.mechanisms or ())))
            enabled = self._secrets.readable(listed) or "none"
            raise UnsupportedSaslMechanismError(
                f"{host} has not enabled sasl_mechanism {self._name!r}; set one that is enabled: "
                f"{enabled}"
            )
        if answer.error_code == _ILLEGAL_STATE:
            without = "SSL" if self._protocol == "SASL_SSL" else "PLAINTEXT"
            raise SaslAuthenticationFailedError(
                f"{host}: this port does not use SASL, but security_protocol={self._protocol!r}; "
                f"set security_protocol={without!r}, or use the port of a SASL listener"
            )
        if answer.error_code:
            raise self._unusual(answer, "the broker rejected the handshake")

    def _check_token(self, answer: Any) -> None:
        if answer.error_code == _AUTHENTICATION_FAILED:
            raise SaslAuthenticationFailedError(f"SASL {self._name}: {self._rejection(answer)}")
        if answer.error_code:
            raise self._unusual(answer, str(answer.error_message or _NO_REASON))

    def _unusual(self, answer: Any, reason: str) -> SaslAuthenticationFailedError:
        """Return the error for a code that no login has.

        Invariant: not the error of the code. It fails requests, whose managers would take it for
        the response to them: a member would end its membership, for example.
        """
        name = for_code(answer.error_code).__name__
        return SaslAuthenticationFailedError(f"SASL {self._name}: {reason} ({name})")

    def _check_salt(self) -> None:
        """Check the salt and the iterations of SCRAM's server-first-message (RFC 5802)."""
        try:
            # As kafka-python reads it: of two fields with a name, the last counts.
            parts = self._received.decode().split(",")
            fields = dict(part.split("=", 1) for part in parts)
            salt, digits = base64.b64decode(fields["s"], validate=True), fields["i"]
        except (ValueError, KeyError):
            salt, digits = b"", ""
        if not salt or not (digits.isascii() and digits.isdecimal()):
            raise SaslAuthenticationFailedError(
                f"SASL {self._name}: the broker has sent no salt and number of iterations, so no "
                "proof of the password was sent; check that bootstrap_servers name your brokers"
            )
        iterations = int(digits[:10])
        if iterations < _FEWEST_ITERATIONS:
            raise SaslAuthenticationFailedError(
                f"SASL {self._name}: the broker asks for {iterations} iterations, and at least "
                f"{_FEWEST_ITERATIONS} are safe, so no proof of the password was sent; check that "
                "bootstrap_servers name your brokers, and store the user's credentials again with "
                f"iterations={_FEWEST_ITERATIONS}"
            )
        self._inline = iterations <= _INLINE_ITERATIONS

    def _rejection(self, answer: Any) -> str:
        reason = str(answer.error_message or _NO_REASON)
        if not self._needs_token:
            user = self._user
            return reason if user is None else f"{reason}; check {_USER}={user!r} and its password"
        if isinstance(self._provider, OidcTokens):
            self._provider.discard()
        return (
            f"the broker rejected the token ({reason}); check that it has not expired, and that "
            "its issuer, audience and signature are those that the broker expects"
        )

    def _compute(self, work: Callable[[], bytes | None]) -> None:
        self._step = _Step.COMPUTING
        if not self._inline:
            self._blocking_calls.queue(work, self._finish_step)
            return
        try:
            result: bytes | BaseException | None = work()
        except Exception as error:  # noqa: BLE001 - a mechanism may raise anything
            result = error
        self._finish_step(result)

    def _use_token(self, token: Token | BaseException) -> None:
        if isinstance(token, BaseException):
            self._finish_step(token)
        else:
            self._secrets.add(Secret(token.token()))
            self._config[_PROVIDER] = token
            self._compute(self._first_token)

    def _first_token(self) -> bytes | None:
        self._mechanism = get_sasl_mechanism(self._name)(**self._config)
        return bytes(self._mechanism.auth_bytes())

    def _next_token(self) -> bytes | None:
        if self._needs_token and self._received:
            reason = Secret(self._received.decode("utf-8", "backslashreplace"))
            log.debug("the broker rejects the token: %s", self._secrets.readable(reason))
            # Invariant: kafka-python logs what it receives, which may be the token.
            self._received = b"{}"
        self._mechanism.receive(self._received)
        if not self._mechanism.is_done():
            return bytes(self._mechanism.auth_bytes())
        if not self._mechanism.is_authenticated():
            raise SaslAuthenticationFailedError(
                f"SASL {self._name}: the authentication ended without success"
            )
        return None

    def _finish_step(self, result: bytes | BaseException | None) -> None:
        if isinstance(result, SaslAuthenticationFailedError):
            self._error = result
        elif isinstance(result, BaseException):
            reason = self._secrets.readable(Secret(f"{type(result).__name__}: {result}"))
            self._error = SaslAuthenticationFailedError(f"SASL {self._name}: {reason}")
            self._error.__cause__ = result
        elif result is None:
            self._step = _Step.DONE
        else:
            self._token = result
            self._step = _Step.TOKEN


def _scram_name(user: str | None) -> str:
    """Return a user name for SCRAM, in which commas and equals signs are escaped (RFC 5802)."""
    return (user or "").replace("=", "=3D").replace(",", "=2C")


class Token(AbstractTokenProvider):
    """A token in the form that kafka-python's mechanism requires."""

    def __init__(self, token: str, extensions: Mapping[Any, Any]) -> None:
        super().__init__()
        self._token = token
        self._extensions = extensions

    def token(self) -> str:
        """Return the token."""
        return self._token

    def extensions(self) -> Mapping[Any, Any]:
        """Return the SASL extensions."""
        return self._extensions


def request_token(provider: Any) -> Token:
    """Call the provider, which may block.

    Raises:
        KafkaConfigurationError: The provider returned an invalid value.
    """
    token = provider.token()
    if not isinstance(token, str) or not token:
        found = "an empty one" if token == "" else type(token).__name__
        raise KafkaConfigurationError(
            f"sasl_oauth_token_provider: token() must return a non-empty str, but returned {found}"
        )
    ask = getattr(provider, "extensions", None)
    extensions = {} if ask is None else ask()
    if not isinstance(extensions, Mapping):
        raise KafkaConfigurationError(
            "sasl_oauth_token_provider: extensions() must return a mapping of str to str, "
            f"but returned {type(extensions).__name__}"
        )
    return Token(token, extensions)
