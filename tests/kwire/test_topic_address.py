"""The address of a recording in a topic."""

from __future__ import annotations

import pytest

from kwire.topic_address import PARTITION_ADDRESS, TOPIC_ADDRESS, is_partition, is_topic, partition_address


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("kafka://127.0.0.1:9092/frames", ("127.0.0.1:9092", "frames")),
        ("kafka://a:1,[::1]:2/a.b_c-d", ("a:1,[::1]:2", "a.b_c-d")),
        ("kafka://broker:9092/", None),
        ("kafka://broker/frames", None),
        ("kafka://broker:9092/fra/mes", None),
        ("frames.jsonl", None),
    ],
)
def test_an_address_has_host_port_and_topic(text: str, parts: tuple[str, str] | None) -> None:
    match = TOPIC_ADDRESS.fullmatch(text)
    assert (match and (match["servers"], match["topic"])) == parts
    assert is_topic(text) == (parts is not None)


@pytest.mark.parametrize("address", ["kafka://a:1/t", "kafka://a:1/t?config=/etc/c.properties/3"])
def test_a_partition_is_part_of_the_path(address: str) -> None:
    partition = partition_address(address, 7)
    assert (is_topic(partition), is_partition(partition), is_partition(address)) == (False, True, False)
    topic, found = TOPIC_ADDRESS.fullmatch(address), PARTITION_ADDRESS.fullmatch(partition)
    assert topic is not None
    assert found is not None
    assert found.groupdict() == {**topic.groupdict(), "partition": "7"}
