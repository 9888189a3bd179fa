"""Fixtures: a new cluster for each test, so that its journal has no other events; and the collection of results."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from interop import matrix
from interop.gathering import Gathering, gathering_on
from interop.ground import MOCK, SETTINGS, Ground, MockGround, RealGround
from interop.missing import clients_of, refuse_late_skip
from interop.stage import (
    CONFIG,
    CONSUMER_HEARTBEAT_MS,
    FAMILIES,
    SESSION_MS,
    STATIC_SESSION_MS,
    Stage,
    need_client,
    stage_of,
)
from oracle import kafka

from mockbroker import run_cluster


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Yield a stage with one broker and the topic ``orders`` with 6 partitions."""
    with run_cluster(topics={Stage.topic: Stage.partitions}, config=CONFIG) as cluster, stage_of(cluster) as stage:
        yield stage


@pytest.fixture
def wide_stage() -> Iterator[Stage]:
    """Yield a stage with three brokers, over which the partitions are spread."""
    topics = {Stage.topic: Stage.partitions}
    with run_cluster(brokers=3, topics=topics, config=CONFIG) as cluster, stage_of(cluster) as stage:
        yield stage


@pytest.fixture
def consumer_stage() -> Iterator[Stage]:
    """Yield a stage with short timeouts of the consumer protocol; a static member has enough time to return."""
    with _consumer_stage(STATIC_SESSION_MS) as stage:
        yield stage


@pytest.fixture
def impatient_stage() -> Iterator[Stage]:
    """Yield a stage like ``consumer_stage`` with a short session timeout: a silent member expires soon."""
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
    """Return the family of a client: each in turn."""
    return str(request.param)


# --- missing clients, which are found before a test starts a process ---


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test, or in CI fail it, before its fixtures start, if one of its clients is missing."""
    for family in clients_of(item):
        need_client(family)


# --- our consumer: on the mock, and on real brokers ---


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize ``ground`` with mockbroker, the newest Kafka and the releases of --real.

    ``pytest_collection_modifyitems`` removes the tests that are not requested.
    """
    if "ground" in metafunc.fixturenames:
        kinds = [MOCK, kafka.NEWEST, *_asked_for(metafunc.config)]
        metafunc.parametrize("ground", list(dict.fromkeys(kinds)), indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if _is_asked_for(item, _asked_for(config))]


def _asked_for(config: pytest.Config) -> list[str]:
    """Return the releases of real brokers that were requested with --real."""
    return [release for release in (config.getoption("--real", None) or "").split(",") if release]


def _is_asked_for(item: pytest.Item, releases: list[str]) -> bool:
    kind = getattr(item, "callspec", None) and item.callspec.params.get("ground")  # type: ignore[attr-defined]
    if kind is None:
        return True
    if kind == MOCK:
        return bool(releases) or not item.get_closest_marker("more")
    since = item.get_closest_marker("since")
    can = since is None or kind >= since.args[0]
    return can and (kind in releases or item.get_closest_marker("real") is not None)


@pytest.fixture(scope="session")
def real_grounds() -> Iterator[dict[str, RealGround]]:
    """Yield real brokers by release, each of which is started on first use."""
    started: dict[str, RealGround] = {}
    with ExitStack() as stack:
        yield started
        for one in started.values():
            stack.push(one)


@pytest.fixture
def ground(request: pytest.FixtureRequest, real_grounds: dict[str, RealGround]) -> Iterator[Ground]:
    """Yield the broker with which our consumer is tested."""
    if request.param == MOCK:
        with run_cluster(config=SETTINGS) as cluster, MockGround(cluster) as ground:
            yield ground
        return
    if request.param not in real_grounds:
        real_grounds[request.param] = RealGround(request.param)
    yield real_grounds[request.param]


@pytest.fixture
def gathering(ground: Ground) -> Iterator[Gathering]:
    """Yield a gathering with a topic of 6 partitions, without members."""
    with gathering_on(ground) as gathering:
        yield gathering


# --- the matrix: tests that are marked as a scenario, by the client that they test ---

_results: dict[tuple[str, str], str] = {}
_meetings: dict[tuple[str, ...], str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clients", type=Path, metavar="FILE", help="write what each client can do to FILE")
    parser.addoption("--real", metavar="RELEASES", help="try our consumer on these real Kafkas too: 4.2.0,3.9.1")
    parser.addoption("--every-failover", action="store_true", help="every scenario of test_failover with every client")
    parser.addoption("--groups", type=int, metavar="N", help="how many random groups test_assignors compares")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "real: with the fixture ground, on a real Kafka even without --real")
    config.addinivalue_line("markers", "more: with the fixture ground, only with --real")
    config.addinivalue_line("markers", "since(release): with the fixture ground, the first real Kafka that can do it")
    config.addinivalue_line("markers", "clients(family, ...): the clients that a test needs beside its parameters")
    config.addinivalue_line("markers", "scenario(name): a line of docs/clients.md; {assignor} is filled in")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_late_skip(report, getattr(item, "funcargs", {}))
    mark = item.get_closest_marker("scenario")
    if mark and (report.when == "call" or not report.passed):
        params = item.callspec.params  # type: ignore[attr-defined]
        verdict = "not run" if report.skipped else "ok" if report.passed else "FAILED"
        if "family" in params:
            scenario = mark.args[0].format(**params)
            about = (matrix.SAME.get(scenario, scenario), params["family"])
            _results[about] = max(verdict, _results.get(about, verdict), key=["ok", "not run", "FAILED"].index)
        elif params.get("ground", MOCK) == MOCK:
            _meetings[mark.args[0], *(value for name, value in params.items() if name != "ground")] = verdict
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := session.config.getoption("clients", None):
        path.write_text(matrix.page(_results, _meetings), "utf-8")
