"""Cases within the TLS handshake: garbage in place of the broker's records, and invalid certificates."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING

from mockbroker.lab.torture.case import TLS, Case, Certificate, FlightChange
from mockbroker.net.tls import LOCAL_NAMES

if TYPE_CHECKING:
    from trustme import CA, LeafCert

HANDSHAKE = b"\x16\x03\x03"  # type and version of a TLS record
HEADER = 5  # bytes of the header of a record
LONGEST = 0xFFFF  # bytes: a record has at most 16 KiB and 256 bytes
MANY_RECORDS, MANY_NAMES = 10_000, 2_000
PAST = datetime(2001, 1, 1, tzinfo=UTC), datetime(2001, 1, 2, tzinfo=UTC)
FUTURE = datetime(2100, 1, 1, tzinfo=UTC), datetime(2100, 1, 2, tzinfo=UTC)


def record(content: bytes) -> bytes:
    """Return a TLS handshake record with ``content``."""
    return HANDSHAKE + len(content).to_bytes(2, "big") + content


def changed_bit(flight: bytes, random: Random) -> bytes:
    """Return TLS records with one bit changed. The bit is not in the header of the first record.

    Args:
        flight: the TLS records.
        random: random number generator.
    """
    changed = bytearray(flight)
    changed[random.randrange(HEADER, len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def other_authority(_: CA) -> LeafCert:
    """Return a certificate of an authority that the client does not trust."""
    import trustme  # late: a dependency of TLS only

    return trustme.CA(organization_name="torture").issue_cert(*LOCAL_NAMES)


def many_names(authority: CA) -> LeafCert:
    names = (f"broker-{number}.torture.example" for number in range(MANY_NAMES))
    return authority.issue_cert(*LOCAL_NAMES, *names)


def valid_within(begin: datetime, end: datetime) -> Certificate:
    """Return a function that issues a certificate that is valid from ``begin`` to ``end``."""
    return lambda authority: authority.issue_cert(*LOCAL_NAMES, not_before=begin, not_after=end)


FLIGHTS: list[tuple[str, str, FlightChange]] = [
    ("tls-random-bytes", "answers the TLS handshake with random bytes", lambda old, rng: rng.randbytes(len(old))),
    ("tls-random-record", "sends a TLS record with random content", lambda old, rng: record(rng.randbytes(len(old)))),
    ("tls-plaintext", "answers the TLS handshake in plaintext", lambda _old, _rng: b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    ("tls-half", "sends half of its TLS handshake, and then nothing", lambda old, _: old[: len(old) // 2]),
    ("tls-twice", "sends its TLS handshake twice", lambda old, _: old * 2),
    ("tls-changed-bit", "changes one bit of its TLS handshake", changed_bit),
    (
        "tls-huge-record",
        f"sends a TLS record of {LONGEST} bytes",
        lambda _, rng: record(rng.randbytes(LONGEST)),
    ),
    ("tls-empty-records", f"sends {MANY_RECORDS} empty TLS records", lambda _old, _rng: record(b"") * MANY_RECORDS),
]
CERTIFICATES: list[tuple[str, str, Certificate]] = [
    ("tls-other-authority", "has a certificate of an unknown authority", other_authority),
    ("tls-other-host", "has a certificate for another host", lambda authority: authority.issue_cert("torture.example")),
    ("tls-expired", "has an expired certificate", valid_within(*PAST)),
    ("tls-not-yet-valid", "has a certificate that is not valid yet", valid_within(*FUTURE)),
    ("tls-many-names", f"has a valid certificate with {MANY_NAMES} further names", many_names),
]
CASES = [
    *(Case(name, TLS, what, flight=flight) for name, what, flight in FLIGHTS),
    *(Case(name, TLS, what, certificate=certificate) for name, what, certificate in CERTIFICATES),
]
