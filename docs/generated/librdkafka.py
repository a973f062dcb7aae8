"""The properties of librdkafka, for people who come from confluent-kafka."""

from __future__ import annotations

import textwrap

from tandem_kafka.config.librdkafka import IGNORED, OWN_DEFAULTS, PROPERTIES, REJECTED

__all__ = ["properties"]


def properties() -> str:
    """Return the defaults, and what each property does."""
    own = ", ".join(f"`{option}={value!r}`" for option, value in OWN_DEFAULTS.items())
    defaults = f"So these options differ from the defaults of `KafkaConsumer`: {own}."
    options = [
        f"| `{name}` | {'of the facade itself' if known.option is None else f'`{known.option}`'} |"
        for name, known in sorted(PROPERTIES.items())
    ]
    parts = [
        f"The defaults are librdkafka's, except those above. {defaults}",
        "\n".join(["| property | option of `KafkaConsumer` |", "|---|---|", *options]),
        "These properties raise an error, because ignoring them would change the program:",
        "\n".join(f"- `{name}`: {advice}" for name, advice in REJECTED.items()),
        "These properties are accepted without effect, with a warning:",
        "```text\n" + textwrap.fill(", ".join(sorted(IGNORED)), 98) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"
