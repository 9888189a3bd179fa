"""Control records as blobs; records/test_control.py tests how readers of logs interpret them."""

from __future__ import annotations

import pytest

from kwire.blobs import SELF_DESCRIBED, STORED, decode_stored, encode_stored
from kwire.blobs.control_records import KRaftVersionRecord, LeaderChangeMessage, SnapshotFooterRecord
from kwire.errors import EncodeError, Truncated, UnknownApi


def test_version_is_a_field_of_the_message() -> None:
    assert encode_stored(KRaftVersionRecord(k_raft_version=1), 0) == bytes.fromhex("0000" + "0001" + "00")
    assert decode_stored(KRaftVersionRecord, bytes.fromhex("0000000100")) == (KRaftVersionRecord(k_raft_version=1), 0)


def test_a_leader_with_directories() -> None:
    message = LeaderChangeMessage(version=1, leader_id=3, voters=[LeaderChangeMessage.Voter(voter_id=3)])
    assert decode_stored(LeaderChangeMessage, encode_stored(message, 1)) == (message, 1)


def test_message_with_another_version_field() -> None:
    with pytest.raises(EncodeError, match="LeaderChangeMessage v1, version: the version field is 0"):
        encode_stored(LeaderChangeMessage(), 1)


def test_newer_ones_are_read_as_the_newest() -> None:
    assert decode_stored(SnapshotFooterRecord, bytes.fromhex("000700cafe")) == (SnapshotFooterRecord(version=7), 7)


@pytest.mark.parametrize("name", SELF_DESCRIBED)
def test_no_version(name: str) -> None:
    width = SELF_DESCRIBED[name]
    with pytest.raises(Truncated, match=f"expected {width} bytes of version, found {width - 1}"):
        decode_stored(STORED[name], bytes(width - 1))
    with pytest.raises(UnknownApi, match=r"has no version -1: its versions are"):
        decode_stored(STORED[name], b"\xff" * width)
