from __future__ import annotations

import golden
import pytest

from kwire.codec import encode
from kwire.fuzz.sites import Site, message_sites, request_sites, response_sites
from kwire.fuzz.values import full
from kwire.layout import Fixed, List, Record
from kwire.messages import MODULES
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.metadata import MetadataRequest


def rows(sites: list[Site]) -> list[tuple[str, int, int, object, int]]:
    return [(site.path, site.offset, site.end, site.value, site.whole) for site in sites]


def test_a_request() -> None:
    frame = bytes.fromhex(
        "000c0004" + "00000001" + "000163" + "00" + "0267" + "00000007" + "026d" + "00" + "0109027878"
    )
    assert rows(request_sites(frame)) == [
        ("header.request_api_key", 0, 2, 12, 2),
        ("header.request_api_version", 2, 4, 4, 4),
        ("header.correlation_id", 4, 8, 1, 8),
        ("header.client_id", 8, 10, 1, 11),
        ("header", 11, 12, 0, 12),
        ("group_id", 12, 13, 1, 14),
        ("generation_id", 14, 18, 7, 18),
        ("member_id", 18, 19, 1, 20),
        ("group_instance_id", 20, 21, None, 21),
        ("", 21, 22, 1, 26),
    ]
    (entry,) = request_sites(frame)[-1].entries
    assert (entry.offset, entry.size_at, entry.content_at, entry.end, entry.tag) == (22, 23, 24, 26, 9)


def test_elements() -> None:
    data = encode(MetadataRequest(topics=[MetadataRequest.Topic(name="a"), MetadataRequest.Topic(name="bc")]), 1)
    topics, *names = message_sites(MetadataRequest, data, 1)
    assert (topics.path, topics.value, topics.first, topics.whole) == ("topics", 2, 7, 11)
    assert [name.path for name in names] == ["topics[0].name", "topics[1].name"]


@pytest.mark.parametrize("size", range(14))
def test_malformed_frame_has_the_sites_before_the_error(size: int) -> None:
    data = encode(full(HeartbeatRequest, 4), 4)
    assert rows(message_sites(HeartbeatRequest, data[:size], 4)) == [
        (path, offset, end, value, whole if whole <= size else end)
        for path, offset, end, value, whole in rows(message_sites(HeartbeatRequest, data, 4))
        if end <= size
    ]


@pytest.mark.parametrize("direction", ["request", "response"])
@pytest.mark.parametrize("stem", MODULES.values())
def test_every_byte_belongs_to_a_site(stem: str, direction: str) -> None:
    """The sites are in the order of the bytes, and cover whole frames except contents."""
    for line in golden.frames("fixtures", stem, direction):
        frame = bytes.fromhex(line["hex"])
        if direction == "request":
            sites = request_sites(frame)
        else:
            sites = response_sites(frame, line["api_key"], line["api_version"])
        at = 0
        for site in sites:
            assert site.offset <= at, (site, at)
            at = max(at, site.end if isinstance(site.node, (List, Record)) else site.whole)
            if isinstance(site.node, Fixed):
                assert frame[site.offset : site.end]
            at = max(at, site.whole)
        assert at == len(frame) - len(line.get("trailing") or "") // 2
