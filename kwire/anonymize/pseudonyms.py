"""Pseudonyms of text, bytes, topic ids and addresses, derived from a secret key with HMAC-SHA256.

An original always gets the same pseudonym, which has the same length in bytes. Originals of less than 16 bytes are
permuted, so different originals get different pseudonyms. Longer originals are replaced with HMAC output, where equal
pseudonyms are as improbable as an HMAC collision. Non-ASCII text below 16 bytes is an exception: it is replaced with
HMAC output of its length, so two originals may get the same pseudonym.
"""

from __future__ import annotations

import hmac
import string
from functools import lru_cache
from hashlib import shake_256
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from uuid import UUID

from kwire.anonymize.permutation import Permutation

SHORT = 16  # bytes; shorter values are permuted
NAMES = 65_536  # replacements that are cached
LETTERS = string.ascii_letters + string.digits + "._-"  # characters of topic names
PRINTABLE = "".join(map(chr, range(32, 127)))
VALUES = {letters: {letter: value for value, letter in enumerate(letters)} for letters in (LETTERS, PRINTABLE)}
RESERVED_IDS = 100  # Kafka's reserved topic ids are below it: null, the metadata topic
CONSTANTS = frozenset(  # names that Kafka defines
    {
        "*",
        "kafka-cluster",
        "__cluster_metadata",
        "__consumer_offsets",
        "__remote_log_metadata",
        "__share_group_state",
        "__transaction_state",
    }
)


class Pseudonyms:
    """The pseudonyms of text, bytes, ids and addresses for one secret key.

    Args:
        key: secret from which all pseudonyms are derived.

    Attributes:
        text: function that returns the pseudonym of text.
        host: function that returns the pseudonym of a host name or address.
        uuid: function that returns the pseudonym of a UUID.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._permutations: dict[tuple[str, int], Permutation] = {}
        self.text = lru_cache(NAMES)(self._text)
        self.host = lru_cache(NAMES)(self._host)
        self.uuid = lru_cache(NAMES)(self._uuid)

    def data(self, original: bytes) -> bytes:
        """Return the pseudonym of bytes, which has the same length."""
        size = len(original)
        if size >= SHORT:
            return shake_256(self._mac("data", original)).digest(size)
        number = self._permutation("data", 256**size).image(int.from_bytes(original, "big"))
        return number.to_bytes(size, "big")

    def _text(self, original: str) -> str:
        """Return the pseudonym of text, which has the same length in bytes.

        The pseudonym of a valid topic name is a valid topic name. Empty text and the texts in CONSTANTS are returned
        unchanged.
        """
        if not original or original in CONSTANTS:
            return original
        raw = original.encode("utf-8", "surrogatepass")
        if len(raw) < SHORT and raw.isascii():
            if all(letter in VALUES[LETTERS] for letter in original):
                return self._permuted(original, LETTERS)
            if all(letter in VALUES[PRINTABLE] for letter in original):
                replaced = original
                while True:  # until it is again text with a character that is not in LETTERS
                    replaced = self._permuted(replaced, PRINTABLE)
                    if any(letter not in VALUES[LETTERS] for letter in replaced):
                        return replaced
        stream = shake_256(self._mac("text", raw)).digest(len(raw))
        return "".join(LETTERS[byte % len(LETTERS)] for byte in stream)

    def _host(self, original: str) -> str:
        """Return the pseudonym of a host name or address.

        The pseudonym of an IP address is an IP address, also if the address follows a "/".
        """
        if original.startswith("/"):
            return f"/{self.host(original[1:])}"
        name, percent, zone = original.partition("%")
        try:
            address = IPv6Address(name) if ":" in name else IPv4Address(name)
        except AddressValueError:
            return self.text(original)
        if isinstance(address, IPv4Address):
            return self._ipv4(name)
        return self._ipv6(name if "." in name else str(address)) + (percent and f"%{self.text(zone)}")

    def endpoint(self, original: str) -> str:
        """Return the pseudonym of ``host:port``. The port is not changed. Text without a port is replaced as a host."""
        host, colon, port = original.rpartition(":")
        if not colon or not port.isdecimal():
            return self.host(original)
        if host.startswith("[") and host.endswith("]"):
            return f"[{self.host(host[1:-1])}]:{port}"
        return f"{self.host(host)}:{port}"

    def _uuid(self, original: UUID) -> UUID:
        """Return the pseudonym of a UUID. UUIDs that Kafka reserves are returned unchanged."""
        if original.int < RESERVED_IDS:
            return original
        return UUID(bytes=shake_256(self._mac("uuid", original.bytes)).digest(16))

    def _permuted(self, original: str, letters: str) -> str:
        values, base = VALUES[letters], len(letters)
        number = 0
        for letter in original:
            number = number * base + values[letter]
        number = self._permutation(letters, base ** len(original)).image(number)
        digits = []
        for _ in original:
            number, digit = divmod(number, base)
            digits.append(letters[digit])
        return "".join(reversed(digits))

    def _ipv4(self, original: str) -> str:
        """Return the pseudonym of an IPv4 address: an IPv4 address of the same length, with dots at the same places."""
        ranges = [((0, 10), (10, 100), (100, 256))[len(octet) - 1] for octet in original.split(".")]
        number, size = 0, 1
        for octet, (low, high) in zip(original.split("."), ranges, strict=True):
            number = number * (high - low) + int(octet) - low
            size *= high - low
        number = self._permutation(f"ipv4 {ranges}", size).image(number)
        octets = []
        for low, high in reversed(ranges):
            number, value = divmod(number, high - low)
            octets.append(str(low + value))
        return ".".join(reversed(octets))

    def _ipv6(self, original: str) -> str:
        """Return the pseudonym of an IPv6 address: an IPv6 address of the same length, with "::" at the same place."""
        *groups, last = original.split(":")
        if "." in last:
            return ":".join([*groups, self._ipv4(last)])
        groups.append(last)
        ranges = [(1 if len(group) == 1 else 16 ** (len(group) - 1), 16 ** len(group)) for group in groups]
        changed = [at for at, group in enumerate(groups) if group.strip("0")]
        number, size = 0, 1
        for at in changed:
            low, high = ranges[at]
            number = number * (high - low) + int(groups[at], 16) - low
            size *= high - low
        number = self._permutation(f"ipv6 {[ranges[at] for at in changed]}", size).image(number)
        for at in reversed(changed):
            low, high = ranges[at]
            number, group = divmod(number, high - low)
            groups[at] = f"{low + group:x}"
        return ":".join(groups)

    def _permutation(self, kind: str, size: int) -> Permutation:
        found = self._permutations.get((kind, size))
        if found is None:
            found = self._permutations[kind, size] = Permutation(self._key, f"{kind} {size} ".encode(), size)
        return found

    def _mac(self, kind: str, original: bytes) -> bytes:
        return hmac.digest(self._key, f"{kind} ".encode() + original, "sha256")
