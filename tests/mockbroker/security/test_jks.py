"""Keystores in the format JKS; test_keystores.py tests the contents of whole keystores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.keystores import write_keystores

from mockbroker.security import jks


@pytest.fixture(scope="module")
def a_jks(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("jks")
    write_keystores(folder, {"store": {"names": "localhost", "parts": "jks"}})
    return (folder / "store").read_bytes()


@given(at=st.integers(0, 2_000), noise=st.binary(max_size=8))
def test_changed_jks_is_refused_or_read(a_jks: bytes, at: int, noise: bytes) -> None:
    """Without a password, the digest is not checked. Changed bytes cause no other exception than ValueError."""
    changed = a_jks[:at] + noise + a_jks[at + len(noise) // 2 :]
    try:
        for entry in jks.read_jks(changed, None):
            jks.private_key(entry, "changeit")
    except ValueError:
        return


def test_changed_jks_does_not_match_its_digest(a_jks: bytes) -> None:
    assert jks.read_jks(a_jks, "changeit")
    with pytest.raises(ValueError, match="password is wrong"):
        jks.read_jks(a_jks[:40] + b"\0" + a_jks[41:], "changeit")
