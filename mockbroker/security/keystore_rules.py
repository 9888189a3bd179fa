"""The rules by which AlterConfigs may replace a keystore.

The new certificate must have the same subject, and at least the subject alternative names of the old certificate. The
functions are pure.

Source: Kafka's SslFactory (CertificateEntries.ensureCompatible), as recorded in fixtures/keystores.json.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import TYPE_CHECKING

from kwire.java import bucket_order, string_hash
from kwire.lazy_dataclass import dataclass
from mockbroker.security.keystores import PEM_ALIAS, Contents
from mockbroker.security.ssl_principals import name_text

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

AlternativeName = tuple[int, str]  # type, as in RFC 5280, and text
MAIL, DNS, DIRECTORY, URI, ADDRESS, REGISTERED_ID = 1, 2, 4, 6, 7, 8


@dataclass(frozen=True, slots=True)
class KeystoreEntry:
    """The subject, alternative names and alias of a keystore, for the check of a new keystore (``replacement_error``).

    Attributes:
        subject: distinguished name of the subject of the first certificate, in Java's format.
        names: subject alternative names of the first certificate, in the order of the certificate.
        alias: name of the keystore entry with the key.
    """

    subject: str
    names: tuple[AlternativeName, ...]
    alias: str = PEM_ALIAS


def read_entry(keystore: Contents) -> KeystoreEntry:
    """Read the subject and the alternative names of a keystore's first certificate; return them with the key's
    alias.
    """
    from cryptography.x509 import ExtensionNotFound, SubjectAlternativeName, load_pem_x509_certificate

    certificate = load_pem_x509_certificate(keystore.certificates[0])
    subject = name_text(certificate.subject)
    try:
        extension = certificate.extensions.get_extension_for_class(SubjectAlternativeName)
    except ExtensionNotFound:
        return KeystoreEntry(subject, (), keystore.alias)
    return KeystoreEntry(subject, tuple(map(_alternative_name, extension.value)), keystore.alias)


def replacement_error(existing: KeystoreEntry, new: KeystoreEntry) -> str | None:
    """Return Kafka's error message if a new keystore cannot replace the existing one; None if it can."""
    if _canonical(existing.subject) != _canonical(new.subject):
        reason, before, after = "DistinguishedName does", f"DN={existing.subject}", f"DN={new.subject}"
    elif not set(existing.names) <= set(new.names):
        reason, before, after = "SubjectAltNames do", f"SAN={_listed(existing)}", f"SAN={_listed(new)}"
    else:
        return None
    existing_entry, new_entry = f"{{alias={existing.alias}, {before}}}", f"{{alias={new.alias}, {after}}}"
    return f"Keystore {reason} not match:  existing={existing_entry}, new={new_entry}"


def _canonical(subject: str) -> str:
    return " ".join(subject.casefold().split())


def _alternative_name(name: GeneralName) -> AlternativeName:
    from cryptography import x509

    match name:
        case x509.RFC822Name(value=text):
            return MAIL, text
        case x509.DNSName(value=text):
            return DNS, text
        case x509.UniformResourceIdentifier(value=text):
            return URI, text
        case x509.IPAddress(value=address):
            return ADDRESS, _ipv6_text(address) if isinstance(address, IPv6Address) else str(address)
        case x509.DirectoryName(value=subject):
            return DIRECTORY, name_text(subject)
        case x509.RegisteredID(value=oid):
            return REGISTERED_ID, oid.dotted_string
    return 0, str(name.value)


def _ipv6_text(address: IPv6Address) -> str:
    """Return an IPv6 address as Java formats it, with all eight groups."""
    packed = address.packed
    return ":".join(f"{int.from_bytes(packed[at : at + 2]):x}" for at in range(0, 16, 2))


def _listed(entry: KeystoreEntry) -> str:
    """Return the subject alternative names of an entry as Java formats a HashSet of lists."""
    ordered = bucket_order(dict.fromkeys(entry.names), _hash)
    return f"[{', '.join(f'[{kind}, {text}]' for kind, text in ordered)}]"


def _hash(name: AlternativeName) -> int:
    """Return Java's hash code of a list with the type and the text of an alternative name, as a signed
    32-bit number.
    """
    kind, text = name
    code = (31 * (31 + kind) + string_hash(text)) & 0xFFFF_FFFF
    return code - (1 << 32) if code >> 31 else code
