"""The principals of TLS client certificates, mapped by ``ssl.principal.mapping.rules``.

Source: Kafka's SslPrincipalMapper. The rules apply to the subject name as Java's X500Principal formats it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from kwire.lazy_dataclass import dataclass
from mockbroker.base.settings import SettingsError

if TYPE_CHECKING:
    from cryptography.x509 import Name, NameAttribute

SETTING = "ssl.principal.mapping.rules"
RULE = r"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
SEPARATED = rf"\s*(?:{RULE}|)\s*(?:[,\n]|\Z)"
REFERENCE = r"\\(.)|\$(\d+)"  # in a replacement: an escaped character, or a group
ESCAPED = frozenset(',=+<>#;"\\')
KEYWORDS = {  # RFC 2253; Java writes other attributes as object identifiers
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
MORE_KEYWORDS = {  # of X500Principal.toString
    "1.2.840.113549.1.9.1": "EMAILADDRESS",
    "2.5.4.4": "SURNAME",
    "2.5.4.5": "SERIALNUMBER",
    "2.5.4.12": "T",
    "2.5.4.42": "GIVENNAME",
    "2.5.4.43": "INITIALS",
    "2.5.4.44": "GENERATION",
    "2.5.4.46": "DNQ",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of ``ssl.principal.mapping.rules``.

    Attributes:
        pattern: regular expression that must match the whole distinguished name; None for DEFAULT, which maps every
            distinguished name to itself.
        replacement: name of the user, with references such as $1 to groups of the pattern.
        case: "L" to convert the result to lower case, "U" to upper case, "" to leave it unchanged.
    """

    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the name of the user for the distinguished name ``name``; None if the rule does not match it."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._replace, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)

    def _replace(self, match: re.Match[str]) -> str:
        def group(reference: re.Match[str]) -> str:
            if reference[1]:
                return reference[1]
            number = int(reference[2])
            return match[number] or "" if number <= match.re.groups else reference[0]

        return re.sub(REFERENCE, group, self.replacement)


@cache
def parse_rules(text: str) -> tuple[Rule, ...]:
    """Parse the value of ``ssl.principal.mapping.rules``, and return its rules in order.

    Raises:
        SettingsError: The value is not valid.
    """
    rules, at = [], 0
    text = text.strip()
    while at < len(text):
        match = re.compile(SEPARATED).match(text, at)
        if match is None:
            raise SettingsError(
                f"{SETTING}: {text[at:]!r} does not begin with a rule: expected DEFAULT or "
                "RULE:PATTERN/REPLACEMENT/, optionally with L or U at the end"
            )
        at = match.end()
        if match["default"]:
            rules.append(Rule(None))
        elif match["pattern"] is not None:
            rules.append(Rule(_compiled(match["pattern"]), match["replacement"], match["case"]))
    return tuple(rules)


def principal_of(certificate: bytes, rules: tuple[Rule, ...]) -> str | None:
    """Return the principal of a client certificate, such as ``User:CN=client``; None if no rule matches its subject.

    Args:
        certificate: the certificate in DER.
        rules: the rules of ``ssl.principal.mapping.rules``; the first rule that matches is used.
    """
    name = distinguished_name(certificate)
    mapped = (rule.apply(name) for rule in rules)
    return next((f"User:{user}" for user in mapped if user is not None), None)


def distinguished_name(certificate: bytes) -> str:
    """Return the distinguished name of a certificate's subject in Java's format (RFC 2253).

    ``certificate``: the certificate in DER.
    """
    from cryptography.x509 import load_der_x509_certificate  # late: most clusters have no TLS

    subject = load_der_x509_certificate(certificate).subject
    return ",".join("+".join(map(_attribute_text, rdn)) for rdn in reversed(subject.rdns))


def name_text(name: Name) -> str:
    """Return a distinguished name as Java's X500Principal.toString formats it, such as ``CN=broker, O="A, B"``."""
    return ", ".join(" + ".join(map(_quoted, rdn)) for rdn in reversed(name.rdns))


def _quoted(attribute: NameAttribute[Any]) -> str:
    oid = attribute.oid.dotted_string
    keyword = KEYWORDS.get(oid) or MORE_KEYWORDS.get(oid, f"OID.{oid}")
    text = str(attribute.value)
    if not ESCAPED.isdisjoint(text) or text != text.strip() or "  " in text:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'{keyword}="{escaped}"'
    return f"{keyword}={text}"


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise SettingsError(f"{SETTING}: {pattern!r} is not a valid regular expression: {error}") from None


def _attribute_text(attribute: NameAttribute[Any]) -> str:
    oid = attribute.oid.dotted_string
    keyword = KEYWORDS.get(oid)
    if keyword is None:
        return f"{oid}=#{_encoded_value(attribute).hex()}"
    text = str(attribute.value)
    escaped = "".join(f"\\{char}" if char in ESCAPED else char for char in text)
    if text.startswith(" "):
        escaped = f"\\{escaped}"
    if text.endswith(" ") and len(text) > 1:
        escaped = f"{escaped[:-1]}\\ "
    return f"{keyword}={escaped}"


def _encoded_value(attribute: NameAttribute[Any]) -> bytes:
    """Return the DER encoding of the value of an attribute in a distinguished name."""
    from cryptography.x509 import Name

    content = Name([attribute]).public_bytes()
    for _ in range(3):  # a name, its only RDN, and the attribute
        content = _content(content)[0]
    return _content(content)[1]


def _content(encoded: bytes) -> tuple[bytes, bytes]:
    """Split DER data after its first element.

    Returns: The content of the first element, without tag and length, and the bytes after the element.
    """
    size, start = encoded[1], 2
    if size >= 0x80:
        start += size & 0x7F
        size = int.from_bytes(encoded[2:start], "big")
    return encoded[start : start + size], encoded[start + size :]
