"""The matrix of chains, by subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import NameOID

from tests.unit.network.certificate_chains import (
    ANY,
    CLIENT,
    OTHER_KEY,
    SERVER,
    Case,
    Made,
    Verdict,
    address,
    authority,
    broker,
    dns,
    excluded,
    name_of,
    permitted,
    revocations,
    rsa_key,
    signed_weakly,
    unknown,
    uses,
)
from tests.unit.network.certificates import DAY, Issued, issue

ACCEPTED, REFUSED = Verdict.ACCEPTED, Verdict.REFUSED
LEFT, STRICTER = Verdict.LEFT, Verdict.STRICTER

#: Why the native transport refuses what OpenSSL accepts, without asking it.
REASONS_TO_BE_STRICTER: Final = {
    "common name beside an address": "RFC 6125: alternative names of any kind replace it",
}


def chains() -> Iterator[Case]:
    root, other = authority(), authority("other")
    one = authority("one", root)
    two = authority("two", one)
    direct, below = broker(root), broker(one)
    yield Case("by the root", ACCEPTED, [direct], [root])
    yield Case("with the root sent", ACCEPTED, [direct, root], [root])
    yield Case("by an intermediate", ACCEPTED, [below, one], [root])
    yield Case("by two", ACCEPTED, [broker(two), two, one], [root])
    yield Case("in another order", ACCEPTED, [broker(two), one, two], [root])
    yield Case("with others sent", ACCEPTED, [below, other, one], [root])
    yield Case("no intermediate", REFUSED, [below], [root])
    yield Case("intermediate in the file", ACCEPTED, [below], [root, one])
    sent = [broker(two), two, one]
    yield Case("nearer intermediate in the file", REFUSED, sent, [root, two])
    yield Case("both intermediates in the file", ACCEPTED, sent, [root, one, two])
    yield Case("only the intermediate trusted", REFUSED, [below, one], [one])
    yield Case("only the intermediate trusted, not sent", REFUSED, [below], [one])
    yield Case("unknown root", REFUSED, [direct], [other])
    yield Case("unknown root, sent", REFUSED, [direct, root], [other])
    yield Case("a root of the same name", REFUSED, [direct], [authority()])
    yield Case("broker's certificate in the file, its issuer not", REFUSED, [direct], [direct])
    yield Case("broker's certificate and its issuer", ACCEPTED, [direct], [direct, root])
    forged = Made(authority().certificate, root.key)
    yield Case("signed with another key", REFUSED, [broker(forged)], [forged])
    yield Case("no subject", ACCEPTED, [broker(root, "")], [root])


def dates() -> Iterator[Case]:
    root = authority()
    for name, when in {"expired": {"until": -DAY}, "not yet valid": {"since": DAY / 2}}.items():
        middle = authority("middle", root, **when)
        top = authority("top", **when)
        yield Case(f"{name} broker", REFUSED, [broker(root, **when)], [root])
        yield Case(f"{name} intermediate", REFUSED, [broker(middle), middle], [root])
        yield Case(f"{name} root", REFUSED, [broker(top)], [top])
        yield Case(f"{name} root of two", ACCEPTED, [broker(root)], [top, root])
        again = authority("top", key=top.key)
        yield Case(f"{name} root, and renewed", ACCEPTED, [broker(top)], [top, again])
        yield Case(f"renewed root, and {name}", ACCEPTED, [broker(top)], [again, top])
        below = authority("middle", root, key=middle.key)
        yield Case(f"{name} and good intermediate", LEFT, [broker(below), middle, below], [root])


def hosts() -> Iterator[Case]:
    root = authority()

    def at(host: str, verdict: Verdict, *names: str, title: str = "") -> Case:
        presented = broker(root, names=dns(*names))
        return Case(title or f"{names} at {host}", verdict, [presented], [root], host=host)

    yield at("localhost", REFUSED, "elsewhere.example")
    yield at("localhost", ACCEPTED, "elsewhere.example", "localhost")
    yield at("LocalHost", ACCEPTED, "localhost")
    yield at("kafka.example.com", ACCEPTED, "*.example.com")
    yield at("KAFKA.example.com", ACCEPTED, "*.EXAMPLE.com")
    yield at("one.kafka.example.com", REFUSED, "*.example.com")
    yield at("example.com", REFUSED, "*.example.com")
    yield at("kafka.example.com", REFUSED, "k*.example.com")
    yield at("kafka.example.com", REFUSED, "kafka.*.com")
    yield at("kafka.example", REFUSED, "*.example")
    yield at("localhost", REFUSED, "*")
    yield at("kafka.example.com", REFUSED, "*.*.com")
    yield at("xn--kfka-0qa.example.com", ACCEPTED, "*.example.com")
    yield at("kafka.example.com", REFUSED, ".example.com")
    yield at("127.0.0.1", REFUSED, "127.0.0.1")
    yield at("127.0.0.1", REFUSED, "*.0.0.1")
    # OpenSSL matches no underscore with a wildcard.
    yield at("a_b.example.com", REFUSED, "*.example.com")
    yield at("_a.example.com", REFUSED, "*.example.com")
    yield at("a.ex_ample.com", REFUSED, "*.ex_ample.com")
    yield at("a_b.example.com", REFUSED, "*.example.com", "x_b.example.com")
    yield at("a_b.example.com", ACCEPTED, "A_b.example.com")
    yield at("a_b.example.com", ACCEPTED, "*.example.com", "a_b.example.com")
    yield at("a--b.example.com", ACCEPTED, "*.example.com")
    for host, known, verdict in [
        ("127.0.0.1", "127.0.0.1", ACCEPTED),
        ("127.0.0.1", "127.0.0.2", REFUSED),
        ("localhost", "127.0.0.1", REFUSED),
        ("::1", "::1", ACCEPTED),
    ]:
        made = broker(root, names=address(known))
        yield Case(f"address {known} at {host}", verdict, [made], [root], host=host)


def common_names() -> Iterator[Case]:
    root = authority()

    def with_common_name(subject: str, host: str, verdict: Verdict) -> Case:
        made = broker(root, subject, names=())
        return Case(f"common name {subject} at {host}", verdict, [made], [root], host=host)

    yield with_common_name("localhost", "localhost", ACCEPTED)
    yield with_common_name("elsewhere", "localhost", REFUSED)
    yield with_common_name("*.example.com", "kafka.example.com", ACCEPTED)
    yield with_common_name("*.example", "kafka.example", REFUSED)
    yield with_common_name("*.example.com", "a_b.example.com", REFUSED)
    yield with_common_name("a_b.example.com", "a_b.example.com", ACCEPTED)
    yield with_common_name("*.example.com", "a.kafka.example.com", REFUSED)
    yield with_common_name("127.0.0.1", "127.0.0.1", REFUSED)
    made = broker(root, "localhost", names=dns("elsewhere.example"))
    yield Case("common name beside a name", REFUSED, [made], [root])
    made = broker(root, "localhost", names=address("127.0.0.2"))
    yield Case("common name beside an address", STRICTER, [made], [root])


def unchecked_hosts() -> Iterator[Case]:
    root, elsewhere = authority(), dns("elsewhere.example")
    made, own = broker(root, names=elsewhere), broker(names=elsewhere)
    yield Case("any host", ACCEPTED, [made], [root], check_hostname=False)
    yield Case("any host, unknown root", REFUSED, [made], [authority("x")], check_hostname=False)
    yield Case("any host, pinned", ACCEPTED, [own], [own], check_hostname=False)
    old = broker(root, names=elsewhere, until=-DAY)
    yield Case("any host, expired", REFUSED, [old], [root], check_hostname=False)


def path_lengths() -> Iterator[Case]:
    root, short = authority(), authority("short", path_length=0)
    one = authority("one", short)
    yield Case("root of length 0", ACCEPTED, [broker(short)], [short])
    yield Case("root of length 0, and an intermediate", REFUSED, [broker(one), one], [short])
    first = authority("first", root, path_length=0)
    second = authority("second", first)
    yield Case("intermediate of length 0", ACCEPTED, [broker(first), first], [root])
    sent = [broker(second), second, first]
    yield Case("intermediate of length 0, and another", REFUSED, sent, [root])
    top = authority("top", path_length=1)
    middle = authority("middle", top, path_length=0)
    yield Case("lengths that suffice", ACCEPTED, [broker(middle), middle], [top])


def authorities() -> Iterator[Case]:
    """What may sign."""
    root = authority()
    for title, made in {
        "authority": broker(root, "no authority"),
        "basic constraints": authority("vague", root, authority=None),
        "right to sign": authority("weak", root, usage=uses("crl_sign")),
        "servers": authority("for clients", root, purposes=[CLIENT]),
        "known extensions": authority("odd", root, others=[unknown("1.2.3.4")]),
    }.items():
        yield Case(f"intermediate without {title}", REFUSED, [broker(made), made], [root])
    for title, made in {
        "authority": broker(None, "no authority"),
        "right to sign": authority("weak", usage=uses("crl_sign", "digital_signature")),
        "servers": authority("for clients", purposes=[CLIENT]),
        "known extensions": authority("odd", others=[unknown("1.2.3.4")]),
    }.items():
        yield Case(f"root without {title}", REFUSED, [broker(made)], [made])
    full = authority("full", usage=uses("key_cert_sign", "crl_sign"), purposes=[SERVER, CLIENT])
    yield Case("root with all rights", ACCEPTED, [broker(full)], [full])
    some = authority("any", purposes=[ANY])
    yield Case("root for any purpose", REFUSED, [broker(some)], [some])
    old = issue("version 1", authority=True, version_1=True)
    top = Made(old.certificate, old.key)
    yield Case("root of version 1", ACCEPTED, [broker(top, issuer_key=None)], [top])


def purposes() -> Iterator[Case]:
    """What a broker's certificate is for."""
    root = authority()

    def case(title: str, verdict: Verdict, **options: object) -> Case:
        return Case(f"broker {title}", verdict, [broker(root, **options)], [root])

    yield case("for servers", ACCEPTED, purposes=[SERVER], usage=uses("digital_signature"))
    yield case("for clients", REFUSED, purposes=[CLIENT])
    yield case("for any purpose", REFUSED, purposes=[ANY])
    yield case("for both", ACCEPTED, purposes=[CLIENT, SERVER])
    yield case("that may sign lists", REFUSED, usage=uses("crl_sign"))
    yield case("that may encipher keys", LEFT, usage=uses("key_encipherment"))
    yield case("that may agree on keys", LEFT, usage=uses("key_agreement"))
    yield case("that is an authority", LEFT, authority=True)
    yield case("without basic constraints", ACCEPTED, authority=None)
    yield case("with an unknown extension", ACCEPTED, others=[unknown("1.2.3.4", critical=False)])
    yield case("with a critical one", REFUSED, others=[unknown("1.2.3.4")])
    client = unknown("2.16.840.1.113730.1.1", b"\x03\x02\x07\x80", critical=False)
    yield case("of Netscape's type client", REFUSED, others=[client])
    old = issue("localhost", Issued(root.certificate, root.key), version_1=True)
    yield Case("broker of version 1", LEFT, [Made(old.certificate, old.key)], [root])


def constraints() -> Iterator[Case]:
    """Name constraints, of an intermediate and of the root."""
    root = authority()
    inside, outside = "kafka.example.com", "kafka.example.org"
    com, email = x509.DNSName("example.com"), x509.RFC822Name("example.com")
    mail = x509.Name([x509.NameAttribute(NameOID.EMAIL_ADDRESS, "me@example.org")])
    for place in ("intermediate", "root"):

        def below(limit: x509.NameConstraints, place: str = place, **options: object) -> Case:
            above = None if place == "root" else root
            middle = authority("middle", above, constraints=limit)
            sent = [broker(middle, **options)] + ([] if place == "root" else [middle])
            return Case("", ACCEPTED, sent, [middle if place == "root" else root], host=inside)

        def case(title: str, verdict: Verdict, made: Case, place: str = place) -> Case:
            made.name, made.verdict = f"{place} {title}", verdict
            return made

        names = dns(inside)
        yield case("permits", ACCEPTED, below(permitted(com), names=names))
        yield case("permits another", REFUSED, below(permitted(x509.DNSName("x.y")), names=names))
        yield case("permits one", REFUSED, below(permitted(com), names=dns(inside, outside)))
        yield case("excludes", REFUSED, below(excluded(com), names=names))
        yield case("excludes another", ACCEPTED, below(excluded(x509.DNSName("x.y")), names=names))
        yield case("permits wildcard", ACCEPTED, below(permitted(com), names=dns("*.example.com")))
        yield case("permits common name", LEFT, below(permitted(com), subject=inside, names=()))
        only = permitted(x509.DNSName("x.y"))
        yield case("forbids common name", REFUSED, below(only, subject=inside, names=()))
        limit = permitted(email)
        yield case("forbids email", REFUSED, below(limit, subject=mail, names=names))
        subject = x509.DirectoryName(name_of("someone"))
        yield case("forbids subject", REFUSED, below(permitted(subject), names=names))
    limited = authority("limited", constraints=permitted(email))
    for title, expected, mailbox in (
        ("permits intermediate's email", LEFT, "me@example.com"),
        ("forbids intermediate's email", REFUSED, "me@example.org"),
    ):
        named = x509.Name([x509.NameAttribute(NameOID.EMAIL_ADDRESS, mailbox)])
        middle = authority(named, limited)
        sent = [broker(middle, names=dns(inside)), middle]
        yield Case(f"root {title}", expected, sent, [limited], host=inside)


def revoked() -> Iterator[Case]:
    root, other = authority(), authority("other")
    good, bad = broker(root), broker(root)
    one = authority("one", root)
    below, worse = broker(one), broker(one)

    def case(title: str, verdict: Verdict, *lists: bytes, made: Made = good) -> Case:
        sent = [made] if made in (good, bad) else [made, one]
        return Case(f"list {title}", verdict, sent, [root], b"".join(lists))

    full = revocations(root, bad)
    yield case("of others", ACCEPTED, full)
    yield case("with the broker", REFUSED, full, made=bad)
    yield case("of the intermediate", ACCEPTED, revocations(one, worse), made=below)
    yield case("of the intermediate, with the broker", REFUSED, revocations(one, worse), made=worse)
    lists = revocations(root, one), revocations(one)
    yield case("with the intermediate", ACCEPTED, *lists, made=below)  # only brokers are checked
    yield case("of the root alone", REFUSED, full, made=below)
    yield case("of another authority", REFUSED, revocations(other))
    yield case("that has expired", REFUSED, revocations(root, until=-DAY))
    yield case("that is not valid yet", REFUSED, revocations(root, since=DAY / 2))
    yield case("with another's signature", REFUSED, revocations(root, key=other.key))
    newer = revocations(root, bad, since=-DAY, number=2)
    older = revocations(root, bad, since=-5 * DAY)
    fresh, stale = revocations(root, since=-DAY, number=2), revocations(root)
    yield case("that is newer", REFUSED, stale, newer, made=bad)
    yield case("that is newer, first", REFUSED, newer, stale, made=bad)
    yield case("that is older", LEFT, older, fresh, made=bad)
    yield Case("list beside the roots", REFUSED, [bad], [root, full], revocations(other))
    yield Case("list beside the roots, unused", ACCEPTED, [bad], [root, full])
    weak = authority("weak", usage=uses("key_cert_sign"))
    made = broker(weak)
    yield Case("list that may not be signed", REFUSED, [made], [weak], revocations(weak))


def crossed() -> Iterator[Case]:
    """An authority with certificates of two roots."""
    first, second = authority("first"), authority("second")
    by_first = authority("middle", first)
    by_second = authority("middle", second, key=by_first.key)
    old = authority("middle", second, key=by_first.key, until=-DAY)
    made = broker(by_first)
    yield Case("crossed, one sent", ACCEPTED, [made, by_second], [second])
    # OpenSSL only looks at the issuer that comes first.
    yield Case("crossed, first trusted", REFUSED, [made, by_second, by_first], [first])
    yield Case("crossed, second trusted", LEFT, [made, by_second, by_first], [second])
    yield Case("crossed, one expired", LEFT, [made, old, by_first], [first, second])
    yield Case("crossed, only the expired", REFUSED, [made, old], [second])
    itself = authority("middle", key=by_first.key)
    yield Case("crossed, itself trusted", ACCEPTED, [made, by_first], [itself])
    yield Case("crossed, both trusted", LEFT, [made], [first, by_first, itself])
    yield Case("crossed, itself sent", REFUSED, [made, itself], [first])


def weak() -> Iterator[Case]:
    root = authority()
    yield Case("RSA 2048", ACCEPTED, [broker(root, key=rsa_key(2048))], [root])
    yield Case("RSA 1024", REFUSED, [broker(root, key=rsa_key(1024))], [root])
    small = authority("small", key=rsa_key(1024))
    yield Case("root of RSA 1024", REFUSED, [broker(small)], [small])
    middle = authority("middle", root, key=rsa_key(1024))
    yield Case("intermediate of RSA 1024", REFUSED, [broker(middle), middle], [root])
    strong = authority("strong", key=rsa_key(2048))
    yield Case("root of RSA 2048", ACCEPTED, [broker(strong)], [strong])
    insecure = {5: hashes.SHA1(), 4: hashes.MD5()}  # noqa: S303 - to be refused
    for number, digest in insecure.items():
        made = signed_weakly(broker(strong), strong, number, digest)
        yield Case(f"{digest.name}", REFUSED, [made], [strong])
        middle = signed_weakly(authority("middle", strong), strong, number, digest)
        yield Case(f"intermediate by {digest.name}", REFUSED, [broker(middle), middle], [strong])
        top = signed_weakly(strong, strong, number, digest)
        yield Case(f"root by {digest.name}", ACCEPTED, [broker(top)], [top])
    own = broker(key=rsa_key(1024))
    yield Case("pinned of RSA 1024", REFUSED, [own], [own])
    for curve, verdict in {ec.SECP384R1(): ACCEPTED, ec.SECP521R1(): LEFT}.items():
        big = authority("big", key=ec.generate_private_key(curve))
        yield Case(f"root of {curve.name}", verdict, [broker(big)], [big])
    modern = authority("modern", key=ed25519.Ed25519PrivateKey.generate(), digest=None)
    yield Case("root of Ed25519", ACCEPTED, [broker(modern, digest=None)], [modern])


def pinned() -> Iterator[Case]:
    """Self-signed certificates that the user trusts."""
    for is_authority in (False, True):

        def own(is_authority: bool = is_authority, **options: object) -> Made:
            return broker(**{"authority": is_authority, **options})

        def case(
            title: str, verdict: Verdict, made: Made, *, of: str = str(is_authority), **more: object
        ) -> Case:
            name = f"pinned (authority: {of}) {title}"
            return Case(
                **{"name": name, "verdict": verdict, "sent": [made], "trusted": [made], **more}
            )

        made, other = own(), own()
        yield case("", ACCEPTED, made)
        yield case("without identifiers", ACCEPTED, own(issuer_key=None))
        yield case("and another sent", REFUSED, made, trusted=[other])
        bare, namesake = own(issuer_key=None), authority("broker")
        yield case("beside a namesake", REFUSED, bare, trusted=[namesake, bare])
        yield case("for another host", REFUSED, own(names=dns("elsewhere.example")))
        yield case("expired", REFUSED, own(until=-DAY))
        yield case("not yet valid", REFUSED, own(since=DAY / 2))
        yield case("for clients", REFUSED, own(purposes=[CLIENT]))
        yield case("that may only sign lists", REFUSED, own(usage=uses("crl_sign")))
        yield case("with a critical extension", REFUSED, own(others=[unknown("1.2.3.4")]))
        signs = ACCEPTED if is_authority else REFUSED
        below = broker(made, "localhost")
        yield case("that signs", signs, made, sent=[below])
        yield case("that signs, sent", signs, made, sent=[below, made])
        yield case("revoked", REFUSED, made, revoked=revocations(made, made))
        yield case("not revoked", LEFT, made, revoked=revocations(made))
        yield case("without a list", REFUSED, made, revoked=revocations(other))


def keys() -> Iterator[Case]:
    """Names and identifiers of issuers that do not fit."""
    root = authority()
    yield Case("another key named", REFUSED, [broker(root, issuer_key=OTHER_KEY)], [root])
    yield Case("no key named", ACCEPTED, [broker(root, issuer_key=None)], [root])
    bare = authority("same", issuer_key=None)
    yield Case("named like its issuer", REFUSED, [broker(bare, "same", issuer_key=None)], [bare])
    known = authority("same")
    yield Case("named like its issuer, with keys", ACCEPTED, [broker(known, "same")], [known])
    again = authority("same", bare, issuer_key=None)
    sent = [broker(again, issuer_key=None), again]
    yield Case("intermediate named like the root", REFUSED, sent, [bare])


ALL: Final[tuple[Callable[[], Iterator[Case]], ...]] = (
    chains,
    dates,
    hosts,
    common_names,
    unchecked_hosts,
    path_lengths,
    authorities,
    purposes,
    constraints,
    revoked,
    crossed,
    weak,
    pinned,
    keys,
)
