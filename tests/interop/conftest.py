"""Fixtures: a cluster of its own for each test, so that its journal tells of nothing else. And what came of the tests."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from interop import matrix
from interop.stage import CONFIG, CONSUMER_HEARTBEAT_MS, FAMILIES, SESSION_MS, STATIC_SESSION_MS, Stage, stage_of

from mockbroker import run_cluster


@pytest.fixture
def stage() -> Iterator[Stage]:
    """One broker, topic ``orders`` with 6 partitions."""
    with run_cluster(topics={Stage.topic: Stage.partitions}, config=CONFIG) as cluster, stage_of(cluster) as stage:
        yield stage


@pytest.fixture
def wide_stage() -> Iterator[Stage]:
    """Three brokers, the partitions spread over them."""
    topics = {Stage.topic: Stage.partitions}
    with run_cluster(brokers=3, topics=topics, config=CONFIG) as cluster, stage_of(cluster) as stage:
        yield stage


@pytest.fixture
def consumer_stage() -> Iterator[Stage]:
    """One broker whose groups of the consumer protocol are quick; a static member has the time to come back."""
    with _consumer_stage(STATIC_SESSION_MS) as stage:
        yield stage


@pytest.fixture
def impatient_stage() -> Iterator[Stage]:
    """The same, but who is not heard of is soon gone."""
    with _consumer_stage(SESSION_MS) as stage:
        yield stage


@contextmanager
def _consumer_stage(session_ms: int) -> Iterator[Stage]:
    times = {
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.heartbeat.interval.ms": CONSUMER_HEARTBEAT_MS,
    }
    topics = {Stage.topic: Stage.partitions}
    with run_cluster(topics=topics, config=CONFIG | times) as cluster, stage_of(cluster) as stage:
        yield stage


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Each client."""
    return str(request.param)


# --- the matrix: tests that are marked as a scenario, by the client that they try ---

_results: dict[tuple[str, str], str] = {}
_meetings: dict[tuple[str, ...], str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients", type=Path, metavar="FILE", help="write what each client can do to FILE")
    parser.addoption("--every-failover", action="store_true", help="every scenario of test_failover with every client")
    parser.addoption("--groups", type=int, metavar="N", help="how many random groups test_assignors compares")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "scenario(name): a line of docs/clients.md; {assignor} is filled in")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    mark = item.get_closest_marker("scenario")
    if mark and (report.when == "call" or not report.passed):
        params = item.callspec.params  # type: ignore[attr-defined]
        said = "not run" if report.skipped else "ok" if report.passed else "FAILED"
        if "family" in params:
            scenario = mark.args[0].format(**params)
            about = (matrix.SAME.get(scenario, scenario), params["family"])
            _results[about] = max(said, _results.get(about, said), key=["ok", "not run", "FAILED"].index)
        else:
            _meetings[mark.args[0], *params.values()] = said
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("clients", None):
        path.write_text(matrix.page(_results, _meetings), "utf-8")
