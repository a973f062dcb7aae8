"""The options of the page about connecting are accepted, in each of its programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trustme

from tandem_kafka.config import Config
from tests.docs.pages import blocks

PAGE = "docs/how-to/connect.md"
PROGRAMS = blocks(PAGE)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_the_options_of_a_program_are_accepted(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("client")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own.cert_chain_pems[0].write_to_path(tmp_path / "client.pem")
    own.private_key_pem.write_to_path(tmp_path / "client.key")
    monkeypatch.chdir(tmp_path)
    for name in ("KAFKA_KEY", "KAFKA_SECRET", "KAFKA_USER", "KAFKA_PASSWORD"):
        monkeypatch.setenv(name, "secret")
    for name in ("OAUTH_CLIENT", "OAUTH_SECRET"):
        monkeypatch.setenv(name, "secret")
    made: list[Config] = []

    def consumer(_topic: str, **options: Any) -> None:
        made.append(Config.from_options(options))

    namespace: dict[str, Any] = {}
    exec(PROGRAMS[number].code, namespace)  # noqa: S102 - that is what this module is for
    namespace["KafkaConsumer"] = consumer
    namespace["connect"]()
    (config,) = made
    assert config.security_protocol in {"SSL", "SASL_SSL"}
