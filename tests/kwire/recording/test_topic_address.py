"""The address of a recording in a topic."""

from __future__ import annotations

import pytest

from kwire.recording.topic_address import TOPIC_ADDRESS


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("kafka://127.0.0.1:9092/frames", ("127.0.0.1:9092", "frames")),
        ("kafka://broker:9092/", None),
        ("kafka://broker/frames", None),
        ("kafka://broker:9092/fra/mes", None),
    ],
)
def test_an_address_has_host_port_and_topic(text: str, parts: tuple[str, str] | None) -> None:
    match = TOPIC_ADDRESS.fullmatch(text)
    assert (match and (match["servers"], match["topic"])) == parts
