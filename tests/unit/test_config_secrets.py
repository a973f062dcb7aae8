"""Options with secrets in them: they are used and never shown; providers of tokens."""

from __future__ import annotations

import pytest
from kafka.net.sasl.oauth import AbstractTokenProvider

from tandem_kafka.config import Config
from tandem_kafka.errors import KafkaConfigurationError

make = Config.from_options

WORD = "open sesame"
JAAS = f'org.apache.kafka.PlainLoginModule required username="u" password="{WORD}";'


class Provider:
    def token(self):
        return WORD

    def __repr__(self):
        return f"<provider of {WORD}>"


SECRETIVE = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": WORD,
    "sasl_oauth_token_provider": Provider(),
    "ssl_certfile": "client.pem",
    "ssl_password": WORD,
}


def test_secrets_are_not_shown_but_given():
    config = make(SECRETIVE)
    for shown in (repr(config), str(config), repr(config.by_name()), f"{config.by_name()}"):
        assert WORD not in shown
        assert "alice" in shown
    assert "'sasl_plain_password': <hidden>" in repr(config.by_name())
    assert "'sasl_plain_password': None" in repr(make({}).by_name())
    assert config.by_name()["sasl_plain_password"] == WORD
    assert dict(config.by_name())["ssl_password"] == WORD


@pytest.mark.parametrize(
    "options",
    [
        {"sasl_plain_password": [WORD]},
        {"ssl_password": 5.5, "sasl_plain_password": WORD},
        {"sasl_jaas_config": JAAS},
        {"sasl_mechanism": JAAS},
        {"client_id": 5, "sasl_plain_username": JAAS},
        {"security_protocol": [JAAS]},
        {"bootstrap_servers": f"SASL_SSL://alice:{WORD}@host:9092"},
        {"group_protocol": "classic", "group_remote_assignor": JAAS},
        {"sasl_oauth_token_provider": {"token": WORD}},
        {**SECRETIVE, "security_protocol": "PLAINTEXT"},
        {**SECRETIVE, "sasl_mechanism": None},
        {**SECRETIVE, "ssl_certfile": None},
    ],
    ids=lambda options: next(iter(options)),
)
def test_no_error_shows_a_secret(options):
    with pytest.raises(KafkaConfigurationError) as caught:
        make(options)
    assert WORD not in str(caught.value)
    assert WORD not in repr(caught.value)


def test_the_options_by_name_are_a_mapping():
    options = make({"client_id": "reader"}).by_name()
    assert options["client_id"] == "reader"
    assert len(options) == len(list(options)) == len(dict(options))
    assert options == dict(options) == options.copy()
    assert (options | {"client_id": "other"})["client_id"] == "other"
    with pytest.raises(TypeError):
        options["client_id"] = "other"
    with pytest.raises(KeyError):
        options["no_such_option"]


# --- token providers ---------------------------------------------------------------------------


class OfCoroutines:
    async def token(self): ...


class OfTopics:
    def token(self, topic): ...


class WithoutExtensions(Provider):
    extensions = "a=b"


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ("a token", r"must be an object with token\(\), or None"),
        (lambda: "a token", r"must be an object with token\(\), or None"),
        (Provider, r"must be an instance: write Provider\(\)"),
        (OfCoroutines(), r"token\(\) must not be a coroutine function"),
        (OfTopics(), r"token\(\) is called without arguments"),
        (WithoutExtensions(), "extensions must be a method"),
    ],
)
def test_a_token_provider_that_could_never_work_is_refused(provider, said):
    with pytest.raises(KafkaConfigurationError, match=f"sasl_oauth_token_provider=.*: {said}"):
        make({"sasl_oauth_token_provider": provider})


class OfKafkaPython(AbstractTokenProvider):
    token = Provider.token


@pytest.mark.parametrize("provider", [Provider(), OfKafkaPython()])
def test_a_token_provider_need_not_be_kafka_pythons(provider):
    config = make(
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": provider,
        }
    )
    assert config.sasl_oauth_token_provider is provider
