"""What Kafka 4.2.0 was seen to answer, and what we answer, scenario by scenario; the differences that are left are
named one by one."""

from __future__ import annotations

import pytest
from tools.replay import SEMANTICS, Replay

SAME = [
    "commit_bad_topics",
    "commit_states",
    "first_join_member_id_required",
    "first_join_old_versions",
    "heartbeat_states",
    "heartbeats_keep_alive",
    "held_join_keeps_session",
    "initial_rebalance_delay",
    "initial_rebalance_delay_single",
    "join_empty_protocols",
    "join_inconsistent_protocol",
    "join_invalid_session_timeout",
    "join_twice_while_held",
    "join_unknown_member",
    "leader_rejoin_and_follower_rejoin",
    "leave_states",
    "list_groups",
    "list_offsets_cases",
    "offset_fetch_cases",
    "pipelining",
    "protocol_of_other_type",
    "rebalance_timeout_evicts",
    "session_timeout_single",
    "simple_consumer_commits",
    "sync_again",
    "sync_before_all_joined",
    "sync_errors",
    "sync_partial_assignment",
    "two_members_join",
]
OTHERWISE = {  # scenario: where, and beginnings of what differs
    "find_coordinator_versions": ["16: FindCoordinator v3.error_code: 15, ours 42"],  # no transactions
    "metadata_cases": [
        "4: Metadata v1.topics: ",  # theirs has the topics of other scenarios
        "21: Metadata v9.topics[0].partitions: ",  # their num.partitions is not in the transcript
    ],
    "fetch_holds": [  # no fetch sessions
        "2: CreateTopics v5.topics[0].configs: ",  # ours are those that were given
        "30: Fetch v11.session_id: 121588565, ours 0",
        "32: Fetch v11.error_code: 0, ours 70",
        "32: Fetch v11.responses: ",
        "32: Fetch v11.session_id: 121588565, ours 0",
        "34: Fetch v11.error_code: 71, ours 70",
    ],
    "produce_cases": [
        "2: CreateTopics v5.topics[0].configs: ",
        "27: InitProducerId v3.producer_id: 3, ours 0",
    ],
}
pytestmark = pytest.mark.skipif(not SEMANTICS.is_dir(), reason=f"no transcripts in {SEMANTICS}")


@pytest.mark.parametrize("scenario", SAME)
def test_as_recorded(scenario):
    assert Replay(scenario).run() == []


@pytest.mark.parametrize("scenario", OTHERWISE)
def test_as_recorded_but_for(scenario):
    found = Replay(scenario).run()
    known = OTHERWISE[scenario]
    assert len(found) == len(known), found
    assert [text for text, start in zip(found, known, strict=True) if not text.startswith(start)] == []


def test_a_difference_is_seen():
    replay = Replay("heartbeat_states")
    steps = replay.script["steps"]
    beats = [step for step in steps if step["event"] == "response" and step["api"] == "Heartbeat"]
    for step in beats:
        step["fields"]["errorCode"] += 1
    assert len(replay.run()) == len(beats)
