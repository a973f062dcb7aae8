"""AWS_MSK_IAM through our client; the signature is that of AWS's own library."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from tests.unit.network.test_authentication import (
    Network,
    begin,
    handshake_response,
    token_of,
    token_response,
)

auth = pytest.importorskip("botocore.auth", reason="botocore is not installed")

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize("token", [None, "a+session/token="])
def test_the_signature_is_that_of_botocore(
    monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    given = {"ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "DEFAULT_REGION": "eu-west-1"}
    for name, value in {**given, "SESSION_TOKEN": token}.items():
        if value is None:
            monkeypatch.delenv(f"AWS_{name}", raising=False)
        else:
            monkeypatch.setenv(f"AWS_{name}", value)
    network = Network(security_protocol="SASL_SSL", sasl_mechanism="AWS_MSK_IAM")
    network.request()
    network.respond(begin(network), handshake_response("AWS_MSK_IAM"))
    network.driver.run()
    network.iterate()
    (sent,) = network.transport.take_sent()
    login = json.loads(token_of(sent))
    signed = dt.datetime.strptime(login["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)

    class Signer(auth.SigV4QueryAuth):  # type: ignore[misc,name-defined]
        def payload(self, _: object) -> str:
            return str(auth.EMPTY_SHA256_HASH)

    monkeypatch.setattr(auth, "get_current_datetime", lambda *_, **__: signed.replace(tzinfo=None))
    request = AWSRequest("GET", f"kafka://{login['host']}/", params={"Action": login["action"]})
    signer = Signer(Credentials(KEY, SECRET, token), "kafka-cluster", "eu-west-1", expires=900)
    signer.add_auth(request)
    assert f"X-Amz-Signature={login['x-amz-signature']}" in request.url
    assert login.get("x-amz-security-token") == token
    network.respond(sent, token_response())
    network.driver.run()
    network.iterate()
