"""The ShareFetch requests of a share consumer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from mockbroker.client.share.acknowledgements import AcknowledgeType
from mockbroker.client.share.requests import ShareRequests
from mockbroker.client.share.session import ShareSession
from mockbroker.client.share.settings import ShareSettings

T, U = UUID(int=1), UUID(int=2)


def requests(**settings: Any) -> ShareRequests:
    metadata: Any = SimpleNamespace(topic_id=lambda name: {"t": T, "u": U}[name])
    return ShareRequests("g", "m", ShareSettings(**settings), metadata)


def test_request_adds_and_removes_partitions_of_the_session() -> None:
    session = ShareSession()
    session.succeeded({(T, 0), (T, 1), (U, 5), (U, 6)})
    request = requests().fetch(session, {(T, 0), (T, 2), (T, 3)}, {})
    added = [(each.topic_id, [p.partition_index for p in each.partitions]) for each in request.topics]
    removed = [(each.topic_id, list(each.partitions)) for each in request.forgotten_topics_data]
    assert (added, removed) == ([(T, [2, 3])], [(T, [1]), (U, [5, 6])])
    assert (request.group_id, request.member_id, request.share_session_epoch) == ("g", "m", 1)


def test_acknowledgements_are_batches_of_equal_types() -> None:
    accept, reject = AcknowledgeType.ACCEPT, AcknowledgeType.REJECT
    types = {3: accept, 4: accept, 6: accept, 7: reject}
    request = requests().fetch(ShareSession(), {(T, 0)}, {("t", 0): types, ("u", 1): {9: reject}})
    found = {
        (topic.topic_id, partition.partition_index): [
            (batch.first_offset, batch.last_offset, list(batch.acknowledge_types))
            for batch in partition.acknowledgement_batches
        ]
        for topic in request.topics
        for partition in topic.partitions
    }
    assert found == {(T, 0): [(3, 4, [1]), (6, 7, [1, 3])], (U, 1): [(9, 9, [3])]}


def test_request_has_the_limits_of_the_settings() -> None:
    settings = {"fetch_max_wait": 0.75, "fetch_min_bytes": 7, "fetch_max_bytes": 99, "max_poll_records": 5}
    request = requests(**settings).fetch(ShareSession(), {(T, 0)}, {})
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (750, 7, 99)
    assert (request.max_records, request.batch_size, request.share_acquire_mode) == (5, 5, 0)
    limited = requests(share_acquire_mode="record_limit").fetch(ShareSession(), set(), {})
    assert limited.share_acquire_mode == 1


def test_final_acknowledgement_ends_the_session() -> None:
    session = ShareSession()
    session.succeeded()
    for final, epoch in ((False, 1), (True, -1)):
        request = requests().acknowledge(session, {}, renews=not final, final=final)
        assert (request.share_session_epoch, request.is_renew_ack) == (epoch, not final)
