"""Committed offsets of one group."""

from __future__ import annotations

from mockbroker.groups.offsets import Committed, Offsets


def test_nothing_is_there_at_first():
    offsets = Offsets()
    assert offsets.get("t", 0) is None
    assert offsets.by_topic() == {}


def test_the_last_commit_counts():
    offsets = Offsets()
    offsets.store("t", 0, Committed(offset=5, leader_epoch=1, metadata="a"))
    offsets.store("t", 0, Committed(offset=3))
    assert offsets.get("t", 0) == Committed(offset=3, leader_epoch=-1, metadata="")


def test_partitions_and_topics_do_not_mix():
    offsets = Offsets()
    offsets.store("t", 0, Committed(offset=1))
    offsets.store("t", 1, Committed(offset=2))
    offsets.store("u", 0, Committed(offset=-7))
    assert offsets.get("u", 1) is None
    assert offsets.by_topic() == {
        "t": {0: Committed(offset=1), 1: Committed(offset=2)},
        "u": {0: Committed(offset=-7)},
    }


def test_topics_stand_as_first_committed():
    offsets = Offsets()
    for topic, partition in (("b", 3), ("a", 1), ("b", 0), ("b", 3)):
        offsets.store(topic, partition, Committed(offset=0))
    assert [(topic, list(found)) for topic, found in offsets.by_topic().items()] == [("b", [3, 0]), ("a", [1])]
