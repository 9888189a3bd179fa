"""The address of a recording in a topic."""

from __future__ import annotations

import pytest

from kwire.topic_address import TOPIC_ADDRESS, is_topic


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
