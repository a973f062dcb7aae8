"""The final options of a consumer: parsed, completed and checked together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Final

from tandem_kafka.config.names import current_names, without_use
from tandem_kafka.config.offset_reset import OffsetReset, parse_offset_reset
from tandem_kafka.config.option import option_of, parse_option
from tandem_kafka.config.options import PASSWORD_MECHANISMS, Options
from tandem_kafka.config.rules import check_rules, settle_defaults
from tandem_kafka.config.shown import ShownOptions, show
from tandem_kafka.logs import ClientNames, LinesOf


class Config(Options):
    """The final options of one consumer; `from_options` makes and checks them."""

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Config:
        """Check the given options and determine the others.

        Raises:
            KafkaConfigurationError: An option is unknown or not supported, or its value is not
                allowed; the text names it.
            InvalidGroupIdError: `group_id` is blank.
        """
        given = (options.get(name) for name in ("client_id", "group_id"))
        with LinesOf(ClientNames(*(each if isinstance(each, str) else None for each in given))):
            return cls._checked(options)

    @classmethod
    def _checked(cls, options: Mapping[str, object]) -> Config:
        specs = {spec.name: spec for spec in dataclasses.fields(cls)}
        default = cls()
        named = sealed(current_names(options, specs.keys()))
        for name in named:
            if isinstance(named[name], Iterator):
                named[name] = tuple(named[name])
        protocol = parse_option(
            specs["security_protocol"], named if "security_protocol" in named else vars(default)
        )
        unused = without_use(named, str(protocol), vars(default))
        kept = sealed(
            {name: parse_option(specs[name], named) for name in named if name not in unused}
        )
        # A default counts as not given: the user may have unpacked DEFAULT_CONFIG.
        given = {name for name, value in kept.items() if value != getattr(default, name)}
        config = dataclasses.replace(default, **kept)
        config = dataclasses.replace(config, **settle_defaults(config, given))
        object.__setattr__(config, "named", named)
        check_rules(config, given)
        return config

    def with_client_id(self, client_id: str) -> Config:
        """Return the same options with a generated name, which the user has not given."""
        config = dataclasses.replace(self, client_id=client_id)
        object.__setattr__(config, "named", self.named)
        return config

    @property
    def shares(self) -> bool:
        """Whether these are the options of a share consumer."""
        return str(self.group_protocol) == "share"

    @property
    def login_name(self) -> str | None:
        """The name with which the client logs in; None if brokers find it in another way."""
        if not self.security_protocol.startswith("SASL_"):
            return None
        return self.sasl_plain_username if self.sasl_mechanism in PASSWORD_MECHANISMS else None

    @cached_property
    def offset_reset(self) -> OffsetReset:
        """The parsed `auto_offset_reset`."""
        return parse_offset_reset(self.auto_offset_reset)

    def __repr__(self) -> str:
        """Show the options that differ from the defaults, without secrets."""
        return f"Config({', '.join(self.changed())})"

    def changed(self) -> list[str]:
        """Return the options that differ from the defaults as text, without secrets."""
        default = Config()
        values = ((spec, getattr(self, spec.name)) for spec in dataclasses.fields(self))
        return [
            f"{spec.name}={show(value, secret=option_of(spec).secret)}"
            for spec, value in values
            if value != getattr(default, spec.name)
        ]

    def by_name(self) -> ShownOptions:
        """Return the options by name, in the form in which the user gave them."""
        settled = {spec.name: getattr(self, spec.name) for spec in dataclasses.fields(self)}
        return sealed(in_kafka_python_form(settled, self.named))


_SHOWN: Final = frozenset(
    spec.name for spec in dataclasses.fields(Config) if not option_of(spec).secret
)


def sealed(options: Mapping[str, Any]) -> ShownOptions:
    """Return options that `repr()` shows without secrets.

    Invariant: a function that takes options begins with this, and keeps no value in another local
    variable: tools that collect errors show those.
    """
    return ShownOptions(options, _SHOWN)


def default_config() -> dict[str, Any]:
    """Return the options of a consumer without any given option."""
    return dict(Config(enable_auto_commit=True).by_name())


#: Options that are kept in a different form from kafka-python's default.
_FORMS: Final = (
    "bootstrap_servers",
    "consumer_timeout_ms",
    "default_offset_commit_callback",
    "enable_auto_commit",
    "kafka_client",
    "metric_reporters",
    "selector",
    "socket_options",
)
#: Options for which kafka-python shows the final value, not the given one.
_SETTLED: Final = ("receive_message_max_bytes",)


def in_kafka_python_form(settled: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Combine the given options, the defaults, and the final values of our own options.

    Args:
        settled: Every option with its final value.
        named: The options as the user gave them.
    """
    theirs = _theirs()
    shown = {**settled, **{name: _own(theirs[name]) for name in _FORMS}}
    shown.update({name: named[name] for name in named if name in theirs and name not in _SETTLED})
    reset = shown["auto_offset_reset"]
    if isinstance(reset, str) and reset in {"smallest", "largest"}:
        shown["auto_offset_reset"] = settled["auto_offset_reset"]
    return shown


@cache
def _theirs() -> dict[str, Any]:
    """Return kafka-python's defaults.

    Invariant: called for the first time before `install()` replaces its class.
    """
    defaults: dict[str, Any] = import_module("kafka.consumer.group").KafkaConsumer.DEFAULT_CONFIG
    return defaults


def _own(value: Any) -> Any:
    """Copy lists, so that a consumer's config cannot change kafka-python's defaults."""
    return list(value) if isinstance(value, list) else value
