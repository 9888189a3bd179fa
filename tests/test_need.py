from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from need import need

pytest_plugins = ["pytester"]


def test_installed_tool_is_returned() -> None:
    assert need("python3", "it is running").endswith("python3")


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_missing_tool_skips_or_fails_in_ci(ci: str, outcome: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no-such-tool is not installed: it would be of use"):
        need("no-such-tool", "it would be of use")


def test_a_timer_that_outlives_its_test_fails_it(pytester: pytest.Pytester) -> None:
    for name in ("conftest.py", "effort.py"):
        shutil.copy(Path(__file__).with_name(name), pytester.path)
    pytester.makeini("[pytest]\npythonpath = .\nmarkers = long")
    pytester.makepyfile("""
        import threading, pytest
        def test_skipped():
            threading.Timer(60, print).start()
            pytest.skip("a tool is missing")
        def test_cancelled():
            timer = threading.Timer(60, print)
            timer.start()
            timer.cancel()
    """)
    pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=60).assert_outcomes(skipped=1, errors=1, passed=1)
