from __future__ import annotations

import threading
from collections.abc import Generator
from typing import Any

import effort
import pytest
from hypothesis import HealthCheck, settings

TOGETHER = ("tests/spark/",)  # one JVM for all of them
FIRST = (  # files and folders that take longest, by time
    "tests/interop/test_groups",
    "tests/spark/",
    "tests/test_cost",
    "tests/interop/",
    "tests/mockbroker/cli/",
    "tests/test_snippets",
    "tests/mockbroker/lab/conform/test_runner",
    "tests/mockbroker/lab/history/test_page",
    "tests/mockbroker/lab/history/test_comparison",
    "tests/kwire/engines/test_compiled",
    "tests/mockbroker/groups/records/test_restart",
    "tests/test_consumer_examples",
    "tests/test_examples",
    "tests/mockbroker/test_load",
    "tests/kwire/analysis/report/test_html_page",
    "tests/kwire/capture/test_hostile",
    "tests/mockbroker/lab/simulation/",
)

settings.register_profile(
    "kwire", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("kwire")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="try everything, as make test-long does")
    parser.addoption("--bootstrap", metavar="HOST:PORT", help="a real Kafka for the examples with a consumer")


def pytest_configure(config: pytest.Config) -> None:
    """Before test modules are imported, which take their amounts from effort.LONG."""
    effort.LONG = config.getoption("--long")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not effort.LONG:
        long = {item: None for item in items if item.get_closest_marker("long")}
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    if hasattr(
        config, "workerinput"
    ):  # one of several processes: none begins with the longest file when all others are done
        items.sort(key=lambda item: _rank(item.nodeid))


def _rank(nodeid: str) -> int:
    return next((rank for rank, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST))


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

    config.option.loadscopereorder = False  # the order of FIRST, not of the numbers of tests
    return ByFile(config, log)
