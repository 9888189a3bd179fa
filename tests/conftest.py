from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

TOGETHER = ("tests/interop/", "tests/spark/")  # their tools are built once, and need much memory

settings.register_profile(
    "kwire", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("kwire")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--bootstrap", metavar="HOST:PORT", help="a real Kafka for the examples with a consumer")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """Fail a test whose timers outlive it: what they do later fails another."""
    yield
    pending = [
        each for each in threading.enumerate() if isinstance(each, threading.Timer) and not each.finished.is_set()
    ]
    for timer in pending:
        timer.cancel()
    assert not pending, f"{len(pending)} timers outlive the test: cancel them in its finally"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Side by side (``-n 2``), tests of one file stay in one process, as what they share does, and those of some folders."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    return ByFile(config, log)
