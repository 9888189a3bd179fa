"""Names of certificates, as Java 17 writes them, and Kafka's rules for principals."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from mockbroker.base.settings import SettingsError
from mockbroker.security.ssl_principals import distinguished_name, parse_rules

COUNTRY, ORGANIZATION, NAME = NameOID.COUNTRY_NAME, NameOID.ORGANIZATION_NAME, NameOID.COMMON_NAME
NAMES = [  # attributes of the subject, the name that Java's X500Principal.getName returns
    ([(COUNTRY, "DE"), (ORGANIZATION, "a=b#c"), (NAME, " é,x ")], r"CN=\ é\,x\ ,O=a\=b\#c,C=DE"),
    ([(NameOID.EMAIL_ADDRESS, "x@y.z"), (NAME, 'q"<>;+\\')], r"CN=q\"\<\>\;\+\\,1.2.840.113549.1.9.1=#16057840792e7a"),
    ([(NameOID.SERIAL_NUMBER, "5"), (NAME, "two  spaces")], "CN=two  spaces,2.5.4.5=#130135"),
    ([(NameOID.TITLE, "t" * 200), (NameOID.USER_ID, "u")], f"UID=u,2.5.4.12=#0c81c8{'74' * 200}"),
    ([(NAME, "a\nb\tc#"), (NAME, "#x")], "CN=\\#x,CN=a\nb\tc\\#"),
]


def certificate(attributes: list[tuple[x509.ObjectIdentifier, str]]) -> bytes:
    key, name = Ed25519PrivateKey.generate(), x509.Name([x509.NameAttribute(*each) for each in attributes])
    day = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day)
    return builder.sign(key, None).public_bytes(Encoding.DER)


@pytest.mark.parametrize(("attributes", "name"), NAMES)
def test_name_of_a_certificate_is_javas(attributes: list[tuple[x509.ObjectIdentifier, str]], name: str) -> None:
    assert distinguished_name(certificate(attributes)) == name


KAFKAS = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L"
MAPPED = [  # rules, name of the certificate, user; None: no rule applies
    ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
    ("", "CN=a", None),
    (KAFKAS, "CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
    (KAFKAS, "CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
    (KAFKAS, "CN=other", None),
    (KAFKAS + ", DEFAULT", "CN=other", "CN=other"),
    ("RULE:^CN=(.*)$/$1/U,\nDEFAULT", "CN=a", "A"),
    ("RULE:^CN=(.*)$/$1-$2-$0/", "CN=a", "a-$2-CN=a"),
    ("RULE:CN/x/", "CN=a", None),
    (r"RULE:^CN=(.*)\/(.*)$/$2\/$1/", "CN=a/b", "b/a"),
]


@pytest.mark.parametrize(("rules", "name", "user"), MAPPED)
def test_first_rule_that_applies_maps_the_name(rules: str, name: str, user: str | None) -> None:
    applied = (rule.apply(name) for rule in parse_rules(rules))
    assert next((each for each in applied if each is not None), None) == user


@pytest.mark.parametrize("rules", ["x", "RULE:a", "RULE:a/b", "DEFAULT;DEFAULT", "RULE:a/b/X", "RULE:(/b/"])
def test_rule_that_is_refused(rules: str) -> None:
    with pytest.raises(SettingsError, match=r"ssl\.principal\.mapping\.rules: "):
        parse_rules(rules)
