"""The names in certificates as Java formats them, and the replacement of a keystore."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.keystores import write_keystores

from mockbroker.security.keystore_rules import KeystoreEntry, read_entry, replacement_error
from mockbroker.security.keystores import Contents, read_keystore

NAMES = (2, "localhost"), (7, "127.0.0.1")


def keystore(path: Path) -> Contents:
    found = read_keystore({"ssl.keystore.location": str(path)}.get)
    assert found is not None
    return found


def test_an_entry_has_the_subject_and_the_alternative_names(tmp_path: Path) -> None:
    subject, names = 'CN=a\\, b,OU=\\" c,O=two  spaces,2.5.4.5=17,2.5.4.13=d', "localhost 10.0.0.1 fe80::1 a@b.example"
    write_keystores(tmp_path, {"one": {"subject": subject, "names": names}})
    entry = read_entry(keystore(tmp_path / "one"))
    assert entry.subject == 'CN="a, b", OU="\\" c", O="two  spaces", SERIALNUMBER=17, OID.2.5.4.13=d'
    assert entry.names == ((2, "localhost"), (7, "10.0.0.1"), (7, "fe80:0:0:0:0:0:0:1"), (1, "a@b.example"))


@pytest.mark.parametrize(
    ("subject", "names", "differs"),
    [
        pytest.param("CN=broker", NAMES, None, id="the same"),
        pytest.param("CN=BROKER", NAMES[::-1], None, id="case and order"),
        pytest.param("CN=broker", (*NAMES, (2, "other")), None, id="one name more"),
        pytest.param("CN=broker 2", NAMES, "DistinguishedName", id="another subject"),
        pytest.param("CN=broker", NAMES[:1], "SubjectAltNames", id="one name less"),
        pytest.param("CN=broker", ((7, "localhost"), NAMES[1]), "SubjectAltNames", id="another type"),
    ],
)
def test_a_replacement_keeps_the_subject_and_all_names(
    subject: str, names: tuple[tuple[int, str], ...], differs: str | None
) -> None:
    error = replacement_error(KeystoreEntry("CN=broker", NAMES), KeystoreEntry(subject, names))
    assert (error is None) is (differs is None)
    assert differs is None or f"Keystore {differs} do" in str(error)
