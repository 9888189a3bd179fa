"""Places where a frame may begin."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tools.pcap import prefixed

import kwire
from kwire.capture.calls import frame_search
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@given(st.binary(max_size=300), st.binary(max_size=300), st.sampled_from(["billing-7", "ab", "", None]))
def test_the_place_is_among_those_found(before: bytes, after: bytes, client_id: str | None) -> None:
    frame = prefixed(kwire.encode_request(HeartbeatRequest(group_id="g"), 4, correlation_id=9, client_id=client_id))
    data = before + frame + after
    known = client_id.encode() if client_id is not None else None
    assert len(before) in frame_search.requests(data, None)
    assert len(before) in frame_search.requests(data, known)
    answer = prefixed(kwire.encode_response(HeartbeatResponse(), 4, correlation_id=77_777))
    assert len(before) in frame_search.responses(before + answer + after, [5, 77_777])


def test_nothing_to_find() -> None:
    for data in (b"", b"x" * 7, b"x" * 500, bytes(13)):
        assert frame_search.requests(data, None) == []
        assert frame_search.requests(data, b"billing-7") == []
        assert frame_search.responses(data, [5]) == []
        assert frame_search.responses(data, []) == []
