"""Downloads jars and what they depend on from a Maven repository, without Maven (with jgo)."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import ParseError

if TYPE_CHECKING:
    from jgo.maven import Artifact

__all__ = ["DownloadError", "Jars", "download"]

#: The address of another repository than Maven's own.
REPOSITORY: Final = "TANDEM_KAFKA_MAVEN_REPOSITORY"

#: Of dependencies that a program needs to run; None for what is named.
_SCOPES: Final = (None, "compile", "runtime")
_AT_ONCE = 8
_TIMEOUT_S = 30
#: A connection that breaks off is not yet a reason to give up.
_TRIES = 2


class DownloadError(RuntimeError):
    """Jars could not be downloaded."""


@dataclass(frozen=True, slots=True)
class Jars:
    """What to download.

    Attributes:
        name: The name of all together, for messages.
        coordinates: Artifacts, each as `group:artifact:version`, with all that they depend on.
        alone: Artifacts without what they depend on, unless they are among those.
    """

    name: str
    coordinates: Sequence[str] = ()
    alone: Sequence[str] = ()


def download(jars: Jars, into: Path) -> None:
    """Download jars into an existing folder.

    Raises:
        DownloadError: There is no network, or no such version.
    """
    if find_spec("jgo") is None:
        raise DownloadError(
            f"{jars.name} is downloaded with jgo: pip install 'tandem-kafka[kafka]'"
        )
    for left in reversed(range(_TRIES)):
        try:
            _download(jars, into)
        # Those of requests are OSErrors too. A network that asks for a login answers with HTML.
        except (OSError, ParseError) as error:
            if not left:
                raise DownloadError(
                    f"{jars.name} cannot be downloaded: {error}. Connect to the network once; then "
                    f"it is in a cache. {REPOSITORY} is the address of another Maven repository"
                ) from error
        except RuntimeError as error:
            raise DownloadError(
                f"{jars.name} cannot be downloaded: {error}. Choose a version that is there, "
                f"or another repository ({REPOSITORY})"
            ) from error
        else:
            return


def _download(jars: Jars, into: Path) -> None:
    # jgo trusts a file that exists, even one that broke off: each try begins with an empty folder.
    with tempfile.TemporaryDirectory(dir=into, prefix="repository-") as repository:
        _say(f"downloading {jars.name} ...")
        artifacts = _artifacts(jars, Path(repository))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            running = [pool.submit(_fetch, artifact, into) for artifact in artifacts]
            try:
                for done, each in enumerate(as_completed(running), 1):
                    each.result()
                    _say(f"downloading {jars.name}: {done} of {len(running)} jars", passing=True)
            finally:
                for each in running:
                    each.cancel()
        _say(f"downloaded {jars.name}: {len(running)} jars")


def _artifacts(jars: Jars, repository: Path) -> list[Artifact]:
    from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415 - an extra

    class Resolver(PythonResolver):
        def download(self, artifact: Artifact) -> Path:
            return _from_repository(artifact)

    chosen = os.environ.get(REPOSITORY)
    context = MavenContext(
        Resolver(),
        repo_cache=repository,
        local_repos=[],
        remote_repos={"chosen": chosen.rstrip("/")} if chosen else None,
        timeout=_TIMEOUT_S,
    )
    named = [context.create_dependency(each) for each in jars.coordinates]
    # Together with `alone`, their own choice of versions would overrule that of `coordinates`.
    further = context.resolver.resolve(named)[1] if named else []
    found = [each.artifact for each in (*named, *further) if each.scope in _SCOPES]
    there = {each.artifactId for each in found}
    alone = [context.create_dependency(each).artifact for each in jars.alone]
    return [*found, *(each for each in alone if each.artifactId not in there)]


def _from_repository(artifact: Artifact) -> Path:
    """Download a file completely, and compare it with the repository's checksum.

    jgo leaves the socket open on which a repository lacks a file, and only logs a wrong checksum.

    Raises:
        RuntimeError: No repository has it.
        OSError: A repository does not answer, or not completely, or sends something else.
    """
    from jgo.util import http  # noqa: PLC0415 - an extra

    path = f"{artifact.component.path_prefix.as_posix()}/{artifact.filename}"
    repositories = artifact.context.remote_repos.values()
    for repository in repositories:
        response = http.get(f"{repository}/{path}", timeout=_TIMEOUT_S)
        if response.ok:
            checksum = http.get(f"{repository}/{path}.sha1", timeout=_TIMEOUT_S)
            # Some have the name of the file behind it.
            if not checksum.ok or checksum.text.split()[:1] != [_sha1(response.content)]:
                raise OSError(f"{artifact.filename} has no checksum, or another one")
            file: Path = artifact.cached_path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(response.content)
            return file
    raise RuntimeError(f"{path} is not in {', '.join(repositories)}")


def _sha1(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def _fetch(artifact: Artifact, into: Path) -> None:
    file = artifact.resolve()
    if not zipfile.is_zipfile(file):
        raise OSError(f"{file.name} is not a jar")
    try:  # what is kept here is kept for years
        with zipfile.ZipFile(file) as jar:
            damaged = jar.testzip()
    except (zipfile.BadZipFile, zlib.error) as error:
        raise OSError(f"{file.name} is damaged: {error}") from error
    if damaged is not None:
        raise OSError(f"{file.name} is damaged: {damaged}")
    file.rename(into / file.name)


def _say(text: str, *, passing: bool = False) -> None:
    """Print a line; one that is `passing` only on a terminal, where the next one replaces it."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="" if passing else "\n", file=sys.stderr, flush=True)
    elif not passing:
        print(text, file=sys.stderr, flush=True)
