"""Committed offsets of one group."""

from __future__ import annotations

from mockbroker.groups.offsets import Committed, Offsets


def test_there_are_no_offsets_at_first():
    offsets = Offsets()
    assert offsets.get("t", 0) is None
    assert offsets.by_topic() == {}


def test_the_last_commit_replaces_earlier_ones():
    offsets = Offsets()
    offsets.store("t", 0, Committed(offset=5, leader_epoch=1, metadata="a"))
    offsets.store("t", 0, Committed(offset=3))
    assert offsets.get("t", 0) == Committed(offset=3, leader_epoch=-1, metadata="")


def test_offsets_are_kept_by_topic_and_partition():
    offsets = Offsets()
    offsets.store("t", 0, Committed(offset=1))
    offsets.store("t", 1, Committed(offset=2))
    offsets.store("u", 0, Committed(offset=-7))
    assert offsets.get("u", 1) is None
    assert offsets.by_topic() == {
        "t": {0: Committed(offset=1), 1: Committed(offset=2)},
        "u": {0: Committed(offset=-7)},
    }


def test_topics_have_the_order_of_their_first_commits():
    offsets = Offsets()
    for topic, partition in (("b", 3), ("a", 1), ("b", 0), ("b", 3)):
        offsets.store(topic, partition, Committed(offset=0))
    assert [(topic, list(found)) for topic, found in offsets.by_topic().items()] == [("b", [3, 0]), ("a", [1])]
