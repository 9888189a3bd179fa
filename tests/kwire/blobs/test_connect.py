from __future__ import annotations

import golden
import pytest

from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.connect import ConnectAssignment, ConnectWorkerState
from kwire.errors import EncodeError, UnknownApi

Connector = ConnectAssignment.Connector


def test_allocation_is_an_assignment() -> None:
    """Each line holds the assignment of the line before it."""
    held = [line for line in golden.blobs("fixtures", "ConnectWorkerState") if line["fields"].get("allocation")]
    assert len(held) == 4
    for line in held:
        state, version = decode_stored(ConnectWorkerState, bytes.fromhex(line["hex_as_stored"]))
        assert state.allocation is not None
        assignment, inside = decode_stored(ConnectAssignment, state.allocation)
        assert (inside, assignment.leader) == (version, "leader-1")


def test_eager_workers_give_nothing_up() -> None:
    with pytest.raises(EncodeError, match="revoked"):
        encode_stored(ConnectAssignment(revoked=[Connector(connector="a", tasks=[-1])]), 0)
    with pytest.raises(EncodeError, match="assignment"):
        encode_stored(ConnectAssignment(assignment=None), 0)
    assert decode_stored(ConnectAssignment, encode_stored(ConnectAssignment(assignment=None), 2))[0].assignment is None


def test_newer_versions_are_read_as_the_newest() -> None:
    state = ConnectWorkerState(url="http://a:1/", config_offset=7)
    stored = b"\0\7" + encode_stored(state, 2)[2:] + b"more"
    assert decode_stored(ConnectWorkerState, stored) == (state, 7)
    with pytest.raises(UnknownApi, match="has no version -1: its versions are 0-2"):
        decode_stored(ConnectWorkerState, b"\xff\xff")
