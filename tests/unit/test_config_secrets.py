"""Options with secrets in them: they are used and never shown; providers of tokens."""

from __future__ import annotations

import copy
import traceback
from functools import partial

import pytest
from kafka import KafkaConsumer
from kafka.net.sasl.oauth import AbstractTokenProvider

import tandem_kafka
from tandem_kafka import AsyncKafkaConsumer, AsyncShareConsumer, ShareConsumer, confluent, read
from tandem_kafka.config import Config, default_config
from tandem_kafka.errors import KafkaConfigurationError
from tandem_kafka.observability import (
    TracedAsyncKafkaConsumer,
    TracedAsyncShareConsumer,
    TracedKafkaConsumer,
    TracedShareConsumer,
)
from tandem_kafka.tables import scan

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


ENDPOINT = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": "https://host/token",
    "sasl_oauthbearer_client_id": "reader",
    "sasl_oauthbearer_client_secret": WORD,
}


#: What takes options of a consumer.
TAKES_OPTIONS = {
    **{
        each.__name__: each
        for each in (
            *(tandem_kafka.KafkaConsumer, AsyncKafkaConsumer, ShareConsumer, AsyncShareConsumer),
            *(TracedKafkaConsumer, TracedAsyncKafkaConsumer),
            *(TracedShareConsumer, TracedAsyncShareConsumer),
        )
    },
    "read": partial(read, "orders"),
    "scan": partial(scan, "orders"),
    "confluent.Consumer": lambda **options: confluent.Consumer(
        {"group.id": "g", **{name.replace("_", "."): each for name, each in options.items()}}
    ),
}
WRONG = {
    "a number": {"fetch_max_bytes": -5},
    "the protocol": {"security_protocol": "NONE"},
    "a misspelled name": {"sasl_plain_passwrd": WORD},
    "a secret of the wrong type": {"sasl_plain_password": [WORD]},
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("takes", TAKES_OPTIONS)
def test_no_frame_of_ours_shows_a_secret_when_an_option_is_wrong(takes, wrong):
    options = {**SECRETIVE, **WRONG[wrong]}
    with pytest.raises(Exception, match=r"\w") as caught:
        TAKES_OPTIONS[takes](**options)
    error, frames = caught.value, 0
    while error is not None:
        trace = traceback.TracebackException.from_exception(error, capture_locals=True)
        assert WORD not in "".join(trace.format_exception_only())
        for frame in trace.stack:
            if "/tandem_kafka/" in frame.filename:
                frames += 1
                assert WORD not in "\n".join((frame.locals or {}).values()), frame
        error = error.__cause__ or error.__context__
    assert frames


@pytest.mark.parametrize("takes", [name for name in TAKES_OPTIONS if name.endswith("Consumer")])
def test_a_consumer_whose_constructor_raised_can_be_shown(takes):
    wrong = {"sasl.passwrd": 1} if takes.startswith("confluent") else {"sasl_passwrd": 1}
    with pytest.raises(Exception, match="passwrd") as caught:
        TAKES_OPTIONS[takes](**wrong)
    trace = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    shown = [frame.locals["self"] for frame in trace.stack if "self" in (frame.locals or {})]
    assert shown
    assert not [each for each in shown if "failed" in each]


def test_secrets_are_masked_but_used():
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
        {"security_protocol": "SASL_SSL", "sasl_plain_password": [WORD]},
        {"security_protocol": "SASL_SSL", "ssl_password": 5.5, "sasl_plain_password": WORD},
        {"sasl_jaas_config": JAAS},
        {"security_protocol": "SASL_SSL", "sasl_mechanism": JAAS},
        {"client_id": 5.5, "sasl_plain_username": JAAS},
        {"security_protocol": [JAAS]},
        {"bootstrap_servers": f"http://alice:{WORD}@host:9092"},
        {"bootstrap_servers": f"kafka://alice:{WORD}@host:9092"},
        {"bootstrap_servers": f"http://alice:a/{WORD}@host:9092"},
        {"security_protocol": "SSL", "ssl_keyfile": f"-----BEGIN PRIVATE KEY-----\n{WORD}"},
        {"group_protocol": "classic", "group_remote_assignor": JAAS},
        {"security_protocol": "SASL_SSL", "sasl_oauth_token_provider": {"token": WORD}},
        {"proxy_url": f"https://alice:{WORD}@host:1"},
        {**ENDPOINT, "sasl_oauthbearer_client_id": None},
        {**ENDPOINT, "sasl_oauthbearer_client_secret": [WORD]},
        {**ENDPOINT, "sasl_oauthbearer_token_endpoint_url": f"https://alice:{WORD}@host/"},
        {"proxy_url": f"socks5://alice:{WORD}/x@host:1"},
        {**SECRETIVE, "sasl_mechanism": None},
        {"bootstrap_servers": [{"sasl.password": WORD}]},
        {"group_id": {"bootstrap.servers": "host", "sasl.password": WORD}},
        {"group_id": {f"password={WORD}"}},
        {"client_id": {"Authorization": f"Bearer {WORD}"}},
    ],
    ids=lambda options: list(options)[-1],
)
def test_no_error_shows_a_secret(options):
    with pytest.raises(KafkaConfigurationError) as caught:
        make(options)
    assert WORD not in str(caught.value)
    assert WORD not in repr(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {**SECRETIVE, "security_protocol": "PLAINTEXT"},
        {**SECRETIVE, "ssl_certfile": None},
    ],
)
def test_no_warning_shows_a_secret(options, caplog):
    make(options)
    assert caplog.messages
    assert WORD not in caplog.text


def test_the_options_by_name_are_a_copy():
    options = make({"client_id": "reader", "ssl_password": WORD}).by_name()
    assert isinstance(options, dict)
    assert options["client_id"] == "reader"
    for other in (options.copy(), copy.copy(options), copy.deepcopy(options)):
        assert other == options
        assert WORD not in repr(other)
    config = make({"client_id": "reader"})
    config.by_name()["client_id"] = "other"
    assert config.client_id == "reader"
    assert config.by_name()["client_id"] == "reader"


def test_the_options_by_name_are_those_of_kafka_python():
    shown = default_config()
    theirs = KafkaConsumer.DEFAULT_CONFIG
    assert set(theirs) < set(shown)
    differing = {name for name in theirs if shown[name] != theirs[name]}
    assert differing == {"client_id", "max_partition_fetch_bytes", "reconnect_backoff_max_ms"}
    shown["socket_options"].clear()
    assert theirs["socket_options"]


@pytest.mark.parametrize(
    ("name", "given", "shown"),
    [
        ("bootstrap_servers", "PLAINTEXT://h:1", "PLAINTEXT://h:1"),
        ("bootstrap_servers", ["h:1"], ["h:1"]),
        ("bootstrap_servers", (name for name in ("h:1", "h:2")), ("h:1", "h:2")),
        ("isolation_level", 1, 1),
        ("client_id", 7, 7),
        ("fetch_max_wait_ms", 0.5, 0.5),
        ("enable_auto_commit", True, True),
        ("auto_offset_reset", "Earliest", "Earliest"),
        ("sasl_plain_username", 5, 5),
        ("receive_message_max_bytes", 5, 52_428_800 + 4_194_304),
    ],
)
def test_values_are_shown_in_their_original_form(name, given, shown):
    assert make({name: given}).by_name()[name] == shown


def test_old_names_are_shown_as_current_names():
    with pytest.warns(DeprecationWarning, match="old name|is deprecated"):
        shown = make({"auto_offset_reset": "largest", "api_version_auto_timeout_ms": 5}).by_name()
    assert shown["auto_offset_reset"] == "latest"
    assert shown["bootstrap_timeout_ms"] == 5


# --- token providers ---------------------------------------------------------------------------


class OfCoroutines:
    async def token(self): ...


class OfTopics:
    def token(self, topic): ...


class WithoutExtensions(Provider):
    extensions = "a=b"


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("a token", r"must be an object with token\(\), or None"),
        (lambda: "a token", r"must be an object with token\(\), or None"),
        (Provider, r"must be an instance: write Provider\(\)"),
        (OfCoroutines(), r"token\(\) must not be a coroutine function"),
        (OfTopics(), r"token\(\) must be callable without arguments"),
        (WithoutExtensions(), "extensions must be callable"),
    ],
)
def test_an_unusable_token_provider_is_rejected(provider, message):
    with pytest.raises(KafkaConfigurationError, match=f"sasl_oauth_token_provider=.*: {message}"):
        make({"security_protocol": "SASL_SSL", "sasl_oauth_token_provider": provider})


class OfKafkaPython(AbstractTokenProvider):
    token = Provider.token


@pytest.mark.parametrize("provider", [Provider(), OfKafkaPython()])
def test_a_token_provider_needs_no_base_class_of_kafka_python(provider):
    config = make(
        {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": provider,
        }
    )
    assert config.sasl_oauth_token_provider is provider


# --- token endpoints ---------------------------------------------------------------------------

BEARER = {
    **ENDPOINT,
    "sasl_oauthbearer_client_id": None,
    "sasl_oauthbearer_client_secret": None,
    "sasl_oauthbearer_grant_type": "jwt-bearer",
}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {**ENDPOINT, "sasl_oauthbearer_token_endpoint_url": None},
            "_provider or sasl_oauthbearer_t",
        ),
        ({**ENDPOINT, "sasl_oauth_token_provider": Provider()}, "set only one of them"),
        ({**ENDPOINT, "sasl_oauthbearer_client_id": None}, "needs sasl_oauthbearer_client_id"),
        (
            {**ENDPOINT, "sasl_oauthbearer_token_endpoint_url": "http://host/"},
            "begin with https://",
        ),
        ({**ENDPOINT, "sasl_oauthbearer_token_endpoint_url": "host"}, "must be an https:// URL"),
        ({**ENDPOINT, "sasl_oauthbearer_grant_type": "password"}, "must be 'client_credentials'"),
        ({**ENDPOINT, "sasl_oauthbearer_extensions": "auth=x"}, "letters only and is not 'auth'"),
        ({**ENDPOINT, "sasl_oauthbearer_extensions": {"a": 1}}, "must be a mapping of str to str"),
        (BEARER, "needs sasl_oauthbearer_assertion_file or"),
        ({**BEARER, "sasl_oauthbearer_assertion_private_key_file": "k"}, "claim_iss, sasl_oauth"),
    ],
)
def test_an_unusable_token_endpoint_is_rejected(options, message):
    with pytest.raises(KafkaConfigurationError, match=message):
        make(options)


def test_options_of_the_token_endpoint_are_parsed():
    local = {"sasl_oauthbearer_token_endpoint_url": "http://localhost:1/token"}
    config = make({**ENDPOINT, **local, "sasl_oauthbearer_extensions": "a=b, c=d=e"})
    assert config.sasl_oauthbearer_extensions == {"a": "b", "c": "d=e"}
    assert WORD not in repr(config)
    config = make({**BEARER, "sasl_oauthbearer_assertion_file": "jwt"})
    assert config.sasl_oauthbearer_grant_type == "urn:ietf:params:oauth:grant-type:jwt-bearer"
