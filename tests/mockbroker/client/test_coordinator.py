"""Who is asked for the coordinator, and over which connection it is talked to."""

from __future__ import annotations

from typing import Any

import pytest
from tools.nodes import BOOTSTRAP, Nodes

from kwire.messages.find_coordinator import FindCoordinatorResponse
from kwire.messages.metadata import METADATA, MetadataRequest
from mockbroker.client.errors import ConsumerError, UnsupportedVersion
from mockbroker.client.network import COORDINATOR


def subscribed(**settings: Any) -> Nodes:
    nodes = Nodes(**settings)
    nodes.engine.subscribe(["t"])
    return nodes


def test_the_coordinator_has_a_connection_of_its_own() -> None:
    nodes = subscribed(coordinator=2)
    nodes.stable()
    node = nodes.engine.coordinator.node
    assert (node.id, node.port) == (2_147_483_647 - 2, BOOTSTRAP + 2) == (COORDINATOR - 2, 9002)
    broker = nodes.engine.network.broker(2)
    nodes.engine.network.ask(broker, 3, lambda _: nodes.last("Metadata"))
    nodes.settle()
    links = [link for link in nodes.links if link.port == 9002]
    assert len(links) == 2, "one for the group, one for everything else"
    over = {one.api for one in nodes.seen if one.link is nodes.group_link()} - {"ApiVersions"}
    assert over == {"JoinGroup", "SyncGroup", "OffsetFetch"}


def test_whoever_has_the_fewest_requests_under_way_is_asked() -> None:
    nodes = subscribed()
    nodes.stable()
    network = nodes.engine.network
    del nodes.answers["Metadata"]
    for node, busy in ((1, 3), (2, 1), (3, 2)):
        for _ in range(busy):
            network.ask(network.broker(node), METADATA.key, lambda _: MetadataRequest())
    nodes.settle()
    assert [network.broker(node).in_flight for node in (1, 2, 3)] == [3, 1, 2]
    asked = []
    nodes.answers["FindCoordinator"] = lambda _: None
    for _ in range(4):
        nodes.engine.coordinator.node = None
        nodes.engine.coordinator._question.under_way = False
        nodes.settle()
        asked.append([one for one in nodes.seen if one.api == "FindCoordinator"][-1].port)
    assert asked[0] == 9002
    assert set(asked[1:3]) == {9002, 9003}, "as busy then as each other"


def test_nobody_is_asked_while_it_is_known() -> None:
    nodes = subscribed()
    nodes.stable()
    nodes.wait(2.9)
    nodes.member.rejoin("a test")
    nodes.poll()
    assert nodes.count("FindCoordinator") == 1


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_the_question(version: int) -> None:
    nodes = subscribed(served={"FindCoordinator": (0, version)})
    nodes.poll()
    sent = nodes.last("FindCoordinator")
    if version >= 4:
        assert (sent.coordinator_keys, sent.key_type) == (["g"], 0)
    else:
        assert (sent.key, sent.key_type) == ("g", 0)
    assert nodes.open("JoinGroup")


def test_unreachable_coordinator_is_looked_up_after_a_backoff() -> None:
    nodes = subscribed()
    nodes.refused = {9001}
    nodes.poll()
    nodes.wait(1.0, polling=True)
    assert nodes.engine.coordinator.node is None
    asked = nodes.count("FindCoordinator")
    assert 2 <= asked <= 8, "and not as fast as can be"
    nodes.coordinator = 2
    nodes.until("JoinGroup", within=2.0)
    assert nodes.one("JoinGroup").port == 9002


def test_a_coordinator_that_moves() -> None:
    nodes = subscribed()
    nodes.stable()
    nodes.coordinator = 3
    asked = nodes.until("Heartbeat")
    nodes.cut(asked.link, polling=False)
    nodes.wait(1.0)
    assert nodes.engine.coordinator.node.port == 9003
    nodes.until("Heartbeat", polling=False)
    assert nodes.one("Heartbeat").port == 9003
    assert (nodes.assigned, nodes.count("JoinGroup")) == (["t0"], 1), "what is consumed goes on"


def test_to_be_found_renews_the_session() -> None:
    nodes = subscribed()
    nodes.stable()
    nodes.wait(2.0)
    nodes.engine.coordinator.unknown()
    nodes.settle()
    assert nodes.member.beat.session == 47.0


def found(*keys: str) -> FindCoordinatorResponse:
    one = FindCoordinatorResponse.Coordinator
    return FindCoordinatorResponse(coordinators=[one(key=key, node_id=1, host="node1", port=9001) for key in keys])


def test_an_answer_about_another_group_is_no_answer() -> None:
    nodes = subscribed()
    del nodes.answers["FindCoordinator"]
    nodes.poll()
    nodes.answer("FindCoordinator", found("other"))
    assert nodes.engine.coordinator.node is None
    nodes.until("FindCoordinator", within=1.0)


@pytest.mark.parametrize("keys", [(), ("g", "g"), ("g", "other")])
def test_not_one_coordinator_but_several_or_none(keys: tuple[str, ...]) -> None:
    nodes = subscribed()
    del nodes.answers["FindCoordinator"]
    nodes.poll()
    with pytest.raises(ConsumerError, match=f"one coordinator was asked for, {len(keys)} were answered"):
        nodes.answer("FindCoordinator", found(*keys))
    assert nodes.engine.coordinator.node is None


def test_a_broker_without_coordinators() -> None:
    nodes = subscribed(served={"FindCoordinator": (0, -1)})
    with pytest.raises(UnsupportedVersion, match="FindCoordinator"):
        nodes.poll()


def test_no_coordinator_lookup_without_group_or_subscription() -> None:
    alone = Nodes(group=None)
    alone.engine.assign([("t", 0)])
    member = Nodes()
    for nodes in (alone, member):
        nodes.settle(polling=True)
        nodes.wait(10, polling=True)
        assert nodes.count("FindCoordinator") == 0


def test_manual_assignment_uses_the_coordinator_for_offsets_only() -> None:
    nodes = Nodes()
    nodes.engine.assign([("t", 0)])
    nodes.poll()
    commit = nodes.commit({("t", 0): 8})
    sent = nodes.one("OffsetCommit").body
    assert (sent.generation_id_or_member_epoch, sent.member_id) == (-1, "")
    nodes.committed()
    assert commit.error is None
    nodes.wait(60, polling=True)
    assert (nodes.count("JoinGroup"), nodes.count("Heartbeat"), nodes.count("OffsetFetch")) == (0, 0, 1)
