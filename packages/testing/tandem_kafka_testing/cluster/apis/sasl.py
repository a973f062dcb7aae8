"""SaslHandshake and SaslAuthenticate: the login of a connection."""

from __future__ import annotations

from typing import Any, Final

from kafka import errors

from tandem_kafka.wire.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tandem_kafka_testing.cluster.apis.api import Api, error_code, error_text
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.logins import MECHANISMS, login_with

#: The default of `connection.failed.authentication.delay.ms`, after which a broker hangs up.
_HANG_UP_MS: Final = 100


def _hang_up(call: Call) -> None:
    """Close the connection once the response has arrived: its client cannot log in."""
    cluster, connection = call.cluster, call.connection

    def close() -> None:
        if connection.open:
            call.broker.hang_up(connection)

    cluster.network.at(cluster.clock.now_ms() + _HANG_UP_MS, close)


def _shake_hands(call: Call) -> Any:
    cluster = call.cluster
    nonce = f"{cluster.random.getrandbits(96):x}" if cluster.users else ""
    login = login_with(call.request.mechanism, cluster.users, nonce) if cluster.users else None
    error = None
    if not cluster.users or _is_logged_in(call):
        error = errors.IllegalSaslStateError  # a listener without logins, or a second login
    elif login is None:
        error = errors.UnsupportedSaslMechanismError
    else:
        call.broker.logins[call.connection.number] = login
    if error is not None:
        _hang_up(call)
    return SaslHandshakeResponse(
        error_code=error_code(error), mechanisms=list(MECHANISMS) if cluster.users else []
    )


def _is_logged_in(call: Call) -> bool:
    login = call.broker.logins.get(call.connection.number)
    return login is not None and login.user is not None


def _authenticate(call: Call) -> Any:
    login = call.broker.logins.get(call.connection.number)
    answer, code, message = b"", 0, None
    if login is None or login.user is not None:
        code = error_code(errors.IllegalSaslStateError)
    else:
        try:
            answer = login.receive(call.request.auth_bytes)
        except errors.SaslAuthenticationFailedError as error:
            del call.broker.logins[call.connection.number]
            code, message = error_code(error), error_text(error)
    if code:
        _hang_up(call)
    return SaslAuthenticateResponse(
        error_code=code, error_message=message, auth_bytes=answer, session_lifetime_ms=0
    )


APIS = (
    Api(SaslHandshakeRequest, (0, 1), _shake_hands),
    Api(SaslAuthenticateRequest, (0, 2), _authenticate),
)
