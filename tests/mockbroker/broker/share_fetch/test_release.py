"""The end of a share session on a broker that has lost the leadership of a partition in the session."""

from __future__ import annotations

from tools.share_harness import ShareHarness, Sharer

from mockbroker.broker import failover
from mockbroker.broker.share_fetch.release import leader_of
from mockbroker.topics.model import NO_LEADER


def test_records_acquired_from_the_next_leader_stay_acquired():
    h = ShareHarness({"t": 1}, brokers=2)
    partition = h.partition()
    partition.replicas = [0, 1]
    old, new = partition.leader, 1 - partition.leader
    h.produce(3)
    before = Sharer(h=h, node=old)
    assert before.acquire(0) == [(0, 2, 1)]
    h.apply(failover.move_leader(h.broker, partition, new, h.now))
    after = Sharer(h=h, node=new)
    assert after.acquire(0) == [(0, 2, 1)]
    h.disconnect(before.session[0])
    assert Sharer(h=h, name="b", node=new).acquire(0) == []
    h.disconnect(after.session[0])
    assert Sharer(h=h, name="c", node=new).acquire(0) == [(0, 2, 2)]


def test_a_partition_of_a_deleted_topic_has_no_leader():
    h = ShareHarness({"t": 1})
    assert leader_of(h.broker, h.topic_id("t"), 0) == h.partition().leader
    assert leader_of(h.broker, h.topic_id("t"), 1) == NO_LEADER
    topic_id = h.topic_id("t")
    del h.broker.cluster.by_id[topic_id]
    assert leader_of(h.broker, topic_id, 0) == NO_LEADER
