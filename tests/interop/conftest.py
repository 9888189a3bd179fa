"""Fixtures: a cluster of its own for each test, so that its journal tells of nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from interop.stage import CONFIG, FAMILIES, Stage, stage_of

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


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Each client."""
    return str(request.param)
