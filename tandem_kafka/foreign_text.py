"""Texts from outside, for log lines and errors: no secrets, no control characters, not long.

A broker, proxy, token endpoint or registry may send anything, and repeat what it was sent. What
people read of it passes through here. Values, such as member ids, stay as they are.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Generic, TypeVar
from unicodedata import category
from urllib.parse import quote, quote_plus

__all__ = ["LOGIN", "SentSecrets", "visible"]

#: The user and password in an address. The password may have slashes.
LOGIN: Final = re.compile(r"//(\S*)@")

#: Characters of a text that a peer has written for people.
_LONGEST: Final = 300
#: Characters of a word in a line, such as a member id.
_LONG_WORD: Final = re.compile(r"(\S{500})\S+")
#: Categories of characters without a shape of their own: control and format characters such as
#: U+202E, halves of surrogate pairs, separators of lines and paragraphs.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Tokens are renewed; an older one may come back.
_MOST_SECRETS: Final = 8
#: A shorter part of a text in base64 is also a part of other words.
_SHORTEST_PART: Final = 4
#: A word in base64 or hexadecimal digits, also in a longer text.
_ENCODED: Final = re.compile(r"[\w+/=-]{4,}", re.ASCII)
#: What a text with a quoted character has.
_QUOTES: Final = re.compile(r"[%\\&'\"+\n\r\t]|  ")
#: A character, in any way to quote it: of URLs, programs, markup, shells and SQL, also twice.
_CHARACTER: Final = re.compile(
    r"(?:%(?:25)*|\\+x)(?P<byte>[0-9a-f]{2})"
    r"|\\+u(?P<unit>[0-9a-f]{4})"
    r"|&(?:amp;)*(?:#0*(?P<number>\d{1,6})|#x0*(?P<digits>[0-9a-f]{1,5})|(?P<name>[a-z]{2,4}));"
    r"|(?P<itself>.)",
    re.IGNORECASE | re.DOTALL,
)
#: What is doubled, or folded, in some texts.
_REPEATED: Final = frozenset({b" ", b"'", b'"'})
_NAMED: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
#: In more characters of a text, quoted ones are not looked for.
_LONG_TEXT: Final = 1 << 16
#: A secret that may be a word of our own lines. If it were masked there, they would tell it.
_WORD: Final = re.compile(r".{0,7}|[a-z._-]*", re.DOTALL)


def visible(text: str, keep: str = "\t") -> str:
    r"""Return text without effect on a terminal: what has no shape is `\xNN` or `\uNNNN`.

    The characters of `keep` stay.
    """
    return text if text.isprintable() else replaced(text, _escape, keep)


def replaced(text: str, escape: Callable[[str], str], keep: str = "") -> str:
    """Return text in which `escape` has replaced what has no shape, other than `keep`."""
    return "".join(
        escape(each) if category(each) in _UNSEEN and each not in keep else each for each in text
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


class SentSecrets:
    """Secrets that were sent to peers, in every form in which they may come back.

    One thread at a time adds; any thread may ask for texts.
    """

    __slots__ = ("_distinct", "_every", "_secrets")

    def __init__(self, *secrets: Secret[str]) -> None:
        self._secrets: Secret[tuple[str, ...]] = Secret(())
        #: All of them, for texts of a peer.
        self._every = _Forms(self._secrets)
        #: Those that are no words, for lines that have our words beside those of a peer.
        self._distinct = _Forms(self._secrets)
        for each in secrets:
            self.add(each)

    def add(self, secret: Secret[str]) -> None:
        """Hide one more secret; an empty one has no effect."""
        if not secret.reveal() or secret.reveal() in self._secrets.reveal():
            return
        self._secrets = Secret((*self._secrets.reveal()[1 - _MOST_SECRETS :], secret.reveal()))
        self._every = _Forms(self._secrets)
        self._distinct = _Forms(
            Secret((*itertools.filterfalse(_WORD.fullmatch, self._secrets.reveal()),))
        )

    def hidden(self, text: Secret[str]) -> str:
        """Return a text of a peer without secrets."""
        return self._every.hidden(text)

    def readable(self, text: Secret[str]) -> str:
        """Return a text that a peer has written for people, on one line."""
        text = Secret(self.hidden(text)[: 4 * _LONGEST])
        return visible(" ".join(text.reveal().split()), keep="")[:_LONGEST]

    def line(self, text: str, keep: str = "") -> str:
        """Return a line of ours that may have names from outside.

        Secrets that are words, such as "kafka", stay in it; so do the characters of `keep`.
        """
        text = self._distinct.hidden(Secret(text))
        if len(text) > _LONGEST:
            text = _LONG_WORD.sub(r"\1...", text)
        return visible(text, keep)

    def clean(self, error: BaseException) -> None:
        """Make the arguments of an error, and of its causes, fit for a traceback."""
        seen: set[int] = set()
        rest: list[BaseException | None] = [error]
        while rest:
            each = rest.pop()
            if each is None or id(each) in seen:
                continue
            seen.add(id(each))
            args = (*map(self._argument, each.args),)
            if args != each.args:
                each.args = args
            rest += [each.__cause__, each.__context__]

    def _argument(self, given: Any) -> Any:
        if isinstance(given, str):
            return self.line(given)
        if type(given) in {set, frozenset, list, tuple}:
            return type(given)(map(self._argument, given))
        return given


class _Forms:
    """All forms of some secrets."""

    __slots__ = ("_all", "_encoded", "_plain", "_spelled")

    def __init__(self, secrets: Secret[tuple[str, ...]]) -> None:
        each: list[Secret[str]] = list(map(Secret, secrets.reveal()))
        spelled = Secret({form.reveal() for one in each for form in _spellings(one)})
        encoded = Secret({form.reveal() for one in each for form in _encodings(one)})
        self._plain = Secret([_plain(one.reveal())[0] for one in each])
        self._all = Secret([form.lower() for form in spelled.reveal() | encoded.reveal()])
        self._spelled = _any_of(spelled)
        self._encoded = _any_of(encoded)

    def hidden(self, text: Secret[str]) -> str:
        """Return a text without them."""
        if self._all.reveal() and _QUOTES.search(text.reveal()):
            text = Secret(self._unquoted(text))
        folded = Secret(text.reveal().lower())
        if not any(map(folded.reveal().__contains__, self._all.reveal())):
            return text.reveal()
        text = Secret(self._spelled.reveal().sub(HIDDEN, text.reveal()))
        # The whole word: its ends have some bits of the secret.
        search = self._encoded.reveal().search
        return _ENCODED.sub(lambda word: HIDDEN if search(word[0]) else word[0], text.reveal())

    def _unquoted(self, text: Secret[str]) -> str:
        """Return a text without them, however their characters are quoted."""
        plain = Secret(_plain(text.reveal()[:_LONG_TEXT]))
        folded, places = plain.reveal()
        shown, end = list[str](), 0
        for begin, stop in sorted(
            (places[at], places[at + len(each)])
            for each in self._plain.reveal()
            if len(each) >= _SHORTEST_PART
            for at in _places_of(each, folded)
        ):
            if begin >= end:
                shown += text.reveal()[end:begin], HIDDEN
            end = max(end, stop)
        return "".join((*shown, text.reveal()[end:]))


def _places_of(part: bytes, text: bytes) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _plain(text: str) -> tuple[bytes, list[int]]:
    """Return a text without quoting, in small letters, and the place of each of its bytes.

    One more place is the end of the text.
    """
    plain, places = bytearray(), list[int]()
    for match in _CHARACTER.finditer(text):
        meant = _meant(match)
        if meant == b"\\" or (meant in _REPEATED and plain.endswith(meant)):
            continue
        plain += meant
        places += [match.start()] * (len(plain) - len(places))
    return bytes(plain), [*places, len(text)]


def _meant(match: re.Match[str]) -> bytes:
    """Return the bytes that a character stands for."""
    kind, given = match.lastgroup, match[match.lastgroup or 0]
    if kind == "byte":
        given = chr(int(given, 16))
        if given > "\x7f":
            return given.encode("latin-1")
    if kind == "number":
        given = chr(int(given))
    elif kind in {"unit", "digits"}:
        given = chr(int(given, 16))
    elif kind == "name":
        given = _NAMED.get(given.lower(), match[0])
    if given == "+" or given.isspace():
        return b" "
    return given.lower().encode("utf-8", "surrogatepass")


def _any_of(forms: Secret[set[str]]) -> Secret[re.Pattern[str]]:
    # The longest first, or a rest of it would be shown.
    ordered = Secret(sorted(forms.reveal(), key=len, reverse=True))
    return Secret(re.compile("|".join(map(re.escape, ordered.reveal())), re.IGNORECASE))


def _spellings(secret: Secret[str]) -> Iterator[Secret[str]]:
    """Return a secret as it is, and as it is quoted."""
    for spell in (str, *_QUOTED, _as_html, _as_repr, _as_json):
        yield Secret(spell(secret.reveal()))


def _encodings(secret: Secret[str]) -> Iterator[Secret[str]]:
    """Return what a longer text that has a secret in it has in hexadecimal digits or base64."""
    for spell in (str, *_QUOTED, _as_json):
        data = Secret(spell(secret.reveal()).encode("utf-8", "surrogatepass"))
        yield Secret(data.reveal().hex())
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            for before in range(3):
                first, end = -(-before * 8 // 6), (before + len(data.reveal())) * 8 // 6
                whole = Secret(encode(bytes(before) + data.reveal()).decode())
                if end - first >= _SHORTEST_PART:
                    yield Secret(whole.reveal()[first:end])


def _as_html(text: str) -> str:
    return text.translate(_MARKUP)


def _as_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _as_repr(text: str) -> str:
    return repr(text)[1:-1]


_MARKUP: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"}
)
_QUOTED: Final = (
    partial(quote, errors="surrogatepass"),
    partial(quote, safe="", errors="surrogatepass"),
    partial(quote_plus, errors="surrogatepass"),
)


T = TypeVar("T")

#: What is shown instead of a secret.
HIDDEN: Final = "<hidden>"


class Secret(Generic[T]):
    """Hides a value.

    Tools that collect errors show the local variables of each frame. A local variable that refers
    to a password or token must therefore refer to a `Secret`. The value itself may only be used
    within an expression.
    """

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        """Return the value."""
        return self._value

    def __repr__(self) -> str:
        """Return a placeholder."""
        return HIDDEN
