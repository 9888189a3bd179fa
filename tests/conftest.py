from __future__ import annotations

import gc
import threading
from collections.abc import Generator
from itertools import zip_longest
from typing import Any

import effort
import pytest
from hypothesis import HealthCheck, settings

TOGETHER = ("tests/spark/",)  # all of them share one JVM
WAITING = (  # files and folders whose tests mostly wait for clients and processes
    "tests/interop/",
    "tests/mockbroker/cli/",
    "tests/mockbroker/page/",
    "tests/mockbroker/test_pytest_plugin",
    "tests/test_consumer_examples",
    "tests/test_distribution",
    "tests/test_examples",
    "tests/test_how_to",
    "tests/test_snippets",
)
FIRST = (  # files and folders that take longest, by time
    "tests/interop/test_groups",
    "tests/spark/",
    "tests/test_snippets",
    "tests/test_cost",
    "tests/interop/test_faults",
    "tests/mockbroker/lab/conform/test_runner",
    "tests/test_distribution",
    "tests/mockbroker/lab/simulation/test_run",
    "tests/test_how_to",
    "tests/test_tidy",
    "tests/interop/",
    "tests/mockbroker/test_load",
    "tests/mockbroker/test_costs",
    "tests/mockbroker/cli/",
    "tests/mockbroker/page/test_page",
    "tests/mockbroker/test_pytest_plugin",
    "tests/test_consumer_examples",
    "tests/test_examples",
    "tests/test_messages",
    "tests/mockbroker/lab/history/test_comparison",
    "tests/mockbroker/lab/simulation/",
    "tests/kwire/engines/test_compiled",
    "tests/kwire/messages/test_definitions",
    "tests/kwire/capture/test_hostile",
    "tests/mockbroker/test_memory",
    "tests/test_fuzzing",
    "tests/mockbroker/test_scenarios",
    "tests/mockbroker/groups/records/test_restart",
    "tests/kwire/analysis/report/test_html_page",
    "tests/mockbroker/lab/history/test_page",
)

settings.register_profile(
    "kwire", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("kwire")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="try everything, as make test-long does")
    parser.addoption("--bootstrap", metavar="HOST:PORT", help="a real Kafka for the examples with a consumer")


def pytest_report_header() -> str:
    return f"seeds of the day for the simulator: from {effort.seed_of_the_day()}"


def pytest_configure(config: pytest.Config) -> None:
    """Set effort.LONG before test modules are imported, because they take their amounts from it."""
    effort.LONG = config.getoption("--long")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exclude tests and modules from garbage collections: they are most objects of a process, and are never freed."""
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not effort.LONG:
        long = {item: None for item in items if item.get_closest_marker("long")}
        config.hook.pytest_deselected(items=list(long))
        items[:] = [item for item in items if item not in long]
    if hasattr(config, "workerinput"):  # one of several processes
        place = _places(items)
        items.sort(key=lambda item: place[_file(item)])


def _places(items: list[pytest.Item]) -> dict[str, int]:
    """Return the place of each file in the run.

    The longest come first, so that no process begins one of them when all others are done. Files that wait alternate with
    files that compute, so that the cores are busy.
    """
    files = sorted(dict.fromkeys(_file(item) for item in items), key=_rank)
    waiting = [file for file in files if file.startswith(WAITING)]
    computing = [file for file in files if not file.startswith(WAITING)]
    pairs = zip_longest(waiting, computing)
    return {file: number for number, file in enumerate(file for pair in pairs for file in pair if file is not None)}


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _rank(file: str) -> int:
    return next((rank for rank, start in enumerate(FIRST) if file.startswith(start)), len(FIRST))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Fail a test whose timers outlive it: they would disturb a later test. After the last test of a file, the objects
    that are still in memory are excluded from later garbage collections, as modules are.
    """
    yield
    if nextitem is None or _file(item) != _file(nextitem):
        gc.collect()
        gc.freeze()
    pending = [
        each for each in threading.enumerate() if isinstance(each, threading.Timer) and not each.finished.is_set()
    ]
    for timer in pending:
        timer.cancel()
    assert not pending, f"{len(pending)} timers outlive the test: cancel them in its finally"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Run the tests of one file, and those of some folders, in one process (with ``-n 2``): they share fixtures."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return next((folder for folder in TOGETHER if file.startswith(folder)), file)

    config.option.loadscopereorder = False  # the order of FIRST, not of the numbers of tests
    return ByFile(config, log)
