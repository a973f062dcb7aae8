"""Reads files with settings: named clusters in TOML, and properties of other clients."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tandem_kafka.errors import KafkaConfigurationError
from tandem_kafka_cli.settings.names import Property

#: A key in a file of clusters that names a file of properties, relative to the file.
_PROPERTIES: Final = "properties"
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SEPARATOR: Final = re.compile(r"(?<!\\)(?:\s*[=:]\s*|\s+)")


def default_file(environment: Mapping[str, str]) -> Path:
    """Return the file that is read if it exists and no other is given."""
    folder = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "~"), ".config")
    return Path(folder, "tandem-kafka.toml").expanduser()


def read_file(path: Path, cluster: str | None) -> list[Property]:
    """Return the settings of a cluster in a TOML file, or of a file of properties.

    Args:
        path: A name that ends with `.toml`, or the file of another client.
        cluster: The name of a cluster; None takes the file's default, if it has one.

    Raises:
        KafkaConfigurationError: The file cannot be parsed, or it has no such cluster.
        OSError: The file cannot be read.
    """
    if path.suffix == ".toml":
        return list(_of_cluster(path, cluster))
    if cluster is not None:
        raise KafkaConfigurationError(
            f"--cluster={cluster}: {path} has no named clusters; give a .toml file with --config"
        )
    return list(_properties(path))


def cluster_names(path: Path) -> list[str]:
    """Return the names of the clusters in a TOML file; empty if it cannot be read."""
    try:
        return sorted(_tables(path)[1])
    except (OSError, KafkaConfigurationError):
        return []


def _tables(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the content of a TOML file, and its clusters by name."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KafkaConfigurationError(f"{path}: {error}") from None
    clusters = content.get("clusters", {})
    if not isinstance(clusters, dict) or not all(isinstance(x, dict) for x in clusters.values()):
        raise KafkaConfigurationError(f"{path}: write a table [clusters.NAME] for each cluster")
    return content, clusters


def _of_cluster(path: Path, cluster: str | None) -> Iterator[Property]:
    content, clusters = _tables(path)
    unknown = content.keys() - {"clusters", "default"}
    if unknown:
        raise KafkaConfigurationError(
            f"{path}: unknown key {min(unknown)!r}; allowed are default and [clusters.NAME]"
        )
    name = cluster if cluster is not None else content.get("default")
    if name is None:
        return
    if name not in clusters:
        known = ", ".join(sorted(clusters)) or "none"
        raise KafkaConfigurationError(f"{path} has no cluster {name!r}; it has: {known}")
    origin = f"{path} [clusters.{name}]"
    for key, value in _flattened(clusters[name], ""):
        if key == _PROPERTIES:
            yield from _properties(path.parent / Path(str(value)).expanduser())
    for key, value in _flattened(clusters[name], ""):
        if key != _PROPERTIES:
            yield Property(key, _text(value), origin)


def _flattened(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield keys with dots: TOML reads `bootstrap.servers = ...` as a table in a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _properties(path: Path) -> Iterator[Property]:
    """Parse properties of Java, or of librdkafka and kcat, which have no escapes."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".properties":
        for number, line in _logical_lines(text):
            key, *rest = _SEPARATOR.split(line, maxsplit=1)
            value = _unescaped(rest[0]) if rest else ""
            yield Property(_unescaped(key), value, f"{path}:{number}", lenient=True)
        return
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        if not equals:
            raise KafkaConfigurationError(f"{path}:{number}: write key=value")
        yield Property(key.strip(), value.strip(), f"{path}:{number}", lenient=True)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; a line that ends with a backslash continues in the next."""
    first, begun = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.lstrip()
        if not begun and (not stripped or stripped[0] in "#!"):
            continue
        first = first if begun else number
        begun += stripped
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield first, begun.rstrip()
        begun = ""
    if begun:
        yield first, begun.rstrip()


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return _ESCAPED.get(escape, escape)

    return _ESCAPE.sub(character, text)
