from __future__ import annotations

import copy
import pickle

import pytest

from kwire import errors

TEXTS: list[tuple[Exception, str]] = [
    (errors.DecodeError("why"), "at byte 0: why"),
    (errors.DecodeError("why", offset=7, message="M", version=3, path="a.b"), "M v3 at byte 7, a.b: why"),
    (errors.DecodeError("why", offset=7, message="M", path="a"), "M at byte 7, a: why"),
    (errors.DecodeError("why", offset=7, message="M"), "M at byte 7: why"),
    (errors.EncodeError("why"), "why"),
    (errors.EncodeError("why", path="a"), "a: why"),
    (errors.EncodeError("why", message="M", version=0), "M v0: why"),
    (errors.EncodeError("why", message="M", version=0, path="a[0]"), "M v0, a[0]: why"),
]


@pytest.mark.parametrize(("error", "text"), TEXTS)
def test_text(error: Exception, text: str) -> None:
    assert str(error) == text


LOCATED: list[Exception] = [
    errors.EncodeError("why", path="a", message="M", version=3),
    errors.Truncated("why", path="a", offset=7, message="M", version=3),
    errors.UnknownApi("why", path="a", offset=7, message="M"),
    errors.UnknownRecordType("why", 99, message="M"),
]


@pytest.mark.parametrize("error", LOCATED, ids=lambda error: type(error).__name__)
def test_copies_are_complete(error: Exception) -> None:
    for again in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


PARENTS = [
    (errors.SchemaError, errors.WireError),
    (errors.EngineError, errors.WireError),
    (errors.EncodeError, errors.WireError),
    (errors.DecodeError, errors.WireError),
    (errors.Truncated, errors.DecodeError),
    (errors.LimitError, errors.DecodeError),
    (errors.CrcError, errors.DecodeError),
    (errors.UnknownApi, errors.DecodeError),
    (errors.UnknownRecordType, errors.UnknownApi),
    (errors.FrameError, errors.WireError),
    (errors.ProtocolError, errors.WireError),
    (errors.LocalProtocolError, errors.ProtocolError),
    (errors.RemoteProtocolError, errors.ProtocolError),
    (errors.WireError, ValueError),
]


@pytest.mark.parametrize(("error", "parent"), PARENTS)
def test_tree(error: type, parent: type) -> None:
    assert issubclass(error, parent)


def test_the_tree_is_complete() -> None:
    results = {
        error for error in vars(errors).values() if isinstance(error, type) and not error.__name__.startswith("_")
    }
    assert results == {error for error, _ in PARENTS}
