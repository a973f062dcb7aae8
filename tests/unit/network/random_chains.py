"""Random chains of certificates: most have a flaw or two."""

from __future__ import annotations

import ipaddress
from typing import Any, Final

from cryptography import x509

from tandem_kafka.runtime import Random
from tests.unit.network.certificate_chains import (
    ANY,
    CLIENT,
    OTHER_KEY,
    SERVER,
    Case,
    Made,
    Verdict,
    address,
    dns,
    excluded,
    make,
    name_of,
    permitted,
    revocations,
    unknown,
    uses,
)
from tests.unit.network.certificates import DAY

_USES: Final = ("digital_signature", "key_agreement", "key_cert_sign", "crl_sign")
_LIMITS: Final[list[x509.GeneralName]] = [
    x509.DNSName("localhost"),
    x509.DNSName("example.com"),
    x509.DNSName(".example.com"),
    x509.DNSName(""),
    x509.IPAddress(ipaddress.ip_network("127.0.0.0/8")),
    x509.DirectoryName(name_of("broker")),
    x509.RFC822Name("example.com"),
]
_NAMES: Final[list[list[x509.GeneralName]]] = [
    dns("localhost"),
    dns("localhost", "other.example"),
    dns("*.example.com"),
    [x509.RFC822Name("a@example.com"), *dns("localhost")],
    [x509.UniformResourceIdentifier("spiffe://x"), *dns("localhost")],
    address("127.0.0.1"),
    [],
]
#: Expired, or not yet valid.
_DATES: Final[list[tuple[str, Any]]] = [("until", -DAY), ("since", DAY / 2)]
_HOSTS: Final = ("localhost", "localhost", "kafka.example.com", "127.0.0.1")


class ChainMaker:
    """Makes the chain of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        few = self._rarely(0.3)  # then certificates have the names of others
        self.subjects = ["broker", "one"] if few else [f"s{number}" for number in range(9)]
        self.made: list[Made] = []

    def _rarely(self, share: float) -> bool:
        return self.random.random() < share

    def _options(self, *, authority: bool) -> dict[str, Any]:
        random, options = self.random, {"authority": authority}
        usual = ["key_cert_sign"] if authority else ["digital_signature"]
        flaws: list[tuple[float, str, Any]] = [
            (0.10, "usage", uses(*usual, *random.sample(_USES, 2))),
            (0.04, "usage", uses(*random.sample(_USES, 2))),
            (0.08, "purposes", random.sample([SERVER, CLIENT, ANY], 2)),
            (0.06, *random.choice(_DATES)),
            (0.20, "issuer_key", None),
            (0.03, "issuer_key", OTHER_KEY),
            (0.03, "others", [unknown("1.2.3.4", critical=self._rarely(0.5))]),
            (0.03, "authority", random.choice([None, not authority])),
        ]
        if authority:
            limit = random.choice([permitted, excluded])
            flaws.append((0.10, "constraints", limit(*random.sample(_LIMITS, 2))))
        options |= {name: value for share, name, value in flaws if self._rarely(share)}
        if options["authority"] and self._rarely(0.15):
            options["path_length"] = random.randrange(3)
        return options

    def _authority(self, issuer: Made | None, **options: Any) -> Made:
        subject = self.random.choice(self.subjects)
        self.made.append(make(subject, issuer, **self._options(authority=True), **options))
        return self.made[-1]

    def case(self) -> Case:
        """Return a chain; its verdict is that of OpenSSL."""
        random = self.random
        roots = [self._authority(None) for _ in range(random.randint(1, 2))]
        issuer, between = roots[0], []
        for _ in range(random.choice([0, 0, 1, 1, 2, 3])):
            issuer = self._authority(issuer)
            between.insert(0, issuer)
            if self._rarely(0.1):
                self._authority(random.choice(roots), key=issuer.key)
        pinned = not between and self._rarely(0.3)
        subject = random.choice(["broker", "localhost", self.subjects[0]])
        options = self._options(authority=False)
        names = random.choice(_NAMES)
        server = make(subject, None if pinned else issuer, names=names, **options)
        return Case(
            f"chain {self.seed}",
            Verdict.REFUSED,
            [server, *self._sent(between)],
            [server, *self._trusted([])] if pinned else self._trusted(roots),
            self._revoked(server, server if pinned else issuer, roots[0]),
            random.choice(_HOSTS),
            self._rarely(0.7),
        )

    def _sent(self, between: list[Made]) -> list[Made]:
        sent = list(between)
        if self._rarely(0.2):
            self.random.shuffle(sent)
        if self._rarely(0.2):
            sent.append(self.random.choice(self.made))
        return sent[: -1 if self._rarely(0.05) else None]

    def _trusted(self, roots: list[Made]) -> list[Made]:
        trusted = roots[: self.random.randint(1, 2)]
        if self._rarely(0.2):
            trusted.insert(self.random.randrange(2), self.random.choice(self.made))
        return trusted

    def _revoked(self, server: Made, issuer: Made, root: Made) -> bytes | None:
        if not self._rarely(0.2):
            return None
        lists = b""
        for each in [issuer] if self._rarely(0.5) else [issuer, root]:
            listed = [server] if self._rarely(0.3) else []
            dates = dict([self.random.choice(_DATES)] if self._rarely(0.2) else [])
            lists += revocations(each, *listed, **dates)
        return lists
