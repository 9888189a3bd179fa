from __future__ import annotations

from ipaddress import ip_address
from itertools import product
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.anonymize.pseudonyms import CONSTANTS, Pseudonyms

NAMES = Pseudonyms(b"a key for these tests")


@given(st.text())
def test_text_keeps_its_length_and_changes(text: str) -> None:
    replaced = NAMES.text(text)
    if text and text not in CONSTANTS:
        assert replaced != text
    assert len(replaced) == len(text.encode("utf-8", "surrogatepass"))


@given(st.binary())
def test_bytes_keep_their_length_and_change(data: bytes) -> None:
    replaced = NAMES.data(data)
    assert len(replaced) == len(data)
    assert replaced != data or not data


def test_short_texts_never_share_a_replacement() -> None:
    letters = "abcXYZ019._-!~ "
    texts = ["".join(parts) for size in (1, 2) for parts in product(letters, repeat=size)]
    assert len({NAMES.text(text) for text in texts}) == len(texts)


def test_replacements_are_the_same_for_one_key_only() -> None:
    again, other = Pseudonyms(b"a key for these tests"), Pseudonyms(b"another key for tests")
    for text in ("orders", "a-much-longer-name-of-a-topic"):
        assert again.text(text) == NAMES.text(text) != other.text(text)


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "10.20.30.255", "2001:db8::1", "fe80::1:2", "::ffff:10.0.0.1", "::1", "fe80::1%eth0"]
)
def test_addresses_become_addresses_of_the_same_length(text: str) -> None:
    replaced = NAMES.host(text)
    assert replaced != text
    assert len(replaced) == len(text)
    assert ip_address(replaced).version == ip_address(text).version


@pytest.mark.parametrize(
    ("text", "form"),
    [("/10.0.0.1", "/{}"), ("10.0.0.1:9092", "{}:9092"), ("[2001:db8::1]:9092", "[{}]:9092")],
)
def test_endpoints_keep_their_form_and_port(text: str, form: str) -> None:
    host = "2001:db8::1" if "db8" in text else "10.0.0.1"
    assert NAMES.host(host) != host
    assert (NAMES.host(text) if text.startswith("/") else NAMES.endpoint(text)) == form.format(NAMES.host(host))


def test_names_that_kafka_defines_remain() -> None:
    assert NAMES.text("__consumer_offsets") == "__consumer_offsets"
    assert NAMES.uuid(UUID(int=1)) == UUID(int=1)
    assert NAMES.uuid(UUID(int=2**64)) != UUID(int=2**64)
