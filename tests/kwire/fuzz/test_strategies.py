from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from effort import amount, every
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from strategies import MESSAGES, layouts

from kwire import decode_request, decode_response, encode
from kwire.errors import SchemaError
from kwire.fuzz.strategies import DIRECTIONS, Direction, any_message, frames, messages
from kwire.layout import versions_of
from kwire.messages import APIS
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.metadata import MetadataRequest
from kwire.schema import unknown_tags

QUICK = settings(max_examples=2_000, database=None, phases=[Phase.generate])  # no shrinking of the example


@pytest.mark.parametrize("message", every(3, MESSAGES), ids=lambda message: message.__name__)
@settings(max_examples=amount(1, 3))
@given(data=st.data())
def test_every_value_can_be_written(message: type, data: st.DataObject) -> None:
    for version in layouts(message):
        encode(data.draw(messages(message, version)), version)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("key", every(3, list(APIS)))
@settings(max_examples=amount(2, 5))
@given(data=st.data())
def test_frames(key: int, direction: Direction, data: st.DataObject) -> None:
    api = APIS[key]
    version = data.draw(st.sampled_from(list(versions_of(api.versions))))
    frame = data.draw(frames(api, version, direction))
    if direction == "request":
        decoded = decode_request(frame, strict=True)
        assert (decoded.api, decoded.version) == (api, version)
    else:
        assert decode_response(frame, key, version, strict=True).api is api


@given(any_message())
def test_any_message(drawn: tuple[Any, int]) -> None:
    value, version = drawn
    encode(value, version)


EDGES: list[tuple[type, int, Any]] = [
    (HeartbeatRequest, 0, lambda beat: beat.group_id == ""),
    (HeartbeatRequest, 4, lambda beat: len(beat.group_id) == 127),
    (HeartbeatRequest, 4, lambda beat: "\udcff" in beat.member_id),
    (HeartbeatRequest, 4, lambda beat: not beat.member_id.isascii()),
    (HeartbeatRequest, 4, lambda beat: beat.generation_id == -(2**31)),
    (HeartbeatRequest, 4, lambda beat: beat.generation_id == 2**31 - 1),
    (HeartbeatRequest, 4, lambda beat: beat.group_instance_id is None),
    (HeartbeatRequest, 4, lambda beat: 2**31 - 1 in unknown_tags(beat)),
    (MetadataRequest, 9, lambda asked: asked.topics is None),
    (MetadataRequest, 9, lambda asked: asked.topics == []),
    (LeaveGroupRequest, 5, lambda leave: len(leave.members) > 1),
]


@pytest.mark.parametrize(("message", "version", "wanted"), EDGES, ids=range(len(EDGES)))
def test_edges_are_reached(message: type, version: int, wanted: Any) -> None:
    assert wanted(find(messages(message, version), wanted, settings=QUICK))


def test_no_such_version() -> None:
    with pytest.raises(SchemaError):
        messages(HeartbeatRequest, 99)


def test_hypothesis_is_not_needed_for_the_rest() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None; import kwire, kwire.cli; "
        "from importlib import import_module as load; from pathlib import Path; "
        "folder = Path(kwire.__file__).parent / 'fuzz'; "
        "[load(f'kwire.fuzz.{path.stem}') for path in folder.glob('[!_]*.py') if path.stem != 'strategies']"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
