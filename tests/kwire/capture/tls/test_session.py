"""TLS connections in captures, decrypted with the secrets that real OpenSSL endpoints wrote."""

from __future__ import annotations

import ssl
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from golden import ROOT
from tools.pcap import Segment, Talk, block, packets, pcap, pcapng, prefixed, shaken
from tools.tls_talk import TlsTalk

import kwire
from kwire.capture import Call, Connection, read
from kwire.capture.tls.ciphers import expand_label
from kwire.capture.tls.keylog import KeyLog, KeyLogFile
from kwire.capture.tls.session import MAX_TRIES, TlsSession
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
FORMS = [
    pytest.param(V12, "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256", id="1.2-AES-128"),
    pytest.param(V12, "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384", id="1.2-AES-256"),
    pytest.param(V12, "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305", id="1.2-ChaCha20"),
    pytest.param(V13, "DEFAULT", id="1.3"),
]
Written = Callable[..., str]


def heartbeats(talk: TlsTalk, count: int, first: int = 0) -> list[Segment]:
    segments: list[Segment] = []
    for number in range(first, first + count):
        body = HeartbeatRequest(group_id="orders", generation_id=number, member_id="m" * 40)
        segments += talk.say(True, prefixed(kwire.encode_request(body, 4, correlation_id=number, client_id="app")))
        segments += talk.say(False, prefixed(kwire.encode_response(HeartbeatResponse(), 4, correlation_id=number)))
    return segments


def result(
    written: Written, segments: Sequence[Segment], keylog: KeyLog | None
) -> tuple[list[tuple[int, bool]], Connection]:
    """Return the generation of each request and whether it has a response, and the connection."""
    calls: list[tuple[int, bool]] = []
    connections: list[Connection] = []
    for item in read(written(pcap(packets(segments))), keylog=keylog):
        if isinstance(item, Call) and item.request is not None:
            calls.append((item.request.generation_id, item.response is not None))
        elif isinstance(item, Connection):
            connections.append(item)
    [connection] = connections
    return calls, connection


@pytest.mark.parametrize(("version", "ciphers"), FORMS)
@pytest.mark.parametrize("mss", [7, 1_448])
def test_requests_and_responses_are_decrypted(
    tmp_path: Path, written: Written, version: ssl.TLSVersion, ciphers: str, mss: int
) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, version, ciphers, Talk(mss=mss))
    segments = talk.handshake() + heartbeats(talk, 20) + talk.talk.close()
    calls, connection = result(written, segments, KeyLogFile(keylog))
    assert calls == [(number, True) for number in range(20)]
    assert (connection.status, connection.client_id, connection.notes) == ("kafka", "app", [])
    assert connection.client.startswith("10.0.0.1:")


@pytest.mark.parametrize(("version", "ciphers"), FORMS)
def test_order_of_packets_does_not_matter(
    tmp_path: Path, written: Written, version: ssl.TLSVersion, ciphers: str
) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, version, ciphers)
    begin, *handshake = talk.handshake()
    handshake.sort(key=lambda segment: segment.source != talk.talk.client)  # captured on another interface
    segments = [begin, *handshake, *shaken(heartbeats(talk, 40), 4, moved=0.1, again=0.1), *talk.talk.close()]
    calls, connection = result(written, segments, KeyLogFile(keylog))
    assert (calls, connection.gaps) == ([(number, True) for number in range(40)], 0)


@pytest.mark.parametrize(("version", "ciphers"), FORMS)
def test_decryption_continues_after_missing_packets(
    tmp_path: Path, written: Written, version: ssl.TLSVersion, ciphers: str
) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, version, ciphers)
    kept = talk.handshake() + heartbeats(talk, 5)
    heartbeats(talk, 3, 5)  # six packets that were not captured
    kept += heartbeats(talk, 10, 8) + talk.talk.close()
    calls, connection = result(written, kept, KeyLogFile(keylog))
    assert [number for number, _ in calls] == [*range(5), *range(8, 18)]
    assert connection.gaps == 2
    assert connection.status == "kafka"


def test_large_frames_span_records(tmp_path: Path, written: Written) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, V13)
    body = HeartbeatRequest(group_id="g" * 30_000, generation_id=1, member_id="m" * 30_000)
    segments = talk.handshake() + talk.say(True, prefixed(kwire.encode_request(body, 4, correlation_id=1)))
    calls, _ = result(written, segments + heartbeats(talk, 1, 2) + talk.talk.close(), KeyLogFile(keylog))
    assert [number for number, _ in calls] == [1, 2]


def without(keylog: Path, label: str) -> KeyLog:
    secrets = KeyLog()
    secrets.add(b"".join(line for line in keylog.read_bytes().splitlines(True) if not line.startswith(label.encode())))
    return secrets


def test_secrets_of_the_handshake_are_not_needed(tmp_path: Path, written: Written) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, V13)
    segments = talk.handshake() + heartbeats(talk, 3) + talk.talk.close()
    secrets = without(keylog, "CLIENT_HANDSHAKE")
    calls, connection = result(written, segments, secrets)
    assert (calls, connection.gaps) == ([(0, True), (1, True), (2, True)], 0)


@pytest.mark.parametrize(("version", "label"), [(V12, "CLIENT_RANDOM"), (V13, "SERVER_TRAFFIC_SECRET_0")])
def test_connection_without_secrets_is_reported(
    tmp_path: Path, written: Written, version: ssl.TLSVersion, label: str
) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, version)
    segments = talk.handshake() + heartbeats(talk, 3) + talk.talk.close()
    calls, connection = result(written, segments, without(keylog, label))
    assert (calls, connection.status) == ([], "tls")
    assert connection.notes[0] == "TLS for broker.example"
    assert connection.notes[1].startswith("TLS: the key log has no secret for the client random ")


@pytest.mark.parametrize(("version", "ciphers"), FORMS)
def test_wrong_secrets_are_reported(tmp_path: Path, written: Written, version: ssl.TLSVersion, ciphers: str) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, version, ciphers)
    segments = talk.handshake() + heartbeats(talk, 100) + talk.talk.close()
    wrong = KeyLog()
    for line in keylog.read_text("ascii").splitlines():
        if not line.startswith("#"):
            label, known, secret = line.split()
            wrong.add(f"{label} {known} {secret[::-1]}\n".encode())
    calls, connection = result(written, segments, wrong)
    assert (calls, connection.status) == ([], "tls")
    assert connection.notes[1] == "TLS: the secrets in the key log are those of another connection"


def test_other_cipher_suites_are_reported(tmp_path: Path, written: Written) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, V12, "ECDHE-ECDSA-AES128-SHA256:ECDHE-RSA-AES128-SHA256")
    segments = talk.handshake() + heartbeats(talk, 1) + talk.talk.close()
    _, connection = result(written, segments, KeyLogFile(keylog))
    assert connection.notes[1].startswith("TLS: cipher suite 0xc0")
    assert connection.notes[1].endswith(" is not supported (only AES-GCM and ChaCha20-Poly1305)")


def test_missing_handshake_is_reported(tmp_path: Path, written: Written) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, V13)
    segments = talk.handshake()
    first = next(number for number, segment in enumerate(segments) if segment.payload)
    del segments[first]
    calls, connection = result(written, segments + heartbeats(talk, 3) + talk.talk.close(), KeyLogFile(keylog))
    assert (calls, connection.status) == ([], "tls")


def test_plain_connections_beside_a_key_log_are_read(tmp_path: Path, written: Written) -> None:
    keylog = tmp_path / "keys"
    TlsTalk(keylog, V13).handshake()
    talk = Talk()
    segments = talk.open()
    body = HeartbeatRequest(group_id="orders", generation_id=1, member_id="m")
    segments += talk.say(True, prefixed(kwire.encode_request(body, 4, correlation_id=1)))
    segments += talk.say(False, prefixed(kwire.encode_response(HeartbeatResponse(), 4, correlation_id=1)))
    calls, connection = result(written, segments + talk.close(), KeyLogFile(keylog))
    assert (calls, connection.status) == ([(1, True)], "kafka")


@pytest.mark.parametrize("order", ["<", ">"])
def test_secrets_in_a_pcapng_file_are_used(tmp_path: Path, written: Written, order: str) -> None:
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, V13)
    content = pcapng(packets(talk.handshake() + heartbeats(talk, 3) + talk.talk.close()), order=order)
    secrets = keylog.read_bytes()
    head = 28  # bytes of the Section Header Block
    dsb = block(10, struct.pack(f"{order}II", 0x544C534B, len(secrets)) + secrets, order)
    path = written(content[:head] + dsb + content[head:], "trace.pcapng")
    assert [call.request.generation_id for call in read(path).calls() if call.request] == [0, 1, 2]


@pytest.mark.parametrize("name", ["kafka_python_1_2", "kafka_python_1_3"])
def test_traffic_of_a_real_client_is_decrypted(name: str) -> None:
    path = str(ROOT / "fixtures" / "tls" / f"{name}.pcap")
    apis: Counter[str] = Counter()
    statuses = set()
    for item in read(path, keylog=KeyLogFile(path.replace(".pcap", ".keys"))):
        if isinstance(item, Call) and item.response is not None:
            apis[type(item.request).__name__] += 1
        elif isinstance(item, Connection):
            statuses.add((item.status, item.gaps))
    assert statuses == {("kafka", 0)}
    assert (apis["JoinGroupRequest"], apis["SyncGroupRequest"], apis["LeaveGroupRequest"]) == (2, 1, 1)
    assert apis["OffsetCommitRequest"] >= 1
    assert {item.status for item in read(path) if isinstance(item, Connection)} == {"tls"}


def test_hostile_bytes_after_a_gap_cost_bounded_work(tmp_path: Path) -> None:
    """Each offset looks like the header of a record, and after a gap any sequence number is possible."""
    keylog = tmp_path / "keys"
    talk = TlsTalk(keylog, V13)
    handshake = talk.handshake() + heartbeats(talk, 1)
    session = TlsSession(KeyLogFile(keylog))
    for segment in handshake:
        if segment.payload:
            session.feed(segment.source == talk.talk.client, segment.payload)
    assert session.refused is None
    session.lost(True, 1 << 30)
    began = time.process_time()
    for _ in range(100):
        session.feed(True, b"\x17\x03\x03\x00\x14" * 2_000)
    assert session.refused == "too many bytes are missing"
    assert MAX_TRIES == 20_000
    assert time.process_time() - began < 10  # minutes without the limit


def test_records_before_the_server_hello_are_held_up_to_a_limit(tmp_path: Path) -> None:
    talk = TlsTalk(tmp_path / "keys", V13)
    hello = next(segment.payload for segment in talk.handshake() if segment.payload)
    session = TlsSession(KeyLogFile(tmp_path / "keys"))
    session.feed(True, hello)
    record = b"\x17\x03\x03\x40\x00" + bytes(16_384)
    for number in range(1, 64):
        session.feed(True, record)
        assert session.held == number * len(record)
    session.feed(True, record)
    assert session.refused == "no ServerHello was captured"


def fed(session: TlsSession, segments: Sequence[Segment], client: object) -> list[tuple[bool, bytes]]:
    """Return the decrypted bytes of segments."""
    found: list[tuple[bool, bytes]] = []
    for segment in segments:
        if segment.payload:
            found += session.feed(segment.source == client, segment.payload)
    return found


@pytest.mark.parametrize(("version", "ciphers"), FORMS)
def test_state_without_secrets_is_enough_to_continue(tmp_path: Path, version: ssl.TLSVersion, ciphers: str) -> None:
    """This holds after each packet: in the handshake, within records and between them."""
    talk = TlsTalk(tmp_path / "keys", version, ciphers, Talk(mss=100))
    segments = talk.handshake() + heartbeats(talk, 5)
    keylog = KeyLogFile(tmp_path / "keys")
    expected = fed(TlsSession(keylog), segments, talk.talk.client)
    session, found = TlsSession(keylog), []
    for segment in segments:
        found += fed(session, [segment], talk.talk.client)
        session.forget_secrets()
        session.use_secrets(keylog)
    assert found == expected
    assert b"orders" in b"".join(data for _, data in found)


def test_state_cannot_continue_with_another_key_log(tmp_path: Path) -> None:
    talk = TlsTalk(tmp_path / "keys", V13)
    session = TlsSession(KeyLogFile(tmp_path / "keys"))
    fed(session, talk.handshake(), talk.talk.client)
    assert session.refused is None
    session.forget_secrets()
    session.use_secrets(KeyLog())
    assert session.refused is not None
    assert session.refused.startswith("the key log has no secret for the client random ")


class Sealed:
    """The client's next records of a TLS 1.3 connection with AES-256, as it sends them after KeyUpdate messages."""

    def __init__(self, secret: bytes) -> None:
        self.secret, self.number = secret, 0

    def record(self, content: bytes, kind: int = 23) -> bytes:
        key, iv = (expand_label("sha384", self.secret, *form) for form in ((b"key", 32), (b"iv", 12)))
        nonce = (int.from_bytes(iv, "big") ^ self.number).to_bytes(12, "big")
        header = b"\x17\x03\x03" + (len(content) + 17).to_bytes(2, "big")
        self.number += 1
        return header + AESGCM(key).encrypt(nonce, content + bytes([kind]), header)

    def update(self) -> bytes:
        message = self.record(b"\x18\0\0\x01\0", 22)
        self.secret, self.number = expand_label("sha384", self.secret, b"traffic upd", 48), 0
        return message


def test_keys_are_updated(tmp_path: Path) -> None:
    """This also works after the session was stored without secrets."""
    talk = TlsTalk(tmp_path / "keys", V13)
    segments = talk.handshake()
    keylog = KeyLogFile(tmp_path / "keys")
    session = TlsSession(keylog)
    fed(session, segments, talk.talk.client)
    (secret,) = (line.split()[2] for line in keylog.lines().splitlines() if line.startswith(b"CLIENT_TRAFFIC"))
    assert len(secret) == 96, "AES-256"
    sealed = Sealed(bytes.fromhex(secret.decode()))
    for number in range(3):
        assert session.feed(True, sealed.record(b"data %d" % number)) == [(True, b"data %d" % number)]
        session.forget_secrets()
        session.use_secrets(keylog)
        assert session.feed(True, sealed.update()) == []
