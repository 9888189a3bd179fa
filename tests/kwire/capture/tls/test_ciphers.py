"""Key derivation and records of TLS, compared with RFC 8448 and the test vectors for the PRF of TLS 1.2."""

from __future__ import annotations

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kwire.capture.tls.ciphers import SUITES, Keys12, Keys13, _prf, expand_label, keys_of_tls_1_2

SECRET = bytes.fromhex("b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38")
KEY, IV = bytes.fromhex("3fce516009c21727d0f2e4e86ee403bc"), bytes.fromhex("5d313eb2671276ee13000b30")
PRF = (
    "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af"
    "0fa022f7077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff701"
    "87347b66"
)


def test_keys_of_tls_1_3_are_those_of_rfc_8448() -> None:
    assert expand_label("sha256", SECRET, b"key", 16) == KEY
    assert expand_label("sha256", SECRET, b"iv", 12) == IV


def test_label_may_be_expanded_beyond_one_block() -> None:
    long = expand_label("sha256", SECRET, b"key", 80)
    assert (len(long), long[:32] != long[32:64]) == (80, True)


def test_prf_of_tls_1_2_is_that_of_the_test_vector() -> None:
    seed = b"test label" + bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c")
    assert _prf("sha256", bytes.fromhex("9bbe436ba940f017b17652849a71db35"), seed, 100).hex() == PRF


def test_padding_of_tls_1_3_is_removed() -> None:
    header = b"\x17\x03\x03\x00\x20"
    keys = Keys13(SUITES[0x1301], SECRET)
    for plain, expected in ((b"data\x17\0\0\0", (23, b"data")), (b"\0\0", (0, b""))):
        assert keys.decrypt(header, AESGCM(KEY).encrypt(IV, plain, header), 0) == expected
    assert keys.decrypt(header, AESGCM(KEY).encrypt(IV, b"x\x17", header), 1) is None
    assert keys.decrypt(header, b"short", 0) is None


def test_short_records_are_refused() -> None:
    for suite in (0xC02F, 0xCCA8):
        client, server = keys_of_tls_1_2(SUITES[suite], bytes(48), bytes(64))
        assert isinstance(client, Keys12)
        assert client.decrypt(b"\x17\x03\x03\0\x05", b"short", 0) is None
        assert server.decrypt(b"\x17\x03\x03\0\x20", bytes(32), 0) is None
