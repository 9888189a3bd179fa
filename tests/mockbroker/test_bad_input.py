"""Bytes that no client should send, and the broker's reaction: the inputs of fixtures/bad_inputs.md.

Each input is sent to one broker as raw bytes, on a separate connection. Whatever the input is, the broker serves a
healthy connection before and after it, and the group of the healthy member does not change. Inputs that need time, many
connections or a peer that does not read have separate tests, which ELSEWHERE lists.
"""

from __future__ import annotations

import logging
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bad_inputs import inputs
from plain_client import RawConnection

import mockbroker
from kwire import ErrorCode as E
from kwire import decode_response
from kwire.frames import MAX_FRAME, pack
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.sync_group import SyncGroupRequest

HERE = Path(__file__).parent
CLOSED, OPEN = "closed", "open"
METADATA, HEARTBEAT, JOIN, API_VERSIONS, PRODUCE, VOTE, LEADER_AND_ISR, FETCH = 3, 12, 11, 18, 0, 52, 4, 1


def header(key: int, version: int, *, client: bytes = b"\0\1c", tags: bytes = b"") -> bytes:
    return struct.pack(">hhi", key, version, 7) + client + tags


def frame(*parts: bytes) -> bytes:
    return pack(b"".join(parts))


def metadata_v1(topics: bytes) -> bytes:
    return frame(header(METADATA, 1), topics)


def metadata_v9(topics: bytes, rest: bytes = b"\1\0\0\0", tags: bytes = b"\0") -> bytes:
    return frame(header(METADATA, 9, tags=tags), topics, rest)


def heartbeat_v4(tags: bytes) -> bytes:
    """Return a flexible Heartbeat of an unknown member, with this tagged section."""
    return frame(header(HEARTBEAT, 4, tags=b"\0"), b"\2g", struct.pack(">i", 1), b"\2m", b"\0", tags)


def heartbeat_v0(group: bytes = b"\0\1g", member: bytes = b"\0\1m") -> bytes:
    return frame(header(HEARTBEAT, 0), group, struct.pack(">i", 1), member)


def join_v5(protocols: bytes) -> bytes:
    """Return a JoinGroup of a new member with these protocols, which are encoded already."""
    body = b"\0\1g" + struct.pack(">ii", 10_000, 10_000) + b"\0\0" + b"\xff\xff" + b"\0\x08consumer" + protocols
    return frame(header(JOIN, 5), body)


def api_versions_v3(name: bytes) -> bytes:
    return frame(header(API_VERSIONS, 3, tags=b"\0"), name, b"\x041.0\0")


def error(key: int, version: int, code: E) -> Any:
    """Return a function that checks that a frame is the response with this error."""

    def check(answer: bytes) -> None:
        body = decode_response(answer, key, version).body
        assert body.error_code == code

    return check


def too_new(answer: bytes) -> None:
    decoded = decode_response(answer, API_VERSIONS, 99)
    assert (decoded.version, decoded.body.error_code) == (0, E.UNSUPPORTED_VERSION)
    assert [(one.api_key, one.min_version, one.max_version) for one in decoded.body.api_keys] == [(18, 0, 4)]


def answered(key: int, version: int) -> Any:
    return lambda answer: decode_response(answer, key, version)


ONE_TOPIC = b"\0\0\0\1\0\1t"
UNKNOWN = E.UNKNOWN_MEMBER_ID
ROWS = [  # name in the table, name of the test, bytes, the broker's reaction
    ("negative length", "length -1", b"\xff\xff\xff\xff", CLOSED),
    ("length 0", "length 0", b"\0\0\0\0", CLOSED),
    *(
        ("length 1 to 7, too short for a header", f"length {size}", frame(bytes(range(size))), CLOSED)
        for size in range(1, 8)
    ),
    ("length 2^31-1", "length 2^31-1", b"\x7f\xff\xff\xff", CLOSED),
    ("length one above the limit", "length one above the limit", struct.pack(">i", MAX_FRAME + 1), CLOSED),
    ("length at the limit, without a body", "length at the limit, no body", struct.pack(">i", MAX_FRAME), OPEN),
    ("TLS hello on a plaintext port", "TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", CLOSED),
    ("HTTP request", "HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", CLOSED),
    ("SSH banner, random bytes, zeros", "SSH", b"SSH-2.0-OpenSSH_9.2\r\n", CLOSED),
    (
        "SSH banner, random bytes, zeros",
        "random bytes",
        bytes.fromhex("f5b165224a58b791df6af1d8303e61cdc4bb86c3"),
        CLOSED,
    ),
    ("SSH banner, random bytes, zeros", "zeros", bytes(64), CLOSED),
    ("PROXY protocol header", "PROXY header", b"PROXY TCP4 1.2.3.4 1.2.3.4 5 6\r\n", CLOSED),
    ("unknown API key", "key 999", frame(header(999, 0)), CLOSED),
    ("unknown API key", "key -5", frame(header(-5, 0)), CLOSED),
    ("removed version", "Produce v0", frame(header(PRODUCE, 0), bytes(10)), CLOSED),
    ("removed version", "Fetch v3", frame(header(FETCH, 3), bytes(20)), CLOSED),
    ("version above or below all", "Metadata v99", frame(header(METADATA, 99, tags=b"\0"), bytes(10)), CLOSED),
    ("version above or below all", "Metadata v-1", frame(header(METADATA, -1), bytes(10)), CLOSED),
    (
        "ApiVersions in an unknown version",
        "ApiVersions v99",
        frame(header(API_VERSIONS, 99, tags=b"\0"), b"\2a\2b\0"),
        too_new,
    ),
    ("ApiVersions in an unknown version", "ApiVersions v-1", frame(header(API_VERSIONS, -1, tags=b"\0")), too_new),
    (
        "header of an ApiVersions response",
        "ApiVersions response with header v0",
        api_versions_v3(b"\2a"),
        error(API_VERSIONS, 3, E.NONE),
    ),
    ("ApiVersions v3 with a v1 header", "ApiVersions v3 with a v1 header", frame(header(API_VERSIONS, 3)), CLOSED),
    (
        "client software name invalid or empty",
        "client software name with !",
        api_versions_v3(b"\3a!"),
        error(API_VERSIONS, 3, E.INVALID_REQUEST),
    ),
    (
        "client software name invalid or empty",
        "client software name empty",
        api_versions_v3(b"\1"),
        error(API_VERSIONS, 3, E.INVALID_REQUEST),
    ),
    ("API that a broker's port does not serve", "Vote", frame(header(VOTE, 0, tags=b"\0"), bytes(10)), CLOSED),
    ("API that a broker's port does not serve", "LeaderAndIsr", frame(header(LEADER_AND_ISR, 0), bytes(30)), CLOSED),
    (
        "client id null",
        "client id null",
        frame(header(METADATA, 1, client=b"\xff\xff"), ONE_TOPIC),
        answered(METADATA, 1),
    ),
    (
        "client id of length -2",
        "client id length -2",
        frame(header(METADATA, 1, client=b"\xff\xfe"), ONE_TOPIC),
        answered(METADATA, 1),
    ),
    (
        "client id that is not UTF-8",
        "client id not UTF-8",
        frame(header(METADATA, 1, client=b"\0\2\xff\xfe"), ONE_TOPIC),
        answered(METADATA, 1),
    ),
    (
        "client id longer than the frame",
        "client id of 30000, 1 there",
        frame(header(METADATA, 1, client=b"\x75\x30c")),
        CLOSED,
    ),
    ("array of 2^31-1 elements without bytes", "2^31-1 topics, none there", metadata_v1(b"\x7f\xff\xff\xff"), CLOSED),
    (
        "array of 10^6 elements in 6 bytes",
        "10^6 topics in 6 bytes",
        metadata_v1(struct.pack(">i", 10**6) + b"\0\1t\0\1u"),
        CLOSED,
    ),
    ("null array that may not be null", "null array of protocols", join_v5(b"\xff\xff\xff\xff"), CLOSED),
    ("array of length -2", "array count -2 is null", metadata_v1(b"\xff\xff\xff\xfe"), answered(METADATA, 1)),
    ("null string that may not be null", "null topic name", metadata_v1(b"\0\0\0\1\xff\xff"), CLOSED),
    (
        "compact length 0 that may not be null",
        "compact length 0 where null is not allowed",
        metadata_v9(b"\2\0"),
        CLOSED,
    ),
    ("compact length off by one", "compact length off by one", metadata_v9(b"\2\1t\0"), CLOSED),
    (
        "varint of 5 bytes that continues",
        "varint of 5 bytes that continues",
        metadata_v9(b"\xff\xff\xff\xff\xff\1"),
        CLOSED,
    ),
    ("varint above 2^31-1", "varint above 2^31-1", metadata_v9(b"\xff\xff\xff\xff\x0f"), CLOSED),
    ("overlong varint", "overlong zero", heartbeat_v4(b"\x80\x80\0"), error(HEARTBEAT, 4, UNKNOWN)),
    ("unknown tag", "unknown tag in the header", metadata_v9(b"\1", b"\0\0\0\0", b"\1\x09\2ab"), answered(METADATA, 9)),
    ("duplicate tag", "a tag twice", heartbeat_v4(b"\2\x09\1a\x09\1b"), error(HEARTBEAT, 4, UNKNOWN)),
    ("tags out of order", "tags out of order", heartbeat_v4(b"\2\x09\1a\x08\1b"), error(HEARTBEAT, 4, UNKNOWN)),
    ("tag longer than the frame", "tag size past the end", heartbeat_v4(b"\1\x09\x7fa"), CLOSED),
    ("tag size ff ff ff ff 0f", "tag size ff ff ff ff 0f", heartbeat_v4(b"\1\x09\xff\xff\xff\xff\x0f"), CLOSED),
    ("2^31 tags", "2^31 tags", heartbeat_v4(b"\x80\x80\x80\x80\x08"), CLOSED),
    (
        "bytes after the body",
        "bytes after the body",
        frame(heartbeat_v0()[4:], b"more"),
        error(HEARTBEAT, 0, UNKNOWN),
    ),
    ("boolean of 2 to 255", "a boolean of 2", frame(header(METADATA, 4), b"\0\0\0\0", b"\2"), answered(METADATA, 4)),
    *(
        ("truncated body", f"a Heartbeat cut at {size}", frame(heartbeat_v0()[4:][:size]), CLOSED)
        for size in range(len(heartbeat_v0()) - 4)
    ),
    (
        "empty group id",
        "Heartbeat for the empty group",
        heartbeat_v0(group=b"\0\0"),
        error(HEARTBEAT, 0, E.INVALID_GROUP_ID),
    ),
    (
        "odd group id: 32767 bytes, NUL, newline, ../",
        "group id of 32767 bytes",
        heartbeat_v0(b"\x7f\xff" + b"g" * 32_767),
        error(HEARTBEAT, 0, UNKNOWN),
    ),
    (
        "odd group id: 32767 bytes, NUL, newline, ../",
        "group id with NUL and ../",
        heartbeat_v0(b"\0\7../\0\n/x"),
        error(HEARTBEAT, 0, UNKNOWN),
    ),
    (
        "no protocols, empty protocol type",
        "no protocols",
        join_v5(b"\0\0\0\0"),
        error(JOIN, 5, E.INCONSISTENT_GROUP_PROTOCOL),
    ),
    ("null metadata", "metadata null", join_v5(b"\0\0\0\1\0\5range\xff\xff\xff\xff"), CLOSED),
    (
        "Heartbeat of an unknown group",
        "Heartbeat for a group that is not there",
        heartbeat_v0(),
        error(HEARTBEAT, 0, UNKNOWN),
    ),
]
ELSEWHERE = {  # name in the table -> its test, "end of the path::test"
    "the same on a thousand connections": "test_bad_input.py::test_announced_frames_of_100_mib_are_not_allocated",
    "request that arrives too slowly": "test_server.py::test_slow_request_is_closed_at_its_deadline",
    "half-close after a request": "test_server.py::test_half_close_after_a_request_is_answered",
    "half-close inside a frame": "test_server.py::test_half_close_inside_a_frame_is_quiet",
    "reset while an answer is written": "test_server.py::test_reset_while_an_answer_is_written",
    "peer that never reads": "test_server.py::test_peer_that_never_reads_is_closed",
    "many idle connections": "test_bad_input.py::test_idle_connections_are_served",
    "no file descriptors left": "test_server.py::test_too_many_open_files_backs_off_and_recovers",
    "thousand requests in one segment": "test_server.py::test_thousand_requests_in_one_segment",
    "segment boundary at every byte": "test_server.py::test_requests_that_arrive_byte_by_byte",
    "one correlation id twice": "net/test_connection.py::test_duplicate_correlation_id_gets_two_answers",
    "plaintext on a TLS port": "test_security.py::test_connection_before_authentication",
    "response without a request": "kwire/test_connection.py::test_an_answer_without_a_request",
    "response with another correlation id": "kwire/test_connection.py::test_an_answer_out_of_order",
    "string longer than 32767 to be written": "test_bad_inputs.py::test_string_longer_than_its_length_field_is_not_written",
    "array of elements without size": "test_bad_inputs.py::test_no_array_has_elements_of_size_zero",
    "varlong of more than 10 bytes": "test_bad_inputs.py::test_varlong_of_more_than_10_bytes_is_refused",
    "known tag of another size than its type": "test_bad_inputs.py::test_bad_input",
    "zero UUID, NaN": "test_bad_inputs.py::test_floats_keep_their_bits",
    "deep nesting": "test_bad_inputs.py::test_no_message_is_nested_deeper_than_ten",
    "millions of tiny elements": "test_bad_inputs.py::test_number_of_elements_is_limited",
    "session timeout out of range": "test_join_group.py::test_rejected",
    "rebalance timeout 0 or negative": "classic/test_machine.py::test_zero_and_negative_rebalance_timeouts",
    "duplicate protocol names": "test_join_group.py::test_first_of_duplicate_protocol_names_wins",
    "thousand protocols, empty protocol name": "classic/test_machine.py::test_thousand_protocols_and_an_empty_name",
    "unreadable subscription metadata": "test_join_group.py::test_undecodable_metadata_is_stored",
    "metadata of 2 MB": "classic/test_machine.py::test_unreadable_metadata_is_stored",
    "other protocol type, no common protocol": "classic/test_machine.py::test_join_refused",
    "unknown member id": "test_join_group.py::test_rejected",
    "JoinGroup v4 without a member id": "test_join_group.py::test_first_join",
    "odd instance id: empty, 300 bytes, two dots": "test_static.py::test_any_instance_id_is_accepted",
    "one instance id twice": "test_static.py::test_the_old_id_is_fenced_after_a_restart",
    "OffsetCommit of an old generation": "test_offset_commit.py::test_unknown_topic_comes_before_illegal_generation",
    "offset -5, offset 2^63-1": "test_offset_commit.py::test_any_offset_is_stored",
    "commit metadata too long": "test_offset_commit.py::test_metadata_limit_counts_utf16_units",
    "commit to an unknown partition": "test_offset_commit.py::test_unknown_partitions_come_first",
    "commit with a member id and generation -1": "test_rules.py::test_commit",
    "assignment that names unknown topics": "classic/test_machine.py::test_assignments_are_opaque",
    "assignments of a follower": "classic/test_machine.py::test_assignments_of_a_follower_are_ignored",
    "leader that never syncs": "classic/test_machine.py::test_leader_that_never_syncs_is_removed",
    "FindCoordinator of key type 9": "test_find_coordinator.py::test_unsupported_key_types",
    "invalid topic name": "test_create_topics.py::test_rejected",
    "ConsumerGroupHeartbeat with invalid fields": "test_consumer_group_heartbeat.py::test_invalid_fields",
    "ConsumerGroupHeartbeat of an unknown member or epoch": "consumer/test_machine.py::test_valid_member_epochs",
    "unknown assignor, invalid regular expression": "test_regex.py::test_error_messages_are_those_of_re2j",
    "regular expression with nested repeats": "test_regex.py::test_matching_takes_linear_time",
    "classic join to a group of the consumer protocol": "test_mixed.py::test_join_is_answered_at_once_and_the_member_never_leads",
    "ten thousand members, ten thousand groups": "test_load.py::test_thousands_of_groups",
    "Metadata asked again and again": "test_load.py::test_repeated_metadata_costs_the_same_in_any_cluster",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[mockbroker.Cluster]:
    config = {"group.initial.rebalance.delay.ms": 0, "connections.max.idle.ms": 3_600_000}
    with mockbroker.run_cluster(topics={"t": 1}, config=config) as found:
        yield found


class Healthy(RawConnection):
    """A member that joined before, and remains in its group."""

    def __init__(self, servers: str) -> None:
        super().__init__(servers, client_id="healthy")
        join = JoinGroupRequest(
            group_id="well",
            session_timeout_ms=600_000,
            rebalance_timeout_ms=600_000,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.Protocol(name="range", metadata=b"\0\1\xff\xff\xff\xff")
            ],  # the broker does not parse it
        )
        self.member_id = self.ask(join, 3).member_id
        self.ask(SyncGroupRequest(group_id="well", generation_id=1, member_id=self.member_id), 2)

    def beats(self) -> bool:
        beat = HeartbeatRequest(group_id="well", generation_id=1, member_id=self.member_id)
        return self.ask(beat, 3).error_code == E.NONE


@pytest.fixture(scope="module")
def address(cluster: Any) -> tuple[str, int]:
    return cluster.nodes[0].host, cluster.nodes[0].port


@pytest.fixture(scope="module")
def healthy(cluster: Any) -> Iterator[Healthy]:
    with Healthy(cluster.bootstrap_servers) as found:
        yield found


@pytest.mark.parametrize(("name", "what", "data", "does"), ROWS, ids=[row[1] for row in ROWS])
def test_bad_input(cluster, healthy, caplog, name, what, data, does):
    caplog.set_level(logging.WARNING, logger="mockbroker")
    with RawConnection(cluster.bootstrap_servers) as connection:
        connection.send_bytes(data)
        if does == OPEN:
            assert healthy.beats()  # the broker has read the input before this Heartbeat
            connection.sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.sock.recv(1)
        elif does == CLOSED:
            assert connection.read_frame() is None
        else:
            does(connection.read_frame())
    assert healthy.beats()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (1 if does == CLOSED else 0), lines
    assert all(re.match(r"connection from 127\.0\.0\.1:\d+ closed: .", line) for line in lines)
    assert all(record.exc_info is None for record in caplog.records), "a refusal is no failure of ours"


def test_announced_frames_of_100_mib_are_not_allocated(address, healthy):
    """Kafka runs out of memory with twelve such frames."""
    before = resident_mib()
    promises = []
    try:
        for _ in range(1_000):
            promise = socket.create_connection(address, timeout=30)
            promise.sendall(struct.pack(">i", MAX_FRAME) + b"\0\3\0\1")
            promises.append(promise)
        assert healthy.beats()
        assert resident_mib() - before < 20 + 10  # for the broker, and for the thousand sockets of the test itself
    finally:
        for promise in promises:
            promise.close()
    assert healthy.beats()


def test_idle_connections_are_served(cluster, healthy):
    with ExitStack() as stack:
        idle = [stack.enter_context(RawConnection(cluster.bootstrap_servers)) for _ in range(500)]
        assert healthy.beats()
        assert idle[-1].ask(MetadataRequest(topics=[]), 1) is not None


def resident_mib() -> float:
    """Return the resident memory of this process, which includes the broker, in MiB."""
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("no /proc to read memory from")
    (kib,) = re.findall(r"VmRSS:\s+(\d+) kB", status.read_text())
    return int(kib) / 1024


def test_every_bad_input_has_a_test():
    sections = ("Framing and transport", "Header and primitive types", "Groups and topics")
    assert {name for name, *_ in ROWS} | set(ELSEWHERE) == {name for section in sections for name in inputs(section)}


@pytest.mark.parametrize("test", sorted(set(ELSEWHERE.values())))
def test_tests_elsewhere_are_there(test):
    file, _, name = test.partition("::")
    assert any(f"def {name}(" in path.read_text() for path in HERE.parent.rglob(file))
