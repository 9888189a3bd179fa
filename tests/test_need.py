from __future__ import annotations

import pytest
from need import need


def test_a_tool_that_is_there() -> None:
    assert need("python3", "it is running").endswith("python3")


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_tool_that_is_not(ci: str, outcome: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no-such-tool is not installed: it would be of use"):
        need("no-such-tool", "it would be of use")
