"""The stored state of a stream: every value is read back unchanged, and no code in a forged state is run."""

from __future__ import annotations

import os
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from uuid import UUID

import pytest

pytest.importorskip("pyarrow")

from kwire import ErrorCode
from kwire.analysis.clusters import ClusterStatement
from kwire.analysis.topics import Watermark
from kwire.analysis.transactions import Ending
from kwire.analysis.usage import _Count
from kwire.capture.tcp.stream import Piece
from kwire.messages.join_group import JoinGroupRequest
from kwire.spark import plain
from kwire.spark.bundles import unbundle

VALUES = [
    None,
    [1, 2**70, -1.5, True, "text \udc80", b"\0", bytearray(b"x"), (), {"a": {1, 2}}, frozenset({"b"})],
    UUID(int=7),
    deque([1, 2]),
    Counter("aab"),
    OrderedDict(b=1, a=2),
    ErrorCode.NOT_COORDINATOR,
    Watermark(*range(len(Watermark.__slots__))),
    Piece(*range(len(Piece._fields))),
    JoinGroupRequest(group_id="g", protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"\1")]),
]


class Runs:
    """An object that runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_value_round_trip(value: object) -> None:
    result = plain.loads(plain.dumps(value))
    assert (type(result), result) == (type(value), value)


def test_shared_objects_stay_shared() -> None:
    one = _Count(3)
    result = plain.loads(plain.dumps([one, {"again": one}]))
    assert result[0] is result[1]["again"]


def test_default_of_a_counter_survives_pickling() -> None:
    counts: dict[str, _Count] = defaultdict(_Count, a=_Count(2))
    result = plain.loads(plain.dumps(counts))
    assert result == counts
    assert result["new"] == _Count()


def test_a_pickle_that_runs_a_command_is_refused(tmp_path) -> None:
    data = pickle.dumps([Runs(f"touch {tmp_path}/done")])
    for read in (plain.loads, unbundle):
        with pytest.raises(plain.PlainError, match=r"posix\.system is not allowed"):
            read(data)
    assert list(tmp_path.iterdir()) == []
    pickle.loads(data)
    assert list(tmp_path.iterdir()) != [], "the bytes do run it where anything may be named"


FORGED = [  # name, state
    ("os:system", ()),
    ("kwire.capture.files.file_systems:os", ()),
    ("kwire.analysis.usage:Counter", {}),
    ("kwire.analysis.usage:cache", {}),
    ("kwire.messages.__init__:import_module", {}),
    ("kwire.messages...os:system", {}),
    ("kwire.capture.files.blocks:Damage", {}),
    ("kwire.analysis.topics:Watermark.__init__", {}),
    ("kwire.analysis.topics:Watermark", {"__class__": 1}),
    ("kwire.analysis.topics:Watermark", {"none": 1}),
    ("defaultdict os:system", {}),
]


@pytest.mark.parametrize(("name", "state"), FORGED, ids=[name for name, _ in FORGED])
def test_only_fields_of_known_classes_are_set(name: str, state: object) -> None:
    with pytest.raises(plain.PlainError):
        plain.loads(_written(name, state))


def _written(name: str, state: object) -> bytes:
    """Return forged bytes: MADE by its name, its arguments, and a call."""
    arguments = pickle.dumps((name, state), 2)[2:-1]
    return b"\x80\x02c" + f"{plain.__name__}\nMADE\n".encode() + arguments + b"R."


def test_a_class_that_is_not_known_is_an_error_at_once() -> None:
    for value in (ClusterStatement, Runs("x"), open):
        with pytest.raises(plain.PlainError, match="is not allowed in the stored state"):
            plain.dumps(value)


@pytest.mark.parametrize("data", [b"", b"\0", plain.dumps([1, 2])[:-3], b"\x80\x05}."[:2], b"not this"])
def test_damage_is_one_error(data: bytes) -> None:
    with pytest.raises(plain.PlainError, match="cannot be decoded by this release of kwire"):
        plain.loads(data)


def test_the_end_of_a_transaction_is_kept() -> None:
    """The output of ConnectionFollower for a capture with transactions is stored and read back."""
    result = Ending(*range(len(Ending.__slots__)))
    assert plain.loads(plain.dumps([result])) == [result]


def test_state_of_an_earlier_release_is_an_error() -> None:
    """The class of the state had fewer fields in that release."""
    state = dict.fromkeys(("key", "capture_id", "slice_calls", "conversation", "fold", "calls", "slicer"))
    data = _written("kwire.spark.following:ConnectionFollower", state)
    with pytest.raises(plain.PlainError, match="lacks field keylog of class "):
        plain.loads(data)
