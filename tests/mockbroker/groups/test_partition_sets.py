"""Sets of partitions by topic, for descriptions and records."""

from __future__ import annotations

from uuid import UUID

from kwire.json.objects import uuid_text
from mockbroker.groups.partition_sets import by_known_name, by_topic_id, metadata_hash

ONE, TWO = UUID(int=1), UUID(int=2)
PARTITIONS = frozenset({(TWO, 0), (ONE, 3), (ONE, 1)})


def test_partitions_are_sorted_by_topic_id() -> None:
    assert list(by_topic_id(PARTITIONS).items()) == [(ONE, [1, 3]), (TWO, [0])]


def test_a_topic_without_a_name_is_listed_with_its_id() -> None:
    assert by_known_name(PARTITIONS, {TWO: "t"}) == {uuid_text(ONE): [1, 3], "t": [0]}


def test_the_hash_depends_on_names_ids_and_counts() -> None:
    hashes = [
        metadata_hash(metadata) for metadata in ({"t": (ONE, 1)}, {"u": (ONE, 1)}, {"t": (TWO, 1)}, {"t": (ONE, 2)}, {})
    ]
    assert len(set(hashes)) == len(hashes)
    assert hashes[-1] == 0
    assert metadata_hash({"t": (ONE, 1), "u": (TWO, 2)}) == metadata_hash({"u": (TWO, 2), "t": (ONE, 1)})
